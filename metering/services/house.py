"""Keeping house: partitions ahead of time, and an end to what is kept only for a while."""

import logging
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from metering.core.periods import next_month
from metering.models import BillingClock
from metering.services.archives import drop_old_archives
from metering.services.billing_clock import clock
from metering.services.partitions import REST, make_partitions, partitions

log = logging.getLogger(__name__)


def keep_house(*, now: datetime | None = None) -> list[str]:
    """Make partitions, drop old usage rows and zips; returns the partitions dropped."""
    now = now or timezone.now()
    make_partitions(now.astimezone(UTC).date())
    drop_old_archives()
    return drop_old_rows(now)


def drop_old_rows(now: datetime) -> list[str]:
    """Drop months (UTC) of usage rows that ended more than ``USAGE_RETENTION_DAYS`` ago; 0 keeps
    all. Only what is on a bill goes: hours, statements and bills stay. Returns the tables."""
    days = settings.USAGE_RETENTION_DAYS
    held = clock()
    if not days or held is None or held.closed_until is None:
        return []
    until = min(now - timedelta(days=days), held.closed_until)
    edge = until.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    old = [table for month, table in partitions().items() if next_month(month) <= edge.date()]
    dropped = [table for table in old if not _has_newer(table, held, edge)]
    for table in dropped:
        _drop(table, edge)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_REST, [edge, held.open_month])
        if cursor.rowcount:
            BillingClock.objects.update(rows_since=edge)
    if dropped:
        log.info("usage rows are no longer kept: %s", ", ".join(dropped))
    return dropped


_REST = (
    f"DELETE FROM {REST} WHERE received_at < %s"  # noqa: S608 - a constant
    " AND (billed_in IS NULL OR billed_in < %s)"
)


def _has_newer(table: str, held: BillingClock, edge: datetime) -> bool:
    """Whether rows of a partition go on a bill that is not issued yet, or are of a later month
    than their ids: a wall clock that was set meanwhile makes such ones."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT EXISTS (SELECT 1 FROM {table}"  # noqa: S608 - a table of ours
            " WHERE billed_in >= %s OR received_at >= %s)",
            [held.open_month, edge],
        )
        row = cursor.fetchone()
    return row is not None and bool(row[0])


def _drop(table: str, edge: datetime) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        # Behind a reader that holds it for long, writers would queue up: then rather next time.
        cursor.execute("SET LOCAL lock_timeout = '10s'")
        cursor.execute(f"DROP TABLE {table}")
        BillingClock.objects.update(rows_since=edge)
