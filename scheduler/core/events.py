"""What can happen. Each event names one request's attempt or one part of the world."""

from enum import Enum

from metering.core.facts import BusinessFacts

from .fleet import CardFacts, PoolFacts, ReplicaFacts
from .policy import Policy
from .record import record
from .ticket import Ticket


class Fault(Enum):
    """Why an attempt ended before its answer did."""

    UNREACHABLE = "unreachable"  # refused, reset or timed out: the replica is suspect
    BUSY = "busy"  # the engine said 429 or 503: no fault of the replica
    ERROR = "error"  # the engine answered 5xx, or broke off
    SILENT = "silent"  # it fell silent in the middle of an answer, the connection being open


@record
class Arrived:
    """A request wants to run."""

    ticket: Ticket


@record
class Adopted:
    """A request that exists already, told to a state that is being rebuilt: it runs on
    ``replica``, or waits (None) with ``attempt`` attempts behind it. The state that is told
    starts nobody by it: the next event does.

    ``facts`` are its replica's (None: not known), which may have left the fleet. It runs since
    ``dispatched``, and its caller has ``seen`` so many tokens of the attempt; or it waits since
    ``since`` (ns; 0: since it arrived). ``produced`` tokens are there from earlier attempts;
    ``failures`` of them broke off, at the replica generations ``tried``. It was told to stop
    ``preempted`` times, last at ``stopped`` (ns), and has not yet where it is ``stopping``.
    """

    ticket: Ticket
    attempt: int
    replica: str | None
    generation: int
    facts: ReplicaFacts | None = None
    dispatched: int = 0
    seen: int = 0
    since: int = 0
    produced: int = 0
    failures: int = 0
    tried: frozenset[tuple[str, int]] = frozenset()
    preempted: int = 0
    stopped: int = 0
    stopping: bool = False
    promoted: bool = False


@record
class Progress:
    """The attempt has produced ``tokens`` output tokens: told at the first, whoever reads it, and
    then at most once a second."""

    request: str
    attempt: int
    tokens: int


@record
class Finished:
    """The attempt has ended and holds its slot no longer, whatever came of it. Tokens are the
    true figures, 0 where they are not known; ``first`` is when the first of its answer
    was there (ns; 0: not known). ``failed``: the replica broke
    off, or fell silent, and nothing could be saved. ``cached`` are the prompt tokens that the
    engine says it found in its prefix cache (None: it says nothing). ``answered``: there was
    something of an answer; without it nothing is known of the replica, for the engine found
    fault with the call, or the caller left before."""

    request: str
    attempt: int
    prompt: int = 0
    output: int = 0
    failed: bool = False
    first: int = 0
    cached: int | None = None
    answered: bool = True


@record
class Yielded:
    """A preempted attempt has stopped. ``produced`` output tokens are kept."""

    request: str
    attempt: int
    produced: int = 0


@record
class Failed:
    """The attempt broke off and another may be tried: nothing of it has reached the caller,
    or the answer can go on from the ``produced`` output tokens that have."""

    request: str
    attempt: int
    fault: Fault
    produced: int = 0


@record
class Cancelled:
    """The caller has gone, wherever its request was."""

    request: str


@record
class ReplicaChanged:
    """A replica is as told, from now on. A new ``generation`` is a new process under the
    old name: its slots are free, and what still runs belongs to the old one. P0 waits until
    it is ``warm``. ``more``: another such event follows at once, and the fleet need not be laid
    out before."""

    facts: ReplicaFacts
    pool: PoolFacts
    ready: bool
    generation: int
    warm: bool = True
    more: bool = False


@record
class ReplicaRemoved:
    """A replica left the fleet; what runs there runs on. ``more`` as in ``ReplicaChanged``."""

    name: str
    more: bool = False


@record
class CardsChanged:
    """These cards, and no others, may be put to use or are: what a ``Scale`` may name.
    Without this event no card is known, and nothing is started for P0."""

    cards: tuple[CardFacts, ...]


@record
class Measured:
    """A replica's own figures: GPU and memory use 0-1 (10 s means; None: unknown), the number of
    requests waiting inside it, and how many tokens its KV memory holds in all."""

    replica: str
    gpu: float | None
    memory: float | None
    queue: int | None
    cache_tokens: int | None = None


@record
class CacheChanged:
    """A replica's engine says that so many tokens (``evicted``) have left its prefix cache; None:
    all of them."""

    replica: str
    evicted: int | None


@record
class Sample:
    """A request of an earlier time, served in one attempt. ``held`` is how long it held its slot,
    ``first`` how long until its first token (ns; 0: not known); tokens as in ``Finished``."""

    business: str
    model: str
    replica: str
    prompt: int
    output: int
    cached: int
    first: int
    held: int


@record
class Recalled:
    """What earlier requests were like, the oldest first: told once, to a state that has learned
    nothing yet."""

    samples: tuple[Sample, ...]


@record
class PolicyChanged:
    """Other rules from now on; waiting requests keep their places."""

    policy: Policy


@record
class QuotaChanged:
    """A business's limits are as told; ``facts`` None: the business is gone."""

    business: str
    facts: BusinessFacts | None


@record
class Tick:
    """Time has passed."""


Event = (
    Arrived
    | Adopted
    | Progress
    | Finished
    | Yielded
    | Failed
    | Cancelled
    | ReplicaChanged
    | ReplicaRemoved
    | CardsChanged
    | Measured
    | CacheChanged
    | Recalled
    | PolicyChanged
    | QuotaChanged
    | Tick
)


def request_of(event: Event) -> str:
    """The id of the request that an event is about, or an empty string."""
    if isinstance(event, Arrived | Adopted):
        return event.ticket.id
    if isinstance(event, Finished | Failed | Cancelled | Yielded):
        return event.request
    return ""
