"""What the scheduler needs from outside, as Protocols. ``testing`` has a fake for each."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from metering.core.escalations import EscalationMinute
from metering.core.facts import AccessSnapshot
from metering.core.usage import UsageRow

from .canary import Tally, Trial
from .core.fleet import FleetSnapshot
from .core.policy import Policy
from .decision_log.row import DecisionRow


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

    def trial(self) -> Trial | None:
        """Reads the canary that runs, if one does; may block. Raises OSError likewise."""
        ...

    def report(self, trial: int, tally: Tally) -> None:
        """Add to what is counted of a canary (its id), which may end it; may block. Raises
        OSError when that cannot be done now."""
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
