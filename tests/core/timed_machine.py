"""A random world on a virtual clock: everything that starts ends, after its lane's service.

It holds what needs time to be seen: the starvation guard's promise and the minimum shares
of mode weighted.
"""

from dataclasses import replace
from math import ceil

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from scheduler.core.policy import Policy
from scheduler.core.ticket import Ticket

from .clockwork import Clockwork
from .scene import MS, SECOND, Scene, card

SERVICES = st.sampled_from([150 * MS, 200 * MS, 400 * MS])
SLOTS = 10
PATIENCE = 2 * SECOND


def impatient(mode: str) -> Policy:
    queues = Policy().queues
    p2 = replace(queues.P2, max_wait_ms=PATIENCE // MS)
    return replace(Policy(), mode=mode, queues=replace(queues, P2=p2))


class Timed(RuleBasedStateMachine):
    """Rules queue requests and let time pass."""

    mode = "strict"

    @initialize(service=st.tuples(SERVICES, SERVICES, SERVICES), seed=st.integers(1, 1000))
    def begin(self, service: tuple[int, int, int], seed: int) -> None:
        half = SLOTS // 2
        scene = Scene(card("a", half), card("b", half), policy=impatient(self.mode), seed=seed)
        self.service = service
        self.clock = Clockwork(scene, lambda ticket, _: service[ticket.lane])
        self.number = 0
        self.heads: dict[str, int] = {}

    @property
    def now(self) -> int:
        """The moment (ns)."""
        return self.clock.scene.now

    def queue(self, lane: int, count: int, businesses: int) -> None:
        tickets = []
        for _ in range(count):
            self.number += 1
            business = f"b{self.number % businesses}"
            level = (1, 4, 8)[lane]
            tickets.append(Ticket(f"n{self.number}", business, "m", lane, level, self.now))
        self.clock.run(tickets, self.now)

    @rule(lane=st.integers(0, 2), count=st.integers(1, 40), businesses=st.integers(1, 4))
    def arrive(self, lane: int, count: int, businesses: int) -> None:
        self.queue(lane, count, businesses)

    @rule(milliseconds=st.sampled_from([10, 150, 700, 2500]))
    def wait(self, milliseconds: int) -> None:
        """Time passes in small steps, each followed by a look."""
        until = self.now + milliseconds * MS
        while self.now < until:
            self.clock.run([], min(until, self.now + 50 * MS))
            self.look()

    def look(self) -> None:
        """What must hold now."""
        state = self.clock.scene.state
        pool = next(iter(state.replicas.values())).use
        assert sum(pool.running) <= SLOTS
        assert pool.promoted <= ceil(state.policy.starvation.pool_share * SLOTS)
        overdue = sorted(
            (
                found
                for found in state.requests.values()
                if found.lane == 2 and not found.running and self.now - found.since >= PATIENCE
            ),
            key=lambda found: (found.since, found.sequence),
        )
        if not overdue:
            self.heads.clear()
            return
        if pool.promoted < ceil(state.policy.starvation.pool_share * SLOTS):
            # No slot has come free since: it would be a promoted one now.
            running = [found for found in state.requests.values() if found.running]
            assert len(running) == SLOTS
            late = overdue[0].since + PATIENCE
            assert all(found.dispatched <= late for found in running)
        # The oldest is next, whatever else comes: within one service time.
        name = overdue[0].ticket.id
        since = self.heads.setdefault(name, self.now)
        self.heads = {name: since}
        assert self.now - since <= max(self.service) + 50 * MS

    def teardown(self) -> None:
        """All that came ends or is refused, and nothing is left over."""
        if not hasattr(self, "clock"):
            return
        self.clock.run([])
        for account in self.clock.accounts.values():
            assert (account.ended is None) == account.refused
        state = self.clock.scene.state
        assert not state.requests
        assert all(replica.running == 0 for replica in state.replicas.values())


class Weighted(Timed):
    """The same in mode weighted, and each lane has its least share of every window in which
    all of them had work waiting throughout."""

    mode = "weighted"
    window = SECOND

    @rule(businesses=st.integers(1, 4))
    def backlog(self, businesses: int) -> None:
        """Enough of all lanes for a window, once estimates have settled, and the window."""
        for lane in range(3):
            self.queue(lane, 2 * SLOTS * self.window // self.service[lane], businesses)
        self.wait(500)
        begin = self.now
        self.wait(self.window // MS)
        queues = self.clock.scene.state.policy.queues
        least = (queues.P0.min_share, queues.P1.min_share, queues.P2.min_share)
        shares = self.clock.shares(begin, self.now)
        if all(self.clock.scene.state.lane_queued):
            for lane in range(3):
                # One request more or less in the window.
                grain = self.service[lane] / (SLOTS * self.window)
                assert shares[lane] >= least[lane] - 0.01 - grain, (shares, self.service)
