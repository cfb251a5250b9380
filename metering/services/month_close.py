"""Closing a month.

First, for a moment, no row may be written and the billing clock moves on: from then on a row of
that month counts as late and goes on a later bill. Then its days are settled one last time and
each business gets its bill: by whoever closes it, or in the background where somebody waits for
an answer. A process that dies in between leaves a month whose bills the next one issues.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import connection, transaction
from django.db.models import Min
from django.utils import timezone

from metering.core.periods import day_of, first_of, month_bounds, month_of, next_month
from metering.errors import BillingRequestError
from metering.models import Adjustment, DailyStatement, DaySettlement, LateUsage, MonthClose
from metering.services import audit
from metering.services.background import start
from metering.services.billing_clock import clock, close_until
from metering.services.bills import issue_bill
from metering.services.settlement import (
    MONTH_LOCK,
    billing_zone,
    days_with_rows,
    lock,
    settle_adjustments,
    settle_closing_day,
    settle_due,
)

TASK = "metering.finish_closes"


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed month, and how many bills were issued now."""

    month: date
    issued: int


def close_month(
    month: date, *, now: datetime | None = None, source: str = "system"
) -> list[Closed]:
    """Close ``month`` and any month before it that is still open, and issue the bills.

    Safe to repeat: a closed month stays as it is. Raises BillingRequestError for a month that is
    not over yet.
    """
    now = now or timezone.now()
    month = _over(month, now)
    settle_due(now=now)
    return [_finish(_take_no_more(each, now), source) for each in months_to_close(month)]


def begin_close(
    month: date,
    *,
    actor: AbstractBaseUser | None,
    source: str = "console",
    now: datetime | None = None,
) -> int:
    """The quick half of ``close_month``: ``finish_closes`` settles the days and issues the bills,
    in the background. Returns the number of months that were open. Raises the same."""
    now = now or timezone.now()
    month = _over(month, now)
    with transaction.atomic():
        begun = [each for each in months_to_close(month) if not _is_closed(each)]
        for each in begun:
            _take_no_more(each, now)
            audit.record("month.begin_close", actor=actor, source=source, target=f"{each:%Y-%m}")
        transaction.on_commit(lambda: start(TASK))
    return len(begun)


def finish_closes(*, source: str = "console") -> list[Closed]:
    """Issue the bills of each month that is closed and has not all of them. Safe to repeat."""
    found = MonthClose.objects.filter(billed_at=None).order_by("month")
    return [_finish(close, source) for close in found]


def _is_closed(month: date) -> bool:
    return MonthClose.objects.filter(month=month).exists()


def _over(month: date, now: datetime) -> date:
    """The first day of a month that is over."""
    month = first_of(month)
    if month_bounds(month, billing_zone())[1] > now:
        raise BillingRequestError(f"{month:%Y-%m} is not over yet")
    return month


def close_due(*, now: datetime | None = None) -> list[Closed]:
    """Close the months that ended at least ``BILLING_GRACE_HOURS`` ago and are still open."""
    now = now or timezone.now()
    current = month_of(now - timedelta(hours=settings.BILLING_GRACE_HOURS), billing_zone())
    due = first_of(current - timedelta(days=1))
    if clock() is None and not days_with_rows(None, current, billing_zone()):
        return []
    return close_month(due, now=now) if months_to_close(due) else []


def months_to_close(until: date) -> list[date]:
    """Months to ``until`` that are open, or closed with bills still to be issued."""
    found = list(
        MonthClose.objects.filter(billed_at=None, month__lte=until)
        .order_by("month")
        .values_list("month", flat=True)
    )
    held = clock()
    month = None if held is None else held.open_month
    if month is None:
        first = DailyStatement.objects.aggregate(day=Min("day"))["day"]
        month = until if first is None else min(first_of(first), until)
    while month <= until:
        found.append(month)
        month = next_month(month)
    return found


def _take_no_more(month: date, now: datetime) -> MonthClose:
    """From the return of this on, rows of ``month`` that arrive go on a later bill."""
    starts_at, ends_at = month_bounds(month, billing_zone())
    with transaction.atomic(), connection.cursor() as cursor:
        lock(cursor, MONTH_LOCK, 0)
        close = MonthClose.objects.filter(month=month).first()
        if close is None:
            before = MonthClose.objects.order_by("-month").first()
            if before is not None:
                # Another BILLING_TZ since then leaves no gap and no moment in two months.
                starts_at = before.ends_at
            close_until(ends_at, next_month(month))
            close = MonthClose.objects.create(
                month=month, starts_at=starts_at, ends_at=ends_at, closed_at=now
            )
    return close


def _finish(close: MonthClose, source: str) -> Closed:
    """Settle what came last, issue the bills, and let nothing change any more."""
    month = close.month
    for day in _unsettled(close):
        settle_closing_day(day)
    settle_adjustments(month)
    statements = DailyStatement.objects.filter(day__gte=month, day__lt=next_month(month))
    businesses = set(statements.values_list("business", flat=True))
    businesses.update(Adjustment.objects.filter(billed_in=month).values_list("business", flat=True))
    issued = sum(issue_bill(business, close) is not None for business in sorted(businesses))
    with transaction.atomic():
        if MonthClose.objects.filter(month=month, billed_at=None).update(billed_at=timezone.now()):
            audit.record("month.close", actor=None, source=source, target=f"{month:%Y-%m}")
    return Closed(month, issued)


def _unsettled(close: MonthClose) -> list[date]:
    """Its days that were never settled, or had rows since."""
    zone = billing_zone()
    marks = LateUsage.objects.filter(
        billed_in=None, at__gte=close.starts_at, at__lt=close.ends_at
    ).values_list("at", flat=True)
    found = {day_of(at, zone) for at in marks.iterator()}
    days = days_with_rows(close.starts_at, next_month(close.month), zone)
    settled = set(DaySettlement.objects.filter(day__in=days).values_list("day", flat=True))
    found.update(day for day in days if day not in settled)
    return sorted(found)
