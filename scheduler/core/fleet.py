"""The fleet as the core sees it: immutable facts about pools, models and replicas."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """Replicas that share lane rules; ``lanes`` are lane indexes."""

    name: str
    dedicated: bool
    lanes: frozenset[int]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A public model name and what the classifier needs to know about it. It is the smaller
    stand-in of the model ``lighter_of``, if any."""

    name: str
    weight: str = "medium"
    task: str = "chat"
    realtime: str | None = None
    offline: bool = False
    generative: bool = True
    lighter_of: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """One model server.

    ``hot``: used always, else only where a model's hot ones are not there or were left.
    ``slots`` requests at once and ``kv_tokens`` tokens of context held at once (None:
    not limited); ``models`` maps public to served names; ``levels`` is inclusive.
    """

    name: str
    url: str
    engine: str
    pool: str
    slots: int
    gpus: float = 1.0
    kv_tokens: int | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    levels: tuple[int, int] = (0, 9)
    engine_priority: bool = False
    token_file: str = ""
    metrics_url: str = ""
    dcgm_url: str = ""
    kv_events_url: str = ""
    draining: bool = False
    hot: bool = True


@dataclass(frozen=True, slots=True)
class CardFacts:
    """A card beside the fleet's own replicas, which takes work once it is asked to: it may be
    started now (``startable``), or it is ``on``: on its way, or a replica already. It takes
    ``slots`` requests at once (0: not told)."""

    name: str
    pool: PoolFacts
    models: frozenset[str]
    startable: bool = False
    on: bool = False
    slots: int = 0


@dataclass(frozen=True, slots=True)
class FleetSnapshot:
    """The whole fleet at one version."""

    version: int = 0
    pools: Mapping[str, PoolFacts] = field(default_factory=dict)
    models: Mapping[str, ModelFacts] = field(default_factory=dict)
    replicas: Mapping[str, ReplicaFacts] = field(default_factory=dict)
