"""A scenario: a cluster, the businesses that use it, what arrives when, and what breaks."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count, islice

from metering.core.facts import BusinessFacts
from scheduler.core.fleet import ModelFacts, PoolFacts
from scheduler.core.policy import Policy

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Model:
    """One model: the classifier's facts, and what it takes to serve it. ``cv`` is of the
    service times of a fixed model."""

    facts: ModelFacts
    cv: float
    memory_gb: float
    load_s: float


@dataclass(frozen=True, slots=True)
class Hardware:
    """One kind of card. ``service_ms`` is by fixed model; the speeds below are of
    generative ones: prefill in tokens per second, a decoding step in ms. ``kv_tokens``
    None: not limited."""

    name: str
    slots: int
    gpus: float
    memory_gb: float
    service_ms: Mapping[str, float] = field(default_factory=dict)
    prefill_tokens_per_s: float = 0.0
    step_base_ms: float = 0.0
    step_per_running_ms: float = 0.0
    kv_tokens: int | None = None

    def able(self, models: Iterable[Model]) -> list[str]:
        """Models that it can serve and that fit its memory by themselves, the smallest first."""
        generates = self.prefill_tokens_per_s > 0 and self.step_base_ms > 0
        return [
            model.facts.name
            for model in sorted(models, key=lambda model: model.memory_gb)
            if model.memory_gb <= self.memory_gb
            and (model.facts.name in self.service_ms or (model.facts.generative and generates))
        ]


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One card and the pool it is in."""

    name: str
    hardware: Hardware
    pool: PoolFacts
    models: tuple[str, ...]
    hot: bool = True


@dataclass(frozen=True, slots=True)
class Tenant:
    """A business and its request quota (None: unlimited)."""

    facts: BusinessFacts
    requests_per_s: float | None = None
    burst: int | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """Lognormal numbers: of tokens, turns, seconds."""

    mean: float
    cv: float


@dataclass(frozen=True, slots=True)
class Burst:
    """So many requests at one moment."""

    at_s: float
    count: int


@dataclass(frozen=True, slots=True)
class Conversations:
    """Dialogues in place of single requests: ``count`` of them begin between two moments,
    ``begin_s``, each at any moment alike, and have so many ``turns``.

    A prompt is ``system_tokens`` that all conversations of the stream have in common, all earlier
    questions and answers, and a new question. That comes ``think_s`` after the answer before it
    would have ended at ``answer_ms_per_token``, so no scheduler has a part in when it does.
    """

    count: int
    begin_s: tuple[float, float]
    turns: Size
    think_s: Size
    system_tokens: int
    answer_ms_per_token: float


@dataclass(frozen=True, slots=True)
class Arrivals:
    """One stream of requests.

    ``rate`` is piecewise linear in (seconds, requests per second), level before its first
    and after its last point. ``levels`` None leaves the level to the classifier.
    ``budgets`` is ms by level, None where none is due. ``prompt`` is the tokens of each new
    question where the requests are turns of ``conversations``.
    """

    model: str
    shares: tuple[tuple[str, float], ...]
    rate: tuple[tuple[float, float], ...]
    budgets: tuple[float | None, ...]
    cv: float | None = None
    bursts: tuple[Burst, ...] = ()
    levels: tuple[int, int] | None = None
    realtime: str | None = None
    offline: bool = False
    prompt: Size | None = None
    output: Size | None = None
    max_tokens: int = 0
    conversations: Conversations | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A replica is gone between two moments (s)."""

    replica: str
    down_at_s: float
    up_at_s: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything a run depends on, but for the scheduler. ``policy`` has the scenario's
    overrides and queue timeouts in it. ``remarks`` are keys of the file that mean nothing here,
    and streams that no card could serve."""

    name: str
    about: str
    seed: int
    duration_s: float
    models: Mapping[str, Model]
    replicas: tuple[ReplicaSpec, ...]
    tenants: Mapping[str, Tenant]
    arrivals: tuple[Arrivals, ...]
    faults: tuple[Fault, ...]
    starved_after_s: float
    policy: Policy
    idle_cards: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def converses(self) -> bool:
        """Whether any of its requests are turns of conversations."""
        return any(stream.conversations is not None for stream in self.arrivals)

    def cut(self, seconds: float) -> "Scenario":
        """The same with no arrivals after ``seconds``, for a quick look."""
        return replace(self, duration_s=min(self.duration_s, seconds))

    def cards(self) -> tuple[ReplicaSpec, ...]:
        """The replicas, and after them the idle cards as the replicas that they would be: of
        the kind that most elastic ones are of. None of them has a replica's name."""
        elastic = [spec for spec in self.replicas if not spec.pool.dedicated]
        if not elastic or not self.idle_cards:
            return self.replicas
        kinds = Counter((spec.hardware.name, spec.pool.name) for spec in elastic)
        kind = kinds.most_common(1)[0][0]
        like = next(spec for spec in elastic if (spec.hardware.name, spec.pool.name) == kind)
        taken = {spec.name for spec in self.replicas}
        names = (name for number in count(1) if (name := f"idle-{number}") not in taken)
        spare = (replace(like, name=name) for name in islice(names, self.idle_cards))
        return (*self.replicas, *spare)

    def cuts(self) -> list[float]:
        """Where phases begin and end (s): breakpoints of rates, faults, and bursts with the
        minute after them."""
        found = {0.0, self.duration_s}
        for stream in self.arrivals:
            found.update(at for at, _ in stream.rate)
            for burst in stream.bursts:
                found.update((burst.at_s, burst.at_s + 60))
        for fault in self.faults:
            found.update((fault.down_at_s, fault.up_at_s))
        return sorted(at for at in found if 0 <= at <= self.duration_s)
