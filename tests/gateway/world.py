"""A scheduler on its own, on a clock that moves when told."""

from dataclasses import dataclass, field, replace

from scheduler.actor import Scheduler
from scheduler.calls import Call, Refusal
from scheduler.core.choice import kept_for_p0
from scheduler.core.events import ReplicaChanged
from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.core.request import Phase
from scheduler.core.state import State
from scheduler.core.ticket import Ticket
from scheduler.gpu_time import GpuTime
from scheduler.metrics import Metrics
from scheduler.stats import Stats
from scheduler.testing import ManualClock, MemoryBooks, MemoryDecisions

POOL = PoolFacts("pool", False, frozenset({0, 1, 2}))


@dataclass
class World:
    """A scheduler on a clock that moves when told, and the calls that are open at it."""

    clock: ManualClock = field(default_factory=ManualClock)
    calls: list[Call] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)
    made: int = 0

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(
            self.clock, Stats(Metrics()), MemoryDecisions(), GpuTime(self.clock, MemoryBooks())
        )
        policy = Policy()
        # Any replica for any request: which one is nearest is no matter here.
        self.policy = replace(policy, placement=replace(policy.placement, slot_price=0.0))
        self.scheduler.set_policy(self.policy)

    @property
    def state(self) -> State:
        """The core's state."""
        return self.scheduler.state

    def replica(self, name: str, slots: int, *, ready: bool = True, generation: int = 1) -> None:
        """A replica is as told."""
        facts = ReplicaFacts(name, f"http://{name}", "vllm", "pool", slots, models={"m": "m"})
        self.scheduler.set_replica(ReplicaChanged(facts, POOL, ready, generation))

    def open(self, lane: int = 1, business: str = "x", budget: int | None = None) -> Call:
        """A new request."""
        self.made += 1
        self.clock.time += 1000
        level = (0, 3, 8)[lane]
        ticket = Ticket(
            f"{self.made:06}", business, "m", lane, level, self.clock.now(), budget=budget
        )
        call = self.scheduler.open(ticket)
        self.calls.append(call)
        return call

    def close(self, call: Call) -> None:
        """The request ended or its caller left."""
        call.close()
        self.forget(call, "closed")

    def forget(self, call: Call, how: str) -> None:
        """Each request ends once."""
        assert call.ticket.id not in self.ended
        self.ended[call.ticket.id] = how
        self.calls.remove(call)

    def refused(self) -> dict[str, str]:
        """Requests that were refused since the last look, with the reason."""
        found = {}
        for call in self.calls[:]:
            if call._future.done():
                outcome = call._future.result()
                if isinstance(outcome, Refusal):
                    found[call.ticket.id] = outcome.reason
                    self.forget(call, outcome.reason)
        return found

    def running(self) -> list[Call]:
        """Calls that hold a slot, by ticket."""
        return [call for call in self.calls if call.replica is not None]

    def waiting(self) -> list[Call]:
        """Calls that hold none."""
        return [call for call in self.calls if call.replica is None]

    def check(self) -> None:
        """The books agree with each other, and no slot idles while somebody could use it; but for
        P2 where P0 waits too long."""
        state = self.state
        for name, held in state.replicas.items():
            mine = [r for r in state.requests.values() if r.replica is held]
            assert held.running == len(mine) >= 0, name
            if held.ready:
                assert held.running <= held.facts.slots, name
        assert set(state.requests) == {call.ticket.id for call in self.calls}
        assert sum(state.lane_queued) == len(self.waiting())
        queued = [r for r in state.requests.values() if r.phase is Phase.QUEUED]
        for held in state.replicas.values():
            if not held.open(state.now):
                continue
            for request in queued:
                ticket = request.ticket
                # Its model may be left alone there.
                takes = held.takes(ticket.model, request.lane, ticket.level)
                kept = request.lane == 2 and kept_for_p0(state, held)
                if request.avoids(held) or not takes or kept:
                    continue
                assert not state.tenant(ticket.business).may_run, (
                    f"{ticket.id} waits beside a free slot on {held.facts.name}"
                )

    @property
    def at_rest(self) -> bool:
        """Nothing runs, waits or is counted."""
        state = self.state
        return (
            not state.requests
            and not self.scheduler.calls
            and all(held.running == 0 and not held.holds for held in state.replicas.values())
            and all(t.running == t.queued == 0 for t in state.tenants.values())
            and state.lane_queued == [0, 0, 0] == state.lane_running
        )
