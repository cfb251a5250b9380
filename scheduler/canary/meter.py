"""Counts a gateway's finished requests while a canary runs. In memory, one event loop."""

from metering.core.usage import UsageRow

from .tally import Group, Tally, bucket_of

MS = 1_000_000
# Of refusals, what no policy decides: a caller's own rates and budget, and the end of a process.
OWN = ("rate_limit", "budget", "tenant", "shutting")
BROKEN = frozenset({"upstream_error", "upstream_timeout", "queue_timeout", "internal_error"})


class Meter:
    """Holds what was counted since it was last asked."""

    def __init__(self) -> None:
        self._tally = Tally()

    def note(self, row: UsageRow, *, canary: bool, lane: int, budget_ms: int | None) -> None:
        """A request has ended. ``lane`` and ``budget_ms`` are what the active policy gives it,
        whichever policy it was decided by: a draft must not move its own yardstick."""
        groups = self._tally.canary if canary else self._tally.control
        _count(groups[lane], row, budget_ms)

    def late(self, waited_ms: float, *, canary: bool, lane: int) -> None:
        """A request still waits for a slot after its budget: it is late already. Otherwise a
        draft that lets its requests wait for ever would never be judged."""
        group = (self._tally.canary if canary else self._tally.control)[lane]
        group.samples += 1
        group.due += 1
        group.missed += 1
        bucket = bucket_of(waited_ms)
        group.waits[bucket] = group.waits.get(bucket, 0) + 1

    def take(self) -> Tally:
        """What was counted; counts start anew."""
        taken, self._tally = self._tally, Tally()
        return taken


def _count(group: Group, row: UsageRow, budget_ms: int | None) -> None:
    refused = row.reason == "priority_not_allowed" or (
        row.status in {"refused", "queue_timeout"} and not row.reason.startswith(OWN)
    )
    ran = row.dispatched > 0
    answered = row.first_byte or (row.finished if row.status == "ok" else 0)
    took_ms = ((answered or row.finished) - row.received) / MS
    late = budget_ms is not None and took_ms > budget_ms
    if not (refused or ran or late):
        return  # turned away for reasons of its own, or left before it could be late
    group.samples += 1
    group.refused += refused
    if budget_ms is not None:
        group.due += 1
        # Who left early and had no answer by then was not kept waiting too long.
        group.missed += late or refused or row.status in BROKEN
    if ran:
        bucket = bucket_of((row.dispatched - row.received) / MS)
        group.waits[bucket] = group.waits.get(bucket, 0) + 1
    elif row.reason == "queue_timeout":
        bucket = bucket_of((row.finished - row.received) / MS)
        group.waits[bucket] = group.waits.get(bucket, 0) + 1
