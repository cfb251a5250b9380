"""What was spent so far this month, for the check of budgets."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal

from django.db import connection
from django.db.models import Sum

from metering.core.periods import day_of, midnight
from metering.core.prices import PriceList
from metering.models import DailyStatement, DaySettlement
from metering.selectors.prices import prices_at
from metering.services.settlement_sql import priced_hours

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS = "received_at >= %(since)s AND finished_at < %(before)s"
_BY_BUSINESS = (
    "SELECT business, sum(amount) FROM ("  # noqa: S608 - made of constants
    + priced_hours(day="NULL::date", where=f"{_ROWS} AND business = ANY(%(businesses)s)")
    + ") AS hours GROUP BY 1"
)
_OF_KEY = (
    "SELECT coalesce(sum(amount), 0) FROM ("  # noqa: S608 - made of constants
    + priced_hours(
        day="NULL::date",
        where=f"{_ROWS} AND business = %(business)s AND key_prefix = %(prefix)s",
    )
    + ") AS hours"
)


def load_spent(
    since: int,
    before: int,
    businesses: Sequence[str],
    keys: Sequence[tuple[str, str]],
    *,
    zone: tzinfo,
) -> tuple[PriceList, Mapping[str, Decimal], Mapping[tuple[str, str], Decimal]]:
    """The prices at ``before``, and what these businesses and keys (business, prefix) have spent
    with requests received from ``since`` on and finished before that (ns).

    ``since`` is the beginning of a month in ``zone``. Days that are settled are read from their
    statements; what arrived late counts when they are settled again.
    """
    start, end = _moment(since), _moment(before)
    by_business = dict.fromkeys(businesses, Decimal(0))
    if businesses:
        open_since = _first_unsettled(start, zone)
        statements = DailyStatement.objects.filter(
            business__in=businesses, day__gte=day_of(start, zone), day__lt=day_of(open_since, zone)
        )
        for name, amount in statements.values_list("business").annotate(Sum("amount")):
            by_business[name] += amount
        with connection.cursor() as cursor:
            cursor.execute(
                _BY_BUSINESS,
                {"since": open_since, "before": end, "businesses": list(businesses)},
            )
            for name, amount in cursor.fetchall():
                by_business[name] += amount
    by_key = {key: _spent_by_key(start, end, key) for key in keys}
    return prices_at(end), by_business, by_key


def _spent_by_key(start: datetime, end: datetime, key: tuple[str, str]) -> Decimal:
    business, prefix = key
    with connection.cursor() as cursor:
        cursor.execute(
            _OF_KEY, {"since": start, "before": end, "business": business, "prefix": prefix}
        )
        (amount,) = cursor.fetchone() or (Decimal(0),)
    return Decimal(amount)


def _first_unsettled(start: datetime, zone: tzinfo) -> datetime:
    """The first moment from ``start`` on whose day is not settled yet."""
    day = day_of(start, zone)
    for settled in (
        DaySettlement.objects.filter(day__gte=day).order_by("day").values_list("day", flat=True)
    ):
        if settled != day:
            break
        day += timedelta(days=1)
    return midnight(day, zone)


def _moment(ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ns // 1000)
