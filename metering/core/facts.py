"""What the request path knows about callers: immutable, complete, built off the path."""

from collections.abc import Mapping
from dataclasses import dataclass, field

P0, P1, P2 = 0, 1, 2
LANES = ("P0", "P1", "P2")


@dataclass(frozen=True, slots=True)
class BusinessFacts:
    """A business as the gateway and the core see it.

    ``ceiling`` is a lane index (0 most urgent). ``running`` and ``queued`` are numbers of
    requests; None is unlimited, 0 blocks. ``models`` None allows every model.
    """

    name: str
    tags: frozenset[str] = frozenset()
    grade: str = "basic"
    ceiling: int = P1
    realtime: str | None = None
    offline: bool = False
    billing_sla: bool = False
    weight: float = 1.0
    models: frozenset[str] | None = None
    latency_budget_ms: int | None = None
    running: int | None = None
    queued: int | None = None
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key that may be used, until ``expires`` (ns since the epoch; None: for good).

    The digest stays out of every text made of these facts.
    """

    digest: bytes = field(repr=False)
    prefix: str
    business: str
    ceiling: int | None = None
    expires: int | None = None


@dataclass(frozen=True, slots=True)
class AccessSnapshot:
    """Everyone who may call, at one version. Revoked keys are not in it."""

    version: int = 0
    businesses: Mapping[str, BusinessFacts] = field(default_factory=dict)
    keys: Mapping[bytes, KeyFacts] = field(default_factory=dict, repr=False)
