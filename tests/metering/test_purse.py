"""Monthly budgets: never below nothing, whole at the month's end, in step with the books."""

from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from metering.core.bucket import NEVER
from metering.core.months import month_of
from metering.core.purse import Purse
from metering.core.tariff import ModelRates, Tariff, Used

SECOND = 1_000_000_000
MONTH = partial(month_of, zone=UTC)


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * SECOND


NOW = ns("2026-05-20T12:00:00+00:00")
JUNE = ns("2026-06-01T00:00:00+00:00")


@pytest.mark.parametrize(
    ("zone", "moment", "first", "after"),
    [
        ("UTC", "2026-05-31T23:59:59+00:00", "2026-05-01T00:00:00+00:00", "2026-06-01T00:00+00:00"),
        (
            "Asia/Shanghai",
            "2026-05-31T23:59:59+00:00",
            "2026-06-01T00:00:00+08:00",
            "2026-07-01T00:00:00+08:00",
        ),
        # A month that begins in winter time and ends in summer time.
        (
            "Europe/Berlin",
            "2026-03-29T12:00:00+00:00",
            "2026-03-01T00:00:00+01:00",
            "2026-04-01T00:00:00+02:00",
        ),
        ("UTC", "2026-12-31T12:00:00+00:00", "2026-12-01T00:00:00+00:00", "2027-01-01T00:00+00:00"),
    ],
)
def test_months_are_local(zone: str, moment: str, first: str, after: str) -> None:
    found = month_of(ns(moment), ZoneInfo(zone))
    assert found == (ns(first), ns(after))
    assert month_of(found[0], ZoneInfo(zone)) == found
    assert month_of(found[1] - 1, ZoneInfo(zone)) == found


def test_exactly_the_limit_may_be_spent() -> None:
    purse = Purse(Decimal("0.3"), MONTH, NOW)
    for _ in range(3):
        assert purse.wait_for(Decimal("0.1"), NOW) == 0
        purse.take(Decimal("0.1"), NOW)
    assert purse.left(NOW) == 0
    assert purse.wait_for(Decimal("0.000001"), NOW) == JUNE - NOW
    # Nothing at all costs nothing.
    assert purse.wait_for(Decimal(0), NOW) == 0


def test_a_month_later_all_of_it_is_there_again() -> None:
    purse = Purse(Decimal(1), MONTH, NOW)
    month = purse.take(Decimal(1), NOW)
    wait = purse.wait_for(Decimal(1), NOW)
    assert purse.wait_for(Decimal(1), NOW + wait - 1) == 1
    assert purse.wait_for(Decimal(1), NOW + wait) == 0
    # What May's request came to is not June's matter.
    purse.settle(month, Decimal(1), Decimal(5))
    assert purse.left(NOW + wait) == 1


def test_more_than_the_limit_is_never_granted_and_zero_blocks() -> None:
    assert Purse(Decimal(1), MONTH, NOW).wait_for(Decimal("1.01"), NOW) == NEVER
    assert Purse(Decimal(0), MONTH, NOW).wait_for(Decimal(0), NOW) == NEVER


def test_the_books_are_right_where_they_are_whole_and_at_least_so_much_otherwise() -> None:
    purse = Purse(Decimal(10), MONTH, NOW)
    month = purse.take(Decimal(2), NOW)
    purse.settle(month, Decimal(2), Decimal(1))
    # An earlier process had spent 4, and ours is in the books as well.
    purse.rebase(month, Decimal(5), Decimal(1), whole=True)
    assert purse.left(NOW) == 5
    month = purse.take(Decimal(3), NOW)
    purse.settle(month, Decimal(3), Decimal(3))
    # Our last 3 are not there yet.
    purse.rebase(month, Decimal(5), Decimal(4), whole=False)
    assert purse.left(NOW) == 2
    # A credit was given.
    purse.rebase(month, Decimal(7), Decimal(4), whole=True)
    assert purse.left(NOW) == 3
    purse.rebase(month - 1, Decimal(0), Decimal(0), whole=True)
    assert purse.left(NOW) == 3


def test_the_price_of_a_request() -> None:
    """E10's figures: cached tokens at their own price, or once at the full one."""
    rates = ModelRates(
        prompt=Decimal(2),
        cached=Decimal("0.5"),
        completion=Decimal(8),
        gpu_second=Decimal("0.001"),
        request=Decimal("0.0001"),
        lanes=(Decimal(2), Decimal(1), Decimal("0.5")),
    )
    used = Used(prompt=20_212, cached=16_298, completion=931, gpu_seconds=1.5)
    tariff = Tariff({"chat": rates})
    exact = Decimal("0.007828") + Decimal("0.008149") + Decimal("0.007448") + Decimal("0.0016")
    assert tariff.cost("chat", 1, used) == exact
    assert tariff.cost("chat", 0, used) == 2 * exact
    assert tariff.cost("other", 1, used) == 0
    assert tariff.cost("chat", 1, Used(prompt=5, counted=False)) == 0
    plain = Tariff({"": ModelRates(prompt=Decimal(2))})
    assert plain.cost("any", 2, used) == Decimal("0.040424")
