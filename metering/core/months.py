"""Months as bills know them: from one local midnight to another."""

from datetime import datetime, timedelta, tzinfo

SECOND = 1_000_000_000


def month_of(now: int, zone: tzinfo) -> tuple[int, int]:
    """The first ns of the month in ``zone`` that ``now`` (ns since the epoch) lies in, and the
    first of the next."""
    local = datetime.fromtimestamp(now // SECOND, zone)
    first = datetime(local.year, local.month, 1, tzinfo=zone)
    # Anywhere in the next month, whose first midnight may have another offset.
    later = first + timedelta(days=40)
    after = datetime(later.year, later.month, 1, tzinfo=zone)
    return int(first.timestamp()) * SECOND, int(after.timestamp()) * SECOND
