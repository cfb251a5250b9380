"""What the scheduler needs from outside, as Protocols. ``testing`` has a fake for each."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol
from uuid import UUID

from metering.core.escalations import EscalationMinute
from metering.core.facts import AccessSnapshot
from metering.core.prices import NO_PRICES, PriceList
from metering.core.usage import NOTHING, Consumed, UsageRow

from .canary import Tally, Trial
from .core.decisions import Throttle
from .core.events import Sample
from .core.fleet import FleetSnapshot
from .core.policy import Policy
from .core.record import record
from .decision_log.row import DecisionRow
from .scaling.cards import Card


class Clock(Protocol):
    """Two clocks: what is measured goes by ``now``, what is a date by ``wall``."""

    def now(self) -> int:
        """Nanoseconds since the epoch, by the wall clock as it stood when the process began and
        what has passed since: never goes back, and never jumps."""
        ...

    def wall(self) -> int:
        """Nanoseconds since the epoch, by the wall clock as it stands now, which may be set."""
        ...


class CredentialSource(Protocol):
    """Who may call."""

    def access(self) -> AccessSnapshot:
        """Reads the present snapshot; may block. Raises OSError when it cannot be had."""
        ...


class FleetSource(Protocol):
    """Where requests may run."""

    def fleet(self) -> FleetSnapshot:
        """Reads the present fleet; may block. Raises OSError when it cannot be had."""
        ...


class PolicySource(Protocol):
    """By which rules."""

    def policy(self) -> tuple[int, Policy]:
        """Reads version and active policy; may block. Raises OSError when it cannot be had."""
        ...

    def trial(self) -> Trial | None:
        """Reads the canary that runs, if one does; may block. Raises OSError likewise."""
        ...

    def report(self, trial: int, tally: Tally) -> None:
        """Add to what is counted of a canary (its id), which may end it; may block. Raises
        OSError when that cannot be done now."""
        ...


class Recall(Protocol):
    """What requests were like before this process began."""

    def samples(self) -> Sequence[Sample]:
        """Some of the last day's requests, the oldest first; may block. Raises OSError when they
        cannot be had."""
        ...


class Changes(Protocol):
    """News of what changed elsewhere."""

    async def run(self, on_change: Callable[[str], Awaitable[None]]) -> None:
        """Call back with "access", "fleet" or "policy", each once at the start, until
        cancelled."""
        ...


class UsageSink(Protocol):
    """Where finished requests are written down, by their dates."""

    def start(self) -> None:
        """Begin to move rows."""
        ...

    async def close(self) -> None:
        """Return when every row taken is safe."""
        ...

    def append(self, row: UsageRow) -> None:
        """Take one row. Cheap, never blocks on I/O."""
        ...

    def pending(self) -> int:
        """Rows taken and not yet landed."""
        ...


class AuditSink(Protocol):
    """Where it is written down what callers tried."""

    def escalations(self, minutes: Sequence[EscalationMinute]) -> None:
        """Add up claims above their callers' ceilings; may block. Raises OSError when that
        cannot be done now."""
        ...


@dataclass(frozen=True, slots=True)
class GpuHours:
    """One replica in one hour (its first second since the epoch): GPU-ns for which it was
    known, and with a request on it. The rest was idle. ``writer`` is the name under which
    its hours are written: the process's, until the wall clock is set back."""

    writer: UUID
    replica: str
    hour: int
    wall: int
    busy: int


@record
class Level:
    """A limit as its user sees it: how much at once, what is left, ns until it is whole."""

    limit: int
    remaining: int
    reset: int


@record
class Standing:
    """The narrowest of the limits that bind a caller; None where there is none."""

    requests: Level | None = None
    tokens: Level | None = None


@record
class Ask:
    """What one request takes of its caller's limits, before the truth is known.

    ``request`` is its id, ``key`` the digest of the key that it was made with, ``credential``
    the id of the one that is the bearer; each empty where there is none. ``lane`` is an index.
    """

    request: str
    business: str
    key: bytes = field(default=b"", repr=False)
    credential: str = ""
    model: str = ""
    lane: int = 1
    expected: Consumed = NOTHING


@dataclass(frozen=True, slots=True)
class Denied:
    """Nothing was taken. ``reason`` is the contract's code; ``retry_after`` the ns after which
    a single request of this size succeeds, None where waiting does not help."""

    reason: str
    retry_after: int | None
    standing: Standing


