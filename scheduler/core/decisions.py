"""What the core wants done. The actor carries decisions out in order."""

from enum import StrEnum

from .record import record
from .ticket import Ticket


class Reason(StrEnum):
    """Why a request was refused: the contract's reason codes that the core gives."""

    CONCURRENCY_EXCEEDED = "concurrency_exceeded"
    QUEUE_FULL = "queue_full"
    QUEUE_TIMEOUT = "queue_timeout"
    NO_CAPACITY = "no_capacity"
    UPSTREAM_ERROR = "upstream_error"
    TENANT_SUSPENDED = "tenant_suspended"
    LATENCY_BUDGET = "latency_budget_unreachable"
    BACKPRESSURE = "backpressure"


@record
class Dispatch:
    """Run this attempt there, now. ``waited`` is ns since arrival; ``promoted`` says that the
    starvation guard chose it; ``scores`` of the candidates come with one in a hundred."""

    request: str
    attempt: int
    replica: str
    generation: int
    waited: int
    promoted: bool = False
    scores: tuple[tuple[str, float], ...] = ()


@record
class Reject:
    """The request ends here, unserved. ``retry_after`` is an estimate in ns."""

    request: str
    reason: Reason
    retry_after: int


@record
class Degrade:
    """The request is one for this lighter model from now on: with its own it would have been
    refused for the ``reason``, ``late`` ns too late."""

    request: str
    model: str
    reason: Reason
    late: int = 0


@record
class Preempt:
    """Pause this attempt for the ``beneficiary``. Gain and cost are weighted ns, ``remain``
    is what the victim would still have run (ns): estimates, to be held against what comes."""

    request: str
    attempt: int
    replica: str
    generation: int
    beneficiary: str
    gain: int
    cost: int
    remain: int


@record
class Promote:
    """An overdue request gets a slot before anybody else. ``waited`` in ns."""

    request: str
    waited: int


@record
class Trip:
    """Nothing more goes to the replica until a probe finds it well: probe it now."""

    replica: str
    generation: int


@record
class WakeAt:
    """Send a Tick at this time (ns), instead of at any time named before."""

    at: int


class Kind(StrEnum):
    """What a notice is about."""

    SUSPENDED = "suspended"  # a business, until a time
    RESTORED = "restored"  # a business
    BROKEN = "broken"  # a replica, until a time
    MENDED = "mended"  # a replica
    PRESSED = "pressed"  # a model whose P0 waits too long
    RELIEVED = "relieved"  # a model whose P0 does not any more
    ADJUSTED = "adjusted"  # a business's model, raised (below 0) or lowered by so many steps
    SCALED = "scaled"  # a pool, to so many cards
    THROTTLED = "throttled"  # a model beside which P2's rates are at so many per cent
    NO_HELP = "no_help"  # more cards in a pool have not helped
    PATH_COLD = "path_cold"  # a model, served by its cold replicas
    PATH_HOT = "path_hot"  # a model, served by its hot ones again
    COLD_START = "cold_start"  # a model, for which a card is started
    WARM = "warm"  # a model that was started takes P0
    COLD_FAILED = "cold_failed"  # a model whose start was given up, until a time
    COLD_OVER = "cold_over"  # a model for which no card is kept any more


@record
class Notice:
    """The scheduler has changed its ways. ``name`` says whose, ``cause`` why in plain words;
    ``value`` is a time (ns), steps or cards, as ``kind`` says."""

    kind: Kind
    name: str
    cause: str
    value: int = 0


@record
class Adjust:
    """The request's ticket is this one from now on: feedback has lowered it by so many levels."""

    ticket: Ticket
    by: int


@record
class Scale:
    """The pool should have ``desired`` replicas that take work; ``ready`` do now. Of the scaler's
    cards in that pool these (``cards``) and no others should be on for that, each named with the
    model that it is to serve first, empty where any will do. P0 waits for ``models``, which no
    replica serves: one of the cards is for each. ``cause`` says why in plain words."""

    pool: str
    ready: int
    desired: int
    cards: tuple[tuple[str, str], ...] = ()
    models: tuple[str, ...] = ()
    cause: str = ""


@record
class Throttle:
    """P0 of the ``model`` waits too long: limits on rates refill for P2 requests for these
    ``models`` at this ``share`` of their rate (0-1) from now on, and at no less than ``least`` as
    long as nothing else is said. At 1 it is over. Of several such shares each holds."""

    model: str
    share: float
    least: float
    models: frozenset[str]


Decision = (
    Dispatch
    | Reject
    | Degrade
    | Preempt
    | Promote
    | Trip
    | WakeAt
    | Notice
    | Scale
    | Throttle
    | Adjust
)
