"""Days: what is in them, what they cost, and that they settle once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import Error, connection, connections, transaction
from django.db.models import Sum

from metering.core.prices import PriceList, Used, cost
from metering.errors import BillingRequestError
from metering.models import (
    DailyStatement,
    DaySettlement,
    LateUsage,
    PriceBook,
    UsageHour,
    UsageRecord,
)
from metering.selectors.charges import charge_of
from metering.services.prices import set_prices, withdraw_prices
from metering.services.settlement import due_days, settle_day, settle_due

from .world import CHAT, PRICES, price_all, table, used, utc

pytestmark = pytest.mark.django_db

SHANGHAI = ZoneInfo("Asia/Shanghai")
DAY = date(2026, 3, 10)
NOON = datetime(2026, 3, 10, 12, tzinfo=SHANGHAI)
LATER = datetime(2026, 3, 15, tzinfo=SHANGHAI)


def statements(day: date = DAY) -> dict[tuple[str, str, str], DailyStatement]:
    return {
        (row.business, row.model, row.lane): row for row in DailyStatement.objects.filter(day=day)
    }


def test_a_day_in_figures() -> None:
    price_all()
    used(NOON)
    used(NOON, preempted=2, gpu_seconds=0.25)
    used(NOON, displaced="x")
    used(NOON, lane="P0")
    used(NOON, requested_model="small")
    used(NOON, business="doc-qa", estimated=True)
    settled = settle_day(DAY, now=LATER)
    assert (settled.rows, settled.changed) == (6, 4)
    found = statements()
    assert len(found) == 4
    p1 = found["risk-audit", "chat", "P1"]
    assert (p1.requests, p1.billed_requests, p1.prompt_tokens, p1.cached_tokens) == (
        *(3, 3),
        *(3000, 600),
    )
    assert (p1.completion_tokens, p1.gpu_seconds) == (300, Decimal("1.25"))
    assert (p1.preempted, p1.displaced, p1.first_price, p1.last_price) == (2, 1, 1, 1)
    expected = cost(
        PRICES, "chat", "P1", Used(3000, 600, 300, Decimal("1.25"), 3, preempted=2, displaced=1)
    )
    assert (p1.charge, p1.credit, p1.surcharge) == (
        expected.charge,
        Decimal("0.004"),
        Decimal("0.003"),
    )
    assert p1.amount == expected.amount
    p0 = found["risk-audit", "chat", "P0"]
    assert p0.amount == cost(PRICES, "chat", "P0", Used(1000, 200, 100, Decimal("0.5"))).amount
    other = found["risk-audit", "small", "P1"]
    assert other.amount == Decimal("0.0014")
    assert found["doc-qa", "chat", "P1"].estimated == 1
    assert (
        UsageHour.objects.aggregate(all=Sum("amount"))["all"]
        == (DailyStatement.objects.aggregate(all=Sum("amount"))["all"])
    )


def test_what_fails_before_any_output_costs_nothing() -> None:
    """E04."""
    price_all()
    for status in ("upstream_error", "client_disconnect", "internal_error"):
        used(NOON, status=status, completion_tokens=0, preempted=1)
    for status in ("refused", "queue_timeout", "shutting_down"):
        used(NOON, status=status, dispatched_at=None, requested_model="made up by a caller")
    used(NOON, status="client_disconnect", completion_tokens=7)
    settle_day(DAY, now=LATER)
    ran = statements()["risk-audit", "chat", "P1"]
    assert (ran.requests, ran.billed_requests, ran.completion_tokens) == (4, 1, 7)
    assert (ran.gpu_seconds, ran.billed_gpu_seconds) == (Decimal(2), Decimal("0.5"))
    assert ran.credit == 0
    # Whatever callers write as a model makes no lines of its own.
    never = statements()["risk-audit", "", "P1"]
    assert (never.requests, never.billed_requests, never.amount) == (3, 0, Decimal(0))


def test_cached_tokens_are_charged_once() -> None:
    """E10."""
    prices = PriceList(models={"chat": CHAT, "plain": _without_cached(), "odd": CHAT})
    set_prices(prices, starts_at=utc(2020, 1, 1))
    figures: dict[str, Any] = {
        "prompt_tokens": 20_212,
        "cached_tokens": 16_298,
        "completion_tokens": 931,
        "gpu_seconds": 0,
        "lane": "P1",
    }
    used(NOON, **figures)
    used(NOON, **figures, requested_model="plain")
    used(NOON, **{**figures, "cached_tokens": 30_000}, requested_model="odd")
    settle_day(DAY, now=LATER)
    found = {row.model: row for row in DailyStatement.objects.all()}
    million = Decimal(1_000_000)
    output = 931 * CHAT.completion + CHAT.request * million
    assert CHAT.cached is not None
    assert found["chat"].amount * million == (3914 * CHAT.prompt + 16_298 * CHAT.cached + output)
    assert found["plain"].amount * million == 20_212 * CHAT.prompt + output
    assert found["odd"].amount * million == 20_212 * CHAT.cached + output
    assert (found["odd"].clamped, found["odd"].cached_tokens, found["chat"].clamped) == (
        *(1, 20_212),
        0,
    )


def _without_cached() -> Any:
    return type(CHAT)(CHAT.prompt, None, CHAT.completion, CHAT.gpu_second, CHAT.request)


def test_a_lighter_model_that_answered_is_what_is_charged() -> None:
    price_all()
    row = used(NOON, requested_model="chat", degraded_to="lite")
    asked = used(NOON, requested_model="lite")
    settle_day(DAY, now=LATER)
    (statement,) = DailyStatement.objects.all()
    assert (statement.model, statement.requests) == ("lite", 2)
    assert charge_of(row) == charge_of(asked)
    assert charge_of(row) != charge_of(used(NOON, requested_model="chat"))


def test_a_later_price_leaves_earlier_days_alone() -> None:
    """E07."""
    price_all()
    for minute in range(30):
        used(NOON + timedelta(minutes=minute), preempted=minute % 2)
    settle_due(now=NOON + timedelta(days=1))
    before = table("metering_dailystatement")
    dearer = PriceList(models={"": CHAT, "chat": type(CHAT)(prompt=Decimal(999))})
    second = set_prices(dearer, starts_at=NOON + timedelta(days=1))
    used(NOON + timedelta(days=1) - timedelta(microseconds=1))
    used(NOON + timedelta(days=1))
    assert list(
        UsageRecord.objects.order_by("received_at").values_list("price_version", flat=True)
    ) == ([1] * 31 + [2])
    settle_due(now=LATER)
    settle_day(DAY, now=LATER)
    assert table("metering_dailystatement", f"day = '{DAY}'") == before
    mixed = statements(DAY + timedelta(days=1))["risk-audit", "chat", "P1"]
    assert (mixed.first_price, mixed.last_price) == (1, second.version)
    one = cost(PRICES, "chat", "P1", Used(1000, 200, 100, Decimal("0.5"))).amount
    assert mixed.amount == one + Decimal("0.999")


def test_prices_cannot_change_for_what_is_past() -> None:
    price_all()
    used(NOON)
    with pytest.raises(BillingRequestError, match="past"):
        set_prices(PRICES, starts_at=NOON)
    with pytest.raises(BillingRequestError, match="past"):
        set_prices(PRICES, starts_at=utc(2019, 1, 1))
    set_prices(PRICES, starts_at=utc(2096, 1, 1))
    with pytest.raises(BillingRequestError, match="begin later"):
        set_prices(PRICES)
    for wrong in ("-1", "NaN", "0.0000001", "1e12"):
        with pytest.raises(BillingRequestError):
            set_prices(PriceList(preemption_credit=Decimal(wrong)))


def test_prices_that_have_not_begun_can_be_taken_back() -> None:
    price_all()
    typo = set_prices(PriceList(models={"": CHAT, "chat": CHAT}), starts_at=utc(2096, 1, 1))
    withdraw_prices(typo)
    assert set_prices(PRICES, starts_at=utc(2095, 1, 1)).version == 2
    with pytest.raises(BillingRequestError, match="has begun"):
        withdraw_prices(PriceBook.objects.get(version=1))
    # By other ways neither: in part, or one that has begun.
    for version in (1, 2):
        with pytest.raises(Error), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM metering_modelprice WHERE model = '' AND book_id = %s;"
                "SET CONSTRAINTS ALL IMMEDIATE",
                [version],
            )


def test_before_the_first_price_everything_is_free() -> None:
    used(NOON)
    settle_day(DAY, now=LATER)
    row = statements()["risk-audit", "chat", "P1"]
    assert (row.amount, row.first_price, row.requests) == (Decimal(0), None, 1)


def test_settling_again_changes_nothing() -> None:
    price_all()
    used(NOON)
    assert settle_day(DAY, now=LATER).changed == 1
    before = table("metering_dailystatement"), table("metering_usagehour")
    assert settle_day(DAY, now=LATER).changed == 0
    assert (table("metering_dailystatement"), table("metering_usagehour")) == before


def test_missed_days_and_late_rows_are_caught_up() -> None:
    """H05: a day on which nobody settled is settled by whoever comes next."""
    price_all()
    for day in (0, 1, 3):
        used(NOON + timedelta(days=day))
    now = NOON + timedelta(days=4)
    assert due_days(now) == [DAY, DAY + timedelta(days=1), DAY + timedelta(days=3)]
    assert [settled.day.day for settled in settle_due(now=now)] == [10, 11, 13]
    assert settle_due(now=now) == []
    used(NOON)
    assert LateUsage.objects.count() == 1
    assert settle_due(now=now) == [type(settle_day(DAY, now=now))(DAY, 2, 1)]
    assert statements()["risk-audit", "chat", "P1"].requests == 2
    assert settle_due(now=now) == []
    assert DaySettlement.objects.get(day=DAY).rows == 2
    # What was accepted today is nobody's day yet.
    used(now)
    assert settle_due(now=now) == []


def test_the_day_is_that_of_acceptance() -> None:
    """E11: accepted at 23:59:50 and finished at 00:00:20."""
    price_all()
    last = datetime(2026, 3, 31, 23, 59, 50, tzinfo=SHANGHAI)
    used(last, finished_at=last + timedelta(seconds=30))
    used(last + timedelta(seconds=10))
    settle_due(now=last + timedelta(days=2))
    days = list(DailyStatement.objects.order_by("day").values_list("day", "requests"))
    assert days == [(date(2026, 3, 31), 1), (date(2026, 4, 1), 1)]


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("UTC", date(2026, 3, 29), 24),
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("America/Havana", date(2026, 11, 1), 25),
        ("America/Havana", date(2026, 3, 8), 23),
        ("Asia/Kolkata", date(2026, 3, 29), 24),
        ("Asia/Kathmandu", date(2026, 3, 29), 24),
        ("Pacific/Kiritimati", date(2026, 1, 1), 24),
    ],
)
def test_days_of_other_zones(zone: str, day: date, hours: int, settings: Any) -> None:
    """One request each half hour over three days: a day has what its clock lets it have."""
    settings.BILLING_TZ = zone
    start = datetime.combine(day - timedelta(days=1), datetime.min.time(), ZoneInfo(zone))
    first = start.astimezone(ZoneInfo("UTC"))
    for half in range(144):
        used(first + timedelta(minutes=30 * half))
    settle_due(now=first + timedelta(days=5))
    counts = dict(DailyStatement.objects.values_list("day", "requests"))
    assert counts[day - timedelta(days=1)] == 48
    assert counts[day] == 2 * hours
    assert sum(counts.values()) == 144
    assert UsageHour.objects.filter(day=day).aggregate(all=Sum("requests"))["all"] == 2 * hours


def test_a_row_that_went_missing_is_not_forgotten() -> None:
    price_all()
    row = used(NOON)
    used(NOON)
    settle_day(DAY, now=LATER)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM metering_usagerecord WHERE id = %s", [row.pk])
    assert settle_day(DAY, now=LATER).changed == 0
    assert statements()["risk-audit", "chat", "P1"].requests == 2


def test_a_day_to_come_is_refused_and_today_may_be_looked_at() -> None:
    price_all()
    used(NOON)
    with pytest.raises(BillingRequestError, match="begun"):
        settle_day(DAY + timedelta(days=1), now=NOON)
    assert settle_day(DAY, now=NOON).changed == 1
    assert not DaySettlement.objects.exists()
    assert due_days(LATER) == [DAY]


@pytest.mark.django_db(transaction=True)
def test_settling_at_once_from_several_places_is_settling_once() -> None:
    """H05: the same day, at the same moment, over and over, while rows come in late."""
    price_all()
    for n in range(40):
        used(NOON + timedelta(minutes=n), business=f"tenant-{n % 4}")

    def settle(number: int) -> int:
        try:
            if number % 2:
                used(NOON, business="late")
            return sum(settled.changed for settled in settle_due(now=LATER))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(settle, range(12)))
    settle_due(now=LATER)
    sums = {row.business: row.requests for row in DailyStatement.objects.all()}
    assert sums == {"late": 6, **{f"tenant-{n}": 10 for n in range(4)}}
    before = table("metering_dailystatement"), table("metering_usagehour")
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(settle, (0, 2, 4, 6))) == 0
    assert (table("metering_dailystatement"), table("metering_usagehour")) == before
    assert not LateUsage.objects.exists()
