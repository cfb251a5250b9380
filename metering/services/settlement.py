"""Daily settlement: usage rows to statements, in Postgres.

Safe to repeat and to run at once from two places: a day is settled under a lock of its own, a
statement is unique, and settling again from the same rows changes nothing. What is due is told
by the rows and statements themselves, so a missed day is caught up by whoever comes next.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.db.models import Min
from django.utils import timezone

from metering.core.periods import day_bounds, day_of, midnight
from metering.errors import BillingRequestError
from metering.models import DaySettlement, LateUsage, UsageRecord
from metering.services import settlement_sql as sql
from metering.services.billing_clock import clock, settle_until

# Advisory locks, in two numbers: what for, and which.
DAY_LOCK = 71_001
MONTH_LOCK = 71_002


@dataclass(frozen=True, slots=True)
class Settled:
    """A day's result: usage rows read, and statements that are new or have changed."""

    day: date
    rows: int
    changed: int


def billing_zone() -> ZoneInfo:
    """Where days begin and end."""
    return ZoneInfo(settings.BILLING_TZ)


def settle_day(day: date, *, now: datetime | None = None) -> Settled:
    """Settle one day of BILLING_TZ. One that is not over yet gets statements of what there is.

    Raises BillingRequestError for a day to come and for one whose month is closed.
    """
    zone = billing_zone()
    now = now or timezone.now()
    if midnight(day, zone) > now:
        raise BillingRequestError(f"{day} has not begun yet")
    settled = _settle_open_day(day, zone, now)
    if settled is None:
        raise BillingRequestError(f"the month of {day} is closed")
    return settled


def settle_closing_day(day: date) -> Settled:
    """For the month close: settle a day that takes no more rows."""
    with transaction.atomic(), connection.cursor() as cursor:
        lock(cursor, DAY_LOCK, day.toordinal())
        return _settle(cursor, day, billing_zone(), over=True)


def settle_adjustments(month: date) -> int:
    """Settle what arrived after its own month was closed and goes on the bill of ``month``;
    returns how many adjustments are new or have changed."""
    with transaction.atomic(), connection.cursor() as cursor:
        lock(cursor, MONTH_LOCK, month.toordinal())
        LateUsage.objects.filter(billed_in=month).delete()
        day = "(received_at AT TIME ZONE %(zone)s)::date"
        values: dict[str, date | str] = {"zone": settings.BILLING_TZ, "month": month}
        _read(cursor, day, "billed_in = %(month)s", values)
        cursor.execute(sql.ADJUST, values)
        return int(cursor.rowcount)


def settle_due(*, now: datetime | None = None) -> list[Settled]:
    """Settle every day that is over and needs it: not settled yet, or with rows that came later.

    Rows that belong on another month's bill become its adjustments.
    """
    now = now or timezone.now()
    zone = billing_zone()
    settled = [_settle_open_day(day, zone, now) for day in due_days(now)]
    for month in _months_with_late_rows():
        settle_adjustments(month)
    return [day for day in settled if day is not None]


def due_days(now: datetime) -> list[date]:
    """Days that are over, open, and not settled as they stand; the earliest first."""
    zone = billing_zone()
    held = clock()
    since = None if held is None else held.closed_until
    today = day_of(now, zone)
    late = LateUsage.objects.filter(billed_in=None, at__lt=midnight(today, zone))
    if since is not None:
        late = late.filter(at__gte=since)
    found = {day_of(at, zone) for at in late.values_list("at", flat=True).iterator()}
    settled = set(DaySettlement.objects.values_list("day", flat=True))
    found.update(day for day in days_with_rows(since, today, zone) if day not in settled)
    return sorted(found)


def days_with_rows(since: datetime | None, until: date, zone: tzinfo) -> list[date]:
    """Days before ``until`` that have usage rows from ``since`` on (None: from ever). One look
    into an index each."""
    found: list[date] = []
    rows = UsageRecord.objects.filter(billed_in=None, received_at__lt=midnight(until, zone))
    while True:
        later = rows if since is None else rows.filter(received_at__gte=since)
        first = later.aggregate(first=Min("received_at"))["first"]
        if first is None:
            return found
        found.append(day_of(first, zone))
        since = midnight(found[-1] + timedelta(days=1), zone)


def lock(cursor: CursorWrapper, what: int, which: int) -> None:
    """Wait for whoever does the same, until the end of the transaction."""
    cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [what, which])


def _settle_open_day(day: date, zone: tzinfo, now: datetime) -> Settled | None:
    """Settle a day; None if its month was closed meanwhile."""
    end = day_bounds(day, zone)[1]
    if end <= now:
        settle_until(end)
    with transaction.atomic(), connection.cursor() as cursor:
        lock(cursor, DAY_LOCK, day.toordinal())
        held = clock()
        if held is not None and held.closed_until is not None and end <= held.closed_until:
            return None
        return _settle(cursor, day, zone, over=end <= now)


def _settle(cursor: CursorWrapper, day: date, zone: tzinfo, *, over: bool) -> Settled:
    start, end = day_bounds(day, zone)
    # First the marks, then the rows: a row that lands in between leaves its mark for next time.
    LateUsage.objects.filter(billed_in=None, at__gte=start, at__lt=end).delete()
    where = "billed_in IS NULL AND received_at >= %(start)s AND received_at < %(end)s"
    rows = _read(cursor, "%(day)s::date", where, {"start": start, "end": end, "day": day})
    cursor.execute(sql.SETTLE_HOURS)
    cursor.execute(sql.SETTLE_DAYS)
    changed = int(cursor.rowcount)
    if over:
        DaySettlement.objects.update_or_create(
            day=day, defaults={"rows": rows, "settled_at": timezone.now()}
        )
    return Settled(day, rows, changed)


def _read(cursor: CursorWrapper, day: str, where: str, values: Mapping[str, date | str]) -> int:
    """Fill the temporary table ``hours``; returns the number of usage rows."""
    cursor.execute("DROP TABLE IF EXISTS pg_temp.used, pg_temp.hours")
    # Groups are few and rows many: one pass with a hash, on every core there is.
    cursor.execute("SET LOCAL work_mem = '128MB'; SET LOCAL jit = off")
    cursor.execute(sql.read_rows(day=day, where=where), values)
    cursor.execute(sql.PRICE_HOURS)
    cursor.execute("SELECT coalesce(sum(requests), 0)::bigint FROM hours")
    (rows,) = cursor.fetchone() or (0,)
    return int(rows)


def _months_with_late_rows() -> list[date]:
    months = LateUsage.objects.exclude(billed_in=None).values_list("billed_in", flat=True)
    return sorted({month for month in months.distinct() if month is not None})
