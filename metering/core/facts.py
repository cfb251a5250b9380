"""What the request path knows about callers: immutable, complete, built off the path."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

P0, P1, P2 = 0, 1, 2
LANES = ("P0", "P1", "P2")


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast requests may come and tokens be used; None is unlimited, 0 blocks.

    ``burst`` requests at once (None: one second's worth) at ``requests_per_s`` in the long run.
    """

    requests_per_s: float | None = None
    burst: int | None = None
    tokens_per_min: int | None = None


UNLIMITED = Rates()


@dataclass(frozen=True, slots=True)
class Allowance:
    """All that the gateway itself holds one party to; None is unlimited, 0 blocks.

    ``gpu_share`` is a ratio of the fleet's GPU time, ``monthly_budget`` money of the billing
    currency. ``running`` and ``queued`` requests are a key's: those of a business are the
    core's matter.
    """

    rates: Rates = UNLIMITED
    gpu_share: float | None = None
    monthly_budget: Decimal | None = None
    running: int | None = None
    queued: int | None = None


FREE = Allowance()


@dataclass(frozen=True, slots=True)
class BusinessFacts:
    """A business as the gateway and the core see it.

    ``ceiling`` is a lane index (0 most urgent). ``running`` and ``queued`` are numbers of
    requests; None is unlimited, 0 blocks. ``models`` None allows every model.
    ``degrade``: a lighter model may answer in place of a refusal.
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
    rates: Rates = UNLIMITED
    gpu_share: float | None = None
    monthly_budget: Decimal | None = None
    degrade: bool = False

    @property
    def allowance(self) -> Allowance:
        """What the gateway holds it to."""
        return Allowance(self.rates, self.gpu_share, self.monthly_budget)


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key that may be used, until ``expires`` (ns since the epoch; None: for good).

    ``allowance`` and ``models`` (None: all) are its own, beside its business's. The digest
    stays out of every text made of these facts.
    """

    digest: bytes = field(repr=False)
    prefix: str
    business: str
    ceiling: int | None = None
    expires: int | None = None
    allowance: Allowance = FREE
    models: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class CredentialFacts:
    """A tier credential that may be used from ``not_before`` until ``expires`` (ns since the
    epoch). ``parent`` is the id of the credential that it was narrowed from, if any; ``rates``
    are its own, beside the business's, where it is the bearer itself."""

    jti: str
    business: str
    grade: str
    ceiling: int
    models: frozenset[str] | None
    svc: str
    not_before: int
    expires: int
    parent: str = ""
    rates: Rates = UNLIMITED


@dataclass(frozen=True, slots=True)
class AccessSnapshot:
    """Everyone who may call, at one version. Revoked keys and credentials are not in it.

    ``credentials`` are by id, ``signing_keys`` (raw Ed25519 public keys, 32 bytes) by key id.
    """

    version: int = 0
    businesses: Mapping[str, BusinessFacts] = field(default_factory=dict)
    keys: Mapping[bytes, KeyFacts] = field(default_factory=dict, repr=False)
    credentials: Mapping[str, CredentialFacts] = field(default_factory=dict)
    signing_keys: Mapping[str, bytes] = field(default_factory=dict)
