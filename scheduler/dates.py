"""Where times leave the process, they become dates.

Inside, a request's times are the process clock's own, so that differences of them are durations
whatever the wall clock does meanwhile. Its rows are dated as a whole when they are handed on: all
times of a row move by as much as the wall clock is ahead at that moment.
"""

from metering.core.usage import UsageRow

from .clock import ahead
from .decision_log.recorder import TIMES
from .decision_log.row import DecisionRow
from .ports import Clock, DecisionSink, UsageSink


class DatedUsage:
    """A ``UsageSink`` that dates rows and hands them on. No row that it has handed on has a date
    later than ``latest`` (ns since the epoch)."""

    def __init__(self, sink: UsageSink, clock: Clock) -> None:
        self.latest = 0
        self._sink = sink
        self._clock = clock

    def start(self) -> None:
        """Begin to move rows."""
        self._sink.start()

    async def close(self) -> None:
        """Return when every row taken is safe."""
        await self._sink.close()

    def append(self, row: UsageRow) -> None:
        """Date a row, whose times are the process clock's, and hand it on."""
        row.move(ahead(self._clock))
        self.latest = max(self.latest, row.finished)
        self._sink.append(row)

    def pending(self) -> int:
        """Rows taken and not yet landed."""
        return self._sink.pending()


class DatedDecisions:
    """A ``DecisionSink`` that dates rows and hands them on."""

    def __init__(self, sink: DecisionSink, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock

    @property
    def dropped(self) -> int:
        """How many were lost."""
        return self._sink.dropped

    def start(self) -> None:
        """Begin to move rows."""
        self._sink.start()

    async def close(self) -> None:
        """Write what can be written within moments."""
        await self._sink.close()

    def append(self, row: DecisionRow) -> None:
        """Date a row, whose times are the process clock's, and hand it on."""
        later = ahead(self._clock)
        row.at += later
        until = row.detail.get("value") if row.detail and row.reason in TIMES else None
        if row.detail and isinstance(until, int):
            row.detail["value"] = until + later
        self._sink.append(row)