class Grant(Protocol):
    """One request's reservation. Ends with one ``settle``; further ones change nothing."""

    @property
    def waits(self) -> bool:
        """Whether it has to wait for a running place of its key."""
        ...

    async def turn(self) -> None:
        """Return when it has one."""
        ...

    def again(self) -> int:
        """A guess (ns) at when all those that wait for one as well have had their turn."""
        ...

    def settle(self, used: Consumed, model: str = "") -> None:
        """The request used so much in truth, of another ``model`` than was asked for where one is
        named; where not ``counted`` it is as if it had never been made."""
        ...

    def standing(self) -> Standing:
        """What is left to the caller now."""
        ...


class Limiter(Protocol):
    """Who may make how many requests, use how many tokens and GPU-seconds, and spend how much.

    All that a request needs is taken in one step, or nothing is.
    """

    def follow(self, access: AccessSnapshot) -> None:
        """Other limits from now on. What was used stays used."""
        ...

    def follow_fleet(self, gpus: float) -> None:
        """The fleet has so many GPUs from now on: shares are shares of these."""
        ...

    def throttle(self, throttle: Throttle) -> None:
        """Rates are slower for P2 from now on, as told."""
        ...

    async def reserve(self, ask: Ask) -> Grant | Denied:
        """Take what the request is expected to need, or nothing at all."""
        ...

    def renew(self, requests: Sequence[str]) -> None:
        """These requests live. The places of those that are not named again in time are free
        by themselves."""
        ...


@dataclass(frozen=True, slots=True)
class Spent:
    """What the books know: prices of now, and money spent by business and by key (business and
    prefix)."""

    prices: PriceList = NO_PRICES
    businesses: Mapping[str, Decimal] = field(default_factory=dict)
    keys: Mapping[tuple[str, str], Decimal] = field(default_factory=dict)


class Books(Protocol):
    """What was spent, as far as it has reached the books; and where the replicas' GPU time is
    written down."""

    def month(self, wall: int) -> tuple[int, int]:
        """The first ns of the month that a date lies in, and of the one after."""
        ...

    def spent(
        self,
        since: int,
        before: int,
        businesses: Sequence[str],
        keys: Sequence[tuple[str, str]],
    ) -> Spent:
        """By requests received from ``since`` on and finished before ``before`` (dates, ns), for
        these businesses and keys; may block. Raises OSError when it cannot be had."""
        ...

    def gpu_hours(self, hours: Sequence[GpuHours]) -> None:
        """These hours stand so now, in place of what was written of them under the same name
        before; may block. Raises OSError when that cannot be done now."""
        ...


class AnswerStore(Protocol):
    """Answers kept for a day for who asks again, under names of 32 bytes. All of it may block,
    and raises OSError when it cannot be done. Times are the clock's ``now``: a wall clock that is
    set a day ahead must not lose what was answered."""

    def find(self, name: bytes, now: int) -> bytes | None:
        """What is kept under a name."""
        ...

    def keep(self, name: bytes, content: bytes, now: int) -> None:
        """Keep this, in place of what was there."""
        ...

    def drop(self, name: bytes) -> None:
        """Keep it no more. Raises nothing."""
        ...

    def sweep(self, now: int) -> None:
        """Delete what is too old. Raises nothing."""
        ...


class Scaler(Protocol):
    """Puts idle cards to use and takes them out again. Lives on one event loop; nothing here
    waits: what was begun shows in ``cards``, of which ``changed`` is told each time."""

    def attach(self, changed: Callable[[], None], running: Callable[[str], int]) -> None:
        """Whom to tell of changes, and who knows how many requests run on a replica. Called
        once, before anything else."""
        ...

    def cards(self) -> Sequence[Card]:
        """All cards there are, and where each is on its way."""
        ...

    def start(self, card: str, model: str = "") -> bool:
        """Put a card to use, or keep one that is still draining. Where a card can serve one
        model or another it is to serve ``model``. False for one that can't be started now."""
        ...

    def drain(self, replica: str) -> bool:
        """Give the replica no more work, and stop it when what runs there has ended. False for
        one that was not started here or is on its way already."""
        ...

    async def close(self) -> None:
        """End all that was started."""
        ...


class DecisionSink(Protocol):
    """Where decisions are written down, by their dates. May lose some, never holds anybody up."""

    @property
    def dropped(self) -> int:
        """How many were lost."""
        ...

    def start(self) -> None:
        """Begin to move rows."""
        ...

    async def close(self) -> None:
        """Write what can be written within moments."""
        ...

    def append(self, row: DecisionRow) -> None:
        """Take one row. Cheap, never blocks."""
        ...
