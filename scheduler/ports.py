"""What the scheduler needs from outside, as Protocols. ``testing`` has a fake for each."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from metering.core.escalations import EscalationMinute
from metering.core.facts import AccessSnapshot
from metering.core.usage import UsageRow

from .core.fleet import FleetSnapshot
from .core.policy import Policy
from .decision_log.row import DecisionRow
from .scaling.cards import Card


class Clock(Protocol):
    """Wall clock."""

    def now(self) -> int:
        """Nanoseconds since the epoch."""
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


class Changes(Protocol):
    """News of what changed elsewhere."""

    async def run(self, on_change: Callable[[str], Awaitable[None]]) -> None:
        """Call back with "access", "fleet" or "policy", each once at the start, until
        cancelled."""
        ...


class UsageSink(Protocol):
    """Where finished requests are written down."""

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
class Level:
    """A limit as its user sees it: how much at once, what is left, ns until it is whole."""

    limit: int
    remaining: int
    reset: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The narrowest of the limits that bind a caller; None where there is none."""

    requests: Level | None = None
    tokens: Level | None = None


@dataclass(frozen=True, slots=True)
class Denied:
    """Nothing was taken. ``reason`` is the contract's code; ``retry_after`` the ns after which
    a single request of this size succeeds, None where waiting does not help."""

    reason: str
    retry_after: int | None
    standing: Standing


class Grant(Protocol):
    """One request's reservation. Ends with one ``settle``; further ones change nothing."""

    def settle(self, tokens: int, *, counted: bool) -> None:
        """The request used ``tokens`` in truth; where not ``counted`` it is as if it had
        never been made."""
        ...

    def standing(self) -> Standing:
        """What is left to the caller now."""
        ...


class Limiter(Protocol):
    """Who may make how many requests and use how many tokens."""

    def follow(self, access: AccessSnapshot) -> None:
        """Other limits from now on. What was used stays used."""
        ...

    async def reserve(self, business: str, credential: str, tokens: int) -> Grant | Denied:
        """Take one request and ``tokens``, or nothing at all. ``credential`` is the id of the
        one that is the bearer, or empty."""
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

    def start(self, pool: str, count: int, model: str = "") -> int:
        """Put up to ``count`` cards of the pool to use, those that are still draining first;
        with ``model`` only such as serve it. Returns how many that is, 0 where none is idle."""
        ...

    def drain(self, replica: str) -> bool:
        """Give the replica no more work, and stop it when what runs there has ended. False for
        one that was not started here or is on its way already."""
        ...

    async def close(self) -> None:
        """End all that was started."""
        ...


class DecisionSink(Protocol):
    """Where decisions are written down. May lose some, never holds anybody up."""

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
