"""What the scheduler needs from outside, as Protocols. ``testing`` has a fake for each."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from metering.core.facts import AccessSnapshot
from metering.core.usage import UsageRow

from .core.fleet import FleetSnapshot
from .core.policy import Policy


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
