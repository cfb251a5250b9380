"""One generation of a replica, with our own count of what it holds."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .fleet import PoolFacts, ReplicaFacts
from .policy import Failover
from .pool import PoolUse

if TYPE_CHECKING:
    from .request import Request

BUSY_LEAST = 250_000_000
BUSY_MOST = 8_000_000_000
# Figures older than this (ns) count as unknown, never as idle.
STALE = 10_000_000_000
UNKNOWN = 0.5
NOTHING: tuple[frozenset[str], frozenset[str], frozenset[str]] = (frozenset(),) * 3
# Until a first request has been stopped there (ns).
STOPPING_PRIOR = 50_000_000
STOPPING_MEMORY = 8


@dataclass(slots=True, eq=False)
class Replica:
    """``running`` requests and ``kv_used`` tokens are counted from the moment of dispatch,
    never read from the engine, whose figures lag. ``gpu``, ``memory`` and ``queue`` are the
    engine's own figures, as of ``measured`` (ns). ``holds`` has the requests that run here,
    of which ``turnover`` end per ns by expectation, ``lanes`` those let in by pool and policy,
    ``lanes_warm`` those let in once it is ``warm``, ``serves`` the models by lane, but for those
    that ``rest`` there (see ``paths``). Layouts bring that up to date. ``use`` is
    its pool's; ``counted`` says that its free slots are in the state's count. ``stopping`` is
    how long it takes a request to stop (ns). ``picked`` requests started here in the last second.
    ``failures`` in a row, of ``failing`` businesses, open its breaker; ``probes`` may run while
    that is half open."""

    facts: ReplicaFacts
    pool: PoolFacts
    generation: int
    ready: bool
    use: PoolUse
    counted: bool = False
    running: int = 0
    kv_used: int = 0
    busy_until: int = 0
    busy_for: int = 0
    failures: int = 0
    failing: set[str] = field(default_factory=set)
    probes: int = 0
    gpu: float | None = None
    memory: float | None = None
    queue: int | None = None
    measured: int = 0
    turnover: float = 0.0
    stopping: int = STOPPING_PRIOR
    warm: bool = True
    lanes: frozenset[int] = frozenset()
    lanes_warm: frozenset[int] = frozenset()
    serves: tuple[Collection[str], Collection[str], Collection[str]] = NOTHING
    rest: tuple[frozenset[str], frozenset[str], frozenset[str]] = NOTHING
    picked: int = 0
    holds: "dict[str, Request]" = field(default_factory=dict)

    def takes(self, model: str, lane: int, level: int) -> bool:
        """Whether it holds the model and its lanes and bounds let this lane and level in."""
        least, most = self.facts.levels
        return model in self.serves[lane] and least <= level <= most

    def will_take(self, model: str, lane: int, level: int) -> bool:
        """The same, now or as soon as it is warm."""
        least, most = self.facts.levels
        return model in self.facts.models and lane in self.lanes_warm and least <= level <= most

    def lay(self, lanes: frozenset[int]) -> None:
        """Lanes let in by pool and policy; what rests is known."""
        self.lanes_warm = lanes
        self.lanes = lanes if self.warm else lanes - {0}
        models = self.facts.models
        self.serves = (
            self._served(0, models) if 0 in self.lanes else (),
            self._served(1, models) if 1 in self.lanes else (),
            self._served(2, models) if 2 in self.lanes else (),
        )

    def _served(self, lane: int, models: Collection[str]) -> Collection[str]:
        rest = self.rest[lane]
        return tuple(model for model in models if model not in rest) if rest else models

    def serving(self) -> bool:
        """Whether it takes new work at all."""
        return self.ready and not self.facts.draining

    def open(self, now: int) -> bool:
        """Whether a slot may be given out now."""
        return (
            self.ready
            and self.running < (self.probes or self.facts.slots)
            and not self.facts.draining
            and self.busy_until <= now
        )

    def need(self, tokens: int) -> int:
        """KV tokens to reserve: at most all there are, for the engine judges what is too long."""
        return min(tokens, self.facts.kv_tokens) if self.facts.kv_tokens else 0

    def fits(self, tokens: int) -> bool:
        """Whether the KV cache has room beside what runs."""
        return not self.facts.kv_tokens or self.kv_used + self.need(tokens) <= self.facts.kv_tokens

    def hold_off(self, now: int) -> None:
        """The engine said it is busy: leave it alone, each time in a row twice as long."""
        if now < self.busy_until:
            return  # said by attempts of before
        self.busy_for = min(max(2 * self.busy_for, BUSY_LEAST), BUSY_MOST)
        self.busy_until = now + self.busy_for

    def note_stop(self, took: int) -> None:
        """Learn how long a stop takes here: engines differ, and so does what they save."""
        self.stopping += (took - self.stopping) // STOPPING_MEMORY

    def fail(self, now: int, rules: Failover, business: str, *, alone: bool) -> bool:
        """One more attempt has failed here; True if that opens the breaker, or opens it again.
        Nothing comes here for a time, then a few requests to try it with. One business's
        requests open it only where it is ``alone``: else it could take the fleet from others."""
        self.failures += 1
        self.failing.add(business)
        if self.failures < rules.fail_threshold or now < self.busy_until:
            return False
        if not (alone or self.probes or len(self.failing) > 1):
            return False
        self.probes = rules.half_open_probes
        self.busy_until = now + int(rules.open_s * 1e9)
        return True

    def mend(self) -> bool:
        """An attempt has gone well; True if that closes the breaker."""
        self.failures = 0
        self.failing.clear()
        broken, self.probes = self.probes > 0, 0
        return broken

    def score(self, now: int, weights: tuple[float, float, float]) -> float:
        """``w1(1 - gpu) + w2(1 - memory) + w3(1 - queue)``; a figure that the replica does not
        give, or below our own count, is taken from our own count."""
        load = self.running / self.facts.slots
        kv = self.kv_used / self.facts.kv_tokens if self.facts.kv_tokens else load
        gpu, memory, queue = load, kv, load
        if self.measured and now - self.measured > STALE:
            # It may be as busy as it may be idle.
            gpu, memory = max(load, UNKNOWN), max(kv, UNKNOWN)
        else:
            gpu = load if self.gpu is None else max(self.gpu, load)
            memory = kv if self.memory is None else max(self.memory, kv)
            if self.queue is not None:
                queue = max(load, min(1.0, self.queue / self.facts.slots))
        w_gpu, w_memory, w_queue = weights
        return w_gpu * (1.0 - gpu) + w_memory * (1.0 - memory) + w_queue * (1.0 - queue)
