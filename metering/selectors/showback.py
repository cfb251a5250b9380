"""The month so far: spent, at this pace, and left of the budget."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection
from django.db.models import Sum
from django.utils import timezone

from metering.core.periods import day_of, midnight, month_bounds, month_of, next_month
from metering.core.prices import EXACT, ZERO
from metering.core.rounding import total
from metering.models import Adjustment, DailyStatement, DaySettlement, Quota
from metering.services.settlement_sql import priced_hours

_WHERE = "billed_in IS NULL AND received_at >= %(since)s AND received_at < %(until)s"
_SUMS = "SELECT business, sum(requests), sum(prompt_tokens + completion_tokens), sum(amount) FROM"
_ALL = f"{_SUMS} ({priced_hours(day='NULL::date', where=_WHERE)}) AS hours GROUP BY 1"
_ONE = (
    f"{_SUMS} ({priced_hours(day='NULL::date', where=_WHERE + ' AND business = %(business)s')})"
    " AS hours GROUP BY 1"
)


@dataclass(frozen=True, slots=True)
class Spent:
    """What one business used of a month until ``as_of``, exact; what came late is in it.

    ``forecast``: the whole month's amount at the pace so far. ``budget`` None: there is none.
    """

    business: str
    month: date
    as_of: datetime
    requests: int
    tokens: int
    amount: Decimal
    forecast: Decimal
    budget: Decimal | None

    @property
    def left(self) -> Decimal | None:
        """Of the budget; negative when more was spent."""
        return None if self.budget is None else EXACT.subtract(self.budget, self.amount)

    @property
    def used_ratio(self) -> float | None:
        """Spent over budget; None without one."""
        return float(self.amount / self.budget) if self.budget else None


def month_to_date(business: str, now: datetime | None = None) -> Spent:
    """One business's month so far. Zeros for one that has used nothing."""
    now = now or timezone.now()
    found = _spent(now, business)
    return found.get(business) or _of(business, (0, 0, ZERO), now, _budgets().get(business))


def all_month_to_date(now: datetime | None = None) -> list[Spent]:
    """Every business that used something or has a budget, by name."""
    now = now or timezone.now()
    found, budgets = _spent(now, ""), _budgets()
    for name, budget in budgets.items():
        found.setdefault(name, _of(name, (0, 0, ZERO), now, budget))
    return [found[name] for name in sorted(found)]


def first_unsettled(month: date, now: datetime, zone: ZoneInfo) -> date:
    """The first day of the month that has no final statements."""
    settled = set(
        DaySettlement.objects.filter(day__gte=month, day__lt=next_month(month)).values_list(
            "day", flat=True
        )
    )
    day, today = month, day_of(now, zone)
    while day in settled and day < today:
        day += timedelta(days=1)
    return day


def _spent(now: datetime, business: str) -> dict[str, Spent]:
    """Settled days from their statements, the rest from the rows."""
    zone = ZoneInfo(settings.BILLING_TZ)
    month = month_of(now, zone)
    since = first_unsettled(month, now, zone)
    sums: dict[str, list[tuple[int, int, Decimal]]] = {}
    statements = DailyStatement.objects.filter(day__gte=month, day__lt=since)
    late = Adjustment.objects.filter(billed_in=month)
    for rows in (statements, late):
        chosen = rows.filter(business=business) if business else rows
        for row in (
            chosen.order_by()
            .values("business")
            .annotate(
                all_requests=Sum("requests"),
                prompt=Sum("prompt_tokens"),
                completion=Sum("completion_tokens"),
                all_amount=Sum("amount"),
            )
        ):
            tokens = row["prompt"] + row["completion"]
            sums.setdefault(row["business"], []).append(
                (row["all_requests"], tokens, row["all_amount"])
            )
    with connection.cursor() as cursor:
        cursor.execute(
            _ONE if business else _ALL,
            {"since": midnight(since, zone), "until": now, "business": business},
        )
        for name, requests, tokens, amount in cursor.fetchall():
            sums.setdefault(name, []).append((int(requests), int(tokens), amount))
    budgets = _budgets()
    return {
        name: _of(
            name,
            (sum(p[0] for p in parts), sum(p[1] for p in parts), total(p[2] for p in parts)),
            now,
            budgets.get(name),
        )
        for name, parts in sums.items()
    }


def _of(
    business: str, sums: tuple[int, int, Decimal], now: datetime, budget: Decimal | None
) -> Spent:
    zone = ZoneInfo(settings.BILLING_TZ)
    month = month_of(now, zone)
    start, end = month_bounds(month, zone)
    elapsed = Decimal((now.astimezone(UTC) - start) // timedelta(microseconds=1))
    whole = Decimal((end - start) // timedelta(microseconds=1))
    requests, tokens, amount = sums
    forecast = amount * whole / elapsed if elapsed else amount
    return Spent(business, month, now, requests, tokens, amount, forecast, budget)


def _budgets() -> Mapping[str, Decimal]:
    rows = Quota.objects.filter(kind=Quota.Kind.LIMIT).exclude(monthly_budget=None)
    return {
        name: budget
        for name, budget in rows.values_list("business__name", "monthly_budget")
        if budget is not None
    }
