"""A small fleet whose faults are known, under traffic on a virtual clock: what the scheduler
finds is held against what is true."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from scheduler.core import events
from scheduler.core.decisions import Dispatch, Kind, Notice, Reject

from .scene import MS, SECOND, Scene

# The one business, if any, that fails by its own doing.
BAD = "bad"


@dataclass(frozen=True, slots=True)
class Flow:
    """A business's requests for a model, so many a second on average."""

    business: str
    model: str
    rate: float
    lane: int = 1


# Whether an attempt of a flow on a replica fails, begun so long (s) after the start.
Truth = Callable[[Flow, str, float], bool]


@dataclass
class Trial:
    """Runs traffic; an attempt that goes well takes ``took`` ns, one that fails ``broke``."""

    scene: Scene
    truth: Truth
    took: int = 60 * MS
    broke: int = 5 * MS
    attempts: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    notices: list[tuple[int, Notice]] = field(default_factory=list)
    opened_after: dict[tuple[str, str], int] = field(default_factory=dict)
    _due: list[tuple[int, int, str, int]] = field(default_factory=list)
    _flows: dict[str, Flow] = field(default_factory=dict)
    _failing: dict[tuple[str, int], bool] = field(default_factory=dict)
    _seen: int = 0
    _count: int = 0

    def run(self, flows: list[Flow], seconds: float, seed: int = 1) -> "Trial":
        """Arrivals of a Poisson process each, for so long; then all that was begun ends."""
        start, draw = self.scene.now, Random(seed)
        self._seen = len(self.scene.log)
        arrivals: list[tuple[int, int, Flow]] = []
        for flow in flows:
            at = 0.0
            while (at := at + draw.expovariate(flow.rate)) < seconds:
                arrivals.append((start + int(at * SECOND), len(arrivals), flow))
        arrivals.sort()
        arrivals.reverse()
        while arrivals or self._due:
            if arrivals and (not self._due or arrivals[-1][0] < self._due[0][0]):
                at, _, flow = arrivals.pop()
                self._to(at)
                self._count += 1
                name = f"{flow.business}-{flow.model}-{self._count}-{start}"
                self._flows[name] = flow
                self.scene.arrive(name, flow.lane, business=flow.business, model=flow.model)
            else:
                at, _, name, attempt = heappop(self._due)
                self._to(at)
                self._end(name, attempt)
            self._look(start)
        return self

    def _to(self, at: int) -> None:
        if at > self.scene.now:
            self.scene.wait(at - self.scene.now)

    def _end(self, name: str, attempt: int) -> None:
        running = self.scene.running.get(name)
        if running is None or running.attempt != attempt:
            return
        flow = self._flows[name]
        if self._failing.pop((name, attempt)):
            self.failures[flow.business, running.replica, flow.model] += 1
            self.scene.fail(name, events.Fault.ERROR)
        else:
            self.ended[flow.business, "ok"] += 1
            self.scene.finish(name)

    def _look(self, start: int) -> None:
        """What the last steps have decided."""
        log = self.scene.log
        for decision in log[self._seen :]:
            if isinstance(decision, Dispatch):
                flow, place = self._flows[decision.request], decision.replica
                self.attempts[flow.business, place] += 1
                fails = self.truth(flow, place, (self.scene.now - start) / SECOND)
                self._failing[decision.request, decision.attempt] = fails
                due = self.scene.now + (self.broke if fails else self.took)
                self._count += 1
                heappush(self._due, (due, self._count, decision.request, decision.attempt))
            elif isinstance(decision, Reject):
                self.ended[self._flows[decision.request].business, decision.reason] += 1
            elif isinstance(decision, Notice):
                self.notices.append((self.scene.now, decision))
                if decision.kind is Kind.BROKEN:
                    broken = decision.name, decision.cause.partition(":")[0]
                    if broken not in self.opened_after:
                        self.opened_after[broken] = self.failed_at(*broken)
        self._seen = len(log)

    def failed_at(self, replica: str, model: str) -> int:
        """Attempts of those who are not to blame that have failed there so far."""
        return sum(
            count
            for (business, *place), count in self.failures.items()
            if place == [replica, model] and business != BAD
        )

    def broken(self) -> set[tuple[str, str]]:
        """Replicas and models whose breakers were opened."""
        return set(self.opened_after)

    def suspended(self) -> set[tuple[str, str]]:
        """Businesses and models that were suspended."""
        return {
            (notice.name, notice.cause.partition(":")[0])
            for _, notice in self.notices
            if notice.kind is Kind.SUSPENDED
        }

    def lost(self, business: str) -> int:
        """Its requests that were not served."""
        return sum(n for (name, how), n in self.ended.items() if name == business and how != "ok")
