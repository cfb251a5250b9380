"""The fleet file as typed values: what each entry may say, and what it says when silent.

An entry is complete: a field that is left out has its default, whatever the fleet had before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """Replicas that share lane rules."""

    name: str
    kind: str = "elastic"
    lanes: tuple[str, ...] = ("P0", "P1", "P2")


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A public model name. ``lighter_of`` names the model whose smaller stand-in this is."""

    name: str
    weight: str = "medium"
    task: str = "chat"
    realtime: str | None = None
    offline: bool = False
    kind: str = "generative"
    lighter_of: str | None = None


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One model server. ``models`` maps public names to the server's own; ``kv_tokens`` None:
    not limited; ``levels`` is inclusive."""

    name: str
    url: str
    engine: str
    pool: str
    slots: int = 8
    gpus: float = 1.0
    kv_tokens: int | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    service_class: str = "medium"
    levels: tuple[int, int] = (0, 9)
    path: str = "hot"
    engine_priority: bool = False
    token_file: str | None = None
    metrics_url: str | None = None
    dcgm_url: str | None = None
    kv_events_url: str | None = None


@dataclass(frozen=True, slots=True)
class QuotaSpec:
    """Limits; None is unlimited and 0 blocks. ``gpu_share`` is a ratio 0-1 here and a
    percentage in the file, ``monthly_budget`` is money of the billing currency."""

    requests_per_s: float | None = None
    burst: int | None = None
    tokens_per_min: int | None = None
    running: int | None = None
    queued: int | None = None
    gpu_share: float | None = None
    monthly_budget: Decimal | None = None


@dataclass(frozen=True, slots=True)
class BusinessSpec:
    """A tenant. ``models`` None allows every model. ``envelope`` bounds what its owner may set;
    None: the owner may set nothing."""

    name: str
    tags: tuple[str, ...] = ()
    grade: str = "basic"
    ceiling: str = "P1"
    realtime: str | None = None
    offline: bool = False
    billing_sla: bool = False
    degrade: bool = False
    weight: float = 1.0
    models: tuple[str, ...] | None = None
    quota: QuotaSpec = QuotaSpec()
    envelope: QuotaSpec | None = None
    latency_budget_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FleetDocument:
    """A whole file. None stands for a part that it doesn't have, which is left alone.

    ``lines`` has the line of each path, for the problems that are found later.
    """

    pools: tuple[PoolSpec, ...] | None = None
    models: tuple[ModelSpec, ...] | None = None
    replicas: tuple[ReplicaSpec, ...] | None = None
    businesses: tuple[BusinessSpec, ...] | None = None
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
