"""Virtual time for a scene: requests arrive at given moments and hold their slots as long as
a service function says."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from scheduler.core import events
from scheduler.core.decisions import Decision, Dispatch, Preempt, Promote, Reject
from scheduler.core.ticket import Ticket

from .scene import MS, Scene

Service = Callable[[Ticket, str], int]


@dataclass(slots=True)
class Account:
    """One request's life in ns: when it arrived, started (first), and ended."""

    ticket: Ticket
    started: int | None = None
    ended: int | None = None
    replica: str = ""
    refused: bool = False
    promoted: bool = False
    pauses: int = 0


@dataclass(slots=True)
class Clockwork:
    """Runs a scene. ``busy`` has (lane, begin, end) of each stay on a slot; ``stop_ns`` is the
    time that a preempted attempt takes to stop."""

    scene: Scene
    service: Service
    stop_ns: int = 10 * MS
    accounts: dict[str, Account] = field(default_factory=dict)
    busy: list[tuple[int, int, int]] = field(default_factory=list)
    most_promoted: int = 0
    _ends: list[tuple[int, int, str, int, bool]] = field(default_factory=list)
    _begun: dict[str, int] = field(default_factory=dict)
    _count: int = 0

    def run(self, arrivals: Iterable[Ticket], until: int | None = None) -> None:
        """Take arrivals in order of time, until everything is over or the moment ``until``."""
        feed = iter(arrivals)
        following = next(feed, None)
        while True:
            due = min(
                (
                    at
                    for at in (
                        following.arrived if following is not None else None,
                        self._ends[0][0] if self._ends else None,
                        self.scene.state.wake or None,
                    )
                    if at is not None and at >= self.scene.now
                ),
                default=None,
            )
            if due is None or (until is not None and due > until):
                break
            self.scene.now = due
            if self._ends and self._ends[0][0] == due:
                self._end()
            elif following is not None and following.arrived == due:
                self.accounts[following.id] = Account(following)
                self._note(self.scene.step(events.Arrived(following)))
                following = next(feed, None)
            else:
                self._note(self.scene.tick())
                assert self.scene.state.wake != due, "asked for the same tick twice"
        if until is not None:
            self.scene.now = until

    def _end(self) -> None:
        at, _, name, attempt, paused = heappop(self._ends)
        now = self.scene.running.get(name)
        if now is None or now.attempt != attempt:
            return
        account = self.accounts[name]
        self.busy.append((account.ticket.lane, self._begun[name], at))
        if paused:
            self._note(self.scene.stop(name))
        else:
            account.ended = at
            self._note(self.scene.finish(name))

    def _note(self, out: Iterable[Decision]) -> None:
        now = self.scene.now
        for decision in out:
            if isinstance(decision, Dispatch):
                account = self.accounts[decision.request]
                if account.started is None:
                    account.started = now
                account.replica = decision.replica
                self._begun[decision.request] = now
                held = self.service(account.ticket, decision.replica)
                self._push(now + held, decision.request, decision.attempt, paused=False)
            elif isinstance(decision, Preempt):
                self.accounts[decision.request].pauses += 1
                self._push(now + self.stop_ns, decision.request, decision.attempt, paused=True)
            elif isinstance(decision, Reject):
                self.accounts[decision.request].refused = True
            elif isinstance(decision, Promote):
                assert not self.accounts[decision.request].promoted
                self.accounts[decision.request].promoted = True
        running = self.scene.running
        now_promoted = sum(self.accounts[name].promoted for name in running)
        self.most_promoted = max(self.most_promoted, now_promoted)

    def _push(self, at: int, name: str, attempt: int, *, paused: bool) -> None:
        self._count += 1
        heappush(self._ends, (at, self._count, name, attempt, paused))

    def shares(self, begin: int, end: int) -> list[float]:
        """Each lane's part of the slot time used in a window."""
        used = [0, 0, 0]
        still = [
            (self.accounts[name].ticket.lane, self._begun[name], self.scene.now)
            for name in self.scene.running
        ]
        for lane, start, stop in [*self.busy, *still]:
            used[lane] += max(0, min(stop, end) - max(start, begin))
        return [part / max(1, sum(used)) for part in used]


def every(gap: int, begin: int, end: int, make: Callable[[int, int], Ticket]) -> Iterator[Ticket]:
    """Tickets at even distance: ``make(number, arrived)``."""
    for number, at in enumerate(range(begin, end, gap)):
        yield make(number, at)
