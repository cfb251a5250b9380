"""The reconciliation report: usage rows = statements = bills, to the unit, and the GPU time
that was used and idle = wall clock."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from metering.core.periods import day_of, days_of, first_of, month_bounds, month_of, next_month
from metering.models import (
    ChangeVersion,
    DaySettlement,
    LateUsage,
    MonthClose,
    ReconciliationReport,
)
from metering.services import reconciliation_sql as sql
from metering.services.billing_clock import clock
from metering.services.changes import announce
from metering.services.settlement import billing_zone

Values = Mapping[str, date | str | list[date]]
# The meters' own rounding: each share is off by less than this part of it.
GPU_TOLERANCE = Decimal("0.000001")
EVERY = timedelta(hours=20)
NOT_KEPT = "the rows are no longer kept"
LONG_AGO = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Check:
    """Two sides that must be equal. ``differences`` counts the groups (business, day, model and
    lane, or bills) that are not, ``examples`` names some. ``note`` says what could not be seen."""

    name: str
    left_name: str
    right_name: str
    left: Decimal
    right: Decimal
    left_requests: int = 0
    right_requests: int = 0
    differences: int = 0
    examples: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class GpuTime:
    """GPU-seconds of a month: charged, used by requests that are not charged, and idle."""

    billed: Decimal
    unbilled: Decimal
    idle: Decimal
    wall: Decimal


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """All checks of one month. ``gpu`` None: no replica's time is on record."""

    month: date
    at: datetime
    checks: tuple[Check, ...]
    gpu: GpuTime | None

    @property
    def differences(self) -> int:
        """0 when everything agrees."""
        return sum(check.differences for check in self.checks)


def reconcile(month: date, *, now: datetime | None = None) -> Reconciliation:
    """Compare the books of one month, as they stand in one snapshot; days that are not settled
    yet, or have rows still to be settled, are left out. Keeps the report."""
    now = now or timezone.now()
    month = first_of(month)
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.connection is not None and not connection.savepoint_ids:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        checks = [_rows_and_statements(month), _late_rows(month)]
        if MonthClose.objects.filter(month=month).exclude(billed_at=None).exists():
            checks += [_statements_and_bills(month), _totals(month)]
        gpu, gpu_check = _gpu(month)
        if gpu_check is not None:
            checks.append(gpu_check)
    found = Reconciliation(month, now, tuple(checks), gpu)
    with transaction.atomic():
        ReconciliationReport.objects.create(
            month=month, at=now, differences=found.differences, data=_plain(found)
        )
        announce(ChangeVersion.Topic.BOOKS)
    return found


def reconcile_recent(*, now: datetime | None = None) -> list[Reconciliation]:
    """The current month and the one before, unless that was done within the day."""
    now = now or timezone.now()
    current = month_of(now, billing_zone())
    before = first_of(current - timedelta(days=1))
    done = ReconciliationReport.objects.filter(at__gt=now - EVERY, at__lte=now)
    recent = set(done.values_list("month", flat=True))
    return [reconcile(month, now=now) for month in (before, current) if month not in recent]


def _rows_and_statements(month: date) -> Check:
    names = ("rows = statements", "usage rows", "statements")
    start, end = _bounds(month)
    held = clock()
    if held is not None and held.rows_since is not None and start < held.rows_since:
        return Check(*names, Decimal(0), Decimal(0), note=NOT_KEPT)
    zone = billing_zone()
    marks = LateUsage.objects.filter(billed_in=None, at__gte=start, at__lt=end)
    waiting = {day_of(at, zone) for at in marks.values_list("at", flat=True).iterator()}
    settled = set(
        DaySettlement.objects.filter(day__in=days_of(month)).values_list("day", flat=True)
    )
    days = sorted(settled - waiting)
    values: Values = {"start": start, "end": end, "days": days, "zone": settings.BILLING_TZ}
    return _compare(names, sql.ROWS_AND_STATEMENTS, values)


def _late_rows(month: date) -> Check:
    names = ("late rows = adjustments", "late rows", "adjustments")
    if LateUsage.objects.filter(billed_in=month).exists():
        return Check(*names, Decimal(0), Decimal(0), note="late rows wait to be settled")
    held = clock()
    since = None if held is None else held.rows_since
    kept = LONG_AGO if since is None else day_of(since, billing_zone())
    values: Values = {"month": month, "zone": settings.BILLING_TZ, "kept": kept}
    return _compare(names, sql.LATE_ROWS_AND_ADJUSTMENTS, values)


def _statements_and_bills(month: date) -> Check:
    names = ("statements = bills", "statements and adjustments", "bill lines")
    values = {"month": month, "next": next_month(month)}
    return _compare(names, sql.STATEMENTS_AND_BILLS, values)


def _totals(month: date) -> Check:
    left, right, wrong, _ = _one(sql.TOTALS, {"month": month})
    count, last = _one(sql.NUMBERS, {})
    missing = int(last) - int(count)
    examples = (f"{missing} bill numbers are missing",) if missing else ()
    return Check(
        "lines = totals",
        "bill lines, rounded",
        "bill totals",
        left,
        right,
        differences=int(wrong) + missing,
        examples=examples,
    )


def _gpu(month: date) -> tuple[GpuTime | None, Check | None]:
    """A share counts for the day its request was accepted, busy time for the hour it passed in:
    requests across the month's edges may differ by what they used."""
    start, end = _bounds(month)
    values = {"start": start, "end": end}
    wall, busy, hours = _one(sql.GPU_HOURS, values)
    held = clock()
    kept = held is None or held.rows_since is None or start >= held.rows_since
    if not hours or not kept:
        return None, None
    used, billed, across = _one(sql.GPU_ROWS, values)
    (before,) = _one(sql.GPU_BEFORE, values)
    allowed = busy * GPU_TOLERANCE + across + before
    off = abs(used - busy) > allowed or busy > wall
    check = Check(
        "GPU time",
        "charged + not charged + idle",
        "wall clock",
        used + (wall - busy),
        wall,
        differences=int(off),
        examples=(f"{used} GPU-seconds in rows, {busy} on replicas",) if off else (),
    )
    return GpuTime(billed, used - billed, wall - busy, wall), check


def _bounds(month: date) -> tuple[datetime, datetime]:
    """As they were when the month was closed, if it is."""
    close = MonthClose.objects.filter(month=month).first()
    return (
        month_bounds(month, billing_zone()) if close is None else (close.starts_at, close.ends_at)
    )


def _compare(names: tuple[str, str, str], query: str, values: Values) -> Check:
    left_requests, right_requests, left, right, groups, examples = _row(query, values)
    return Check(
        *names,
        Decimal(left),
        Decimal(right),
        int(left_requests),
        int(right_requests),
        int(groups),
        tuple(examples or ()),
    )


def _one(query: str, values: Values) -> tuple[Decimal, ...]:
    return tuple(Decimal(value) for value in _row(query, values))


def _row(query: str, values: Values) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        row = cursor.fetchone()
    assert row is not None
    return tuple(row)


def _plain(found: Reconciliation) -> dict[str, object]:
    """As JSON: money and GPU-seconds as strings."""
    checks = [
        {
            name: str(value) if isinstance(value, Decimal) else value
            for name, value in asdict(check).items()
        }
        for check in found.checks
    ]
    gpu = None if found.gpu is None else {k: str(v) for k, v in asdict(found.gpu).items()}
    return {"checks": checks, "gpu": gpu}
