"""What came in a window, one entry a request that reached the scheduler, from usage rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

K = TypeVar("K", str, tuple[str, str])


# Slot time is compared by what it was for: so many tokens of a prompt count as one of the answer,
# which is near enough for like work.
PROMPT_PER_OUTPUT = 100.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. Times are ns since the epoch, 0 where it never came to that; ``service`` is
    the slot time of a request that ran once from end to end, 0 where that is not known.
    ``seen`` is the time from dispatch to the first byte of the answer, which for a ``streamed``
    one is its first token."""

    business: str
    model: str
    arrived: int
    lane: int
    level: int
    base: int
    claim: str
    generative: bool
    continues: bool
    streamed: bool
    dispatched: int
    finished: int
    seen: int
    service: int
    replica: str
    prompt: int
    output: int
    left: bool
    timed_out: bool
    refused: str

    @property
    def work(self) -> float:
        """Units of work: tokens of its answer, and its prompt's share."""
        if not self.generative:
            return 1.0
        return max(1.0, self.output + self.prompt / PROMPT_PER_OUTPUT)

    @property
    def first(self) -> int:
        """The time (ns) from dispatch to the first token; 0: not known, as where it was paused
        before."""
        return self.seen if self.streamed and self.service else 0

    @property
    def wait(self) -> int | None:
        """The time (ns) until it had its first slot or had waited too long; None: neither."""
        if self.dispatched:
            return self.dispatched - self.arrived
        return self.finished - self.arrived if self.timed_out else None


@dataclass(frozen=True, slots=True)
class ReplicaChange:
    """A replica was found ready, or not, at some time (ns)."""

    at: int
    replica: str
    ready: bool


@dataclass(frozen=True, slots=True)
class Recording:
    """Requests in order of arrival. Those before ``begin`` (ns) only fill queues and slots,
    so that the window starts as it did; figures count from ``begin`` to ``end``."""

    begin: int
    end: int
    requests: tuple[Asked, ...]
    changes: tuple[ReplicaChange, ...] = ()

    def counted(self, index: int) -> bool:
        """Whether the request is inside the window."""
        return self.begin <= self.requests[index].arrived < self.end


Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Fit:
    """Slot time per unit of work (ns), measured: by (model, replica), by model; and output
    tokens by (business, model)."""

    pairs: Mapping[Key, float] = field(default_factory=dict)
    models: Mapping[str, float] = field(default_factory=dict)
    outputs: Mapping[Key, float] = field(default_factory=dict)

    def unit(self, model: str, replica: str) -> float:
        """ns per unit of the model's work there; a pair never measured borrows the model's."""
        return self.pairs.get((model, replica)) or self.models.get(model) or _UNKNOWN

    def service(self, asked: Asked, replica: str) -> int:
        """The slot time (ns) of a request on a replica: its own where that is known, else by
        its work."""
        if asked.service:
            if replica == asked.replica:
                return asked.service
            scale = self.unit(asked.model, replica) / self.unit(asked.model, asked.replica)
            return max(1, round(asked.service * scale))
        work = asked.work
        if asked.generative and not asked.output:
            typical = self.outputs.get((asked.business, asked.model), 0.0)
            work = max(1.0, typical + asked.prompt / PROMPT_PER_OUTPUT)
        return max(1, round(self.unit(asked.model, replica) * work))


_UNKNOWN = 1e9


def fit(requests: Iterable[Asked]) -> Fit:
    """Means over the requests that ran once from end to end."""
    pairs: dict[Key, tuple[float, float]] = {}
    models: dict[str, tuple[float, float]] = {}
    outputs: dict[Key, tuple[float, float]] = {}
    for asked in requests:
        if not asked.service or asked.left:
            continue
        unit = asked.service / asked.work
        _add(pairs, (asked.model, asked.replica), unit)
        _add(models, asked.model, unit)
        if asked.output:
            _add(outputs, (asked.business, asked.model), float(asked.output))
    return Fit(_means(pairs), _means(models), _means(outputs))


def _add(into: dict[K, tuple[float, float]], key: K, value: float) -> None:
    total, count = into.get(key, (0.0, 0.0))
    into[key] = total + value, count + 1


def _means(sums: dict[K, tuple[float, float]]) -> dict[K, float]:
    return {key: total / count for key, (total, count) in sums.items()}
