"""What was spent, for the check of budgets: by business and key, in the month, once landed."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.conf import LazySettings

from metering.core.prices import ModelPrices, PriceList
from metering.models import DailyStatement
from metering.selectors.spending import load_spent
from metering.services.settlement import settle_day
from tests.billing.world import price_all, used

pytestmark = pytest.mark.django_db

MAY = datetime(2026, 5, 1, tzinfo=UTC)
NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)
EACH = Decimal("2.5")


@pytest.fixture(autouse=True)
def prices(settings: LazySettings) -> None:
    settings.BILLING_TZ = "UTC"
    multipliers = (Decimal(3), Decimal(1), Decimal(1))
    chat = ModelPrices(
        prompt=Decimal(1000),
        completion=Decimal(10_000),
        request=Decimal("0.5"),
        multipliers=multipliers,
    )
    price_all(PriceList(models={"chat": chat}))


def ns(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


def spent(
    businesses: list[str], keys: list[tuple[str, str]], before: datetime = NOW
) -> tuple[PriceList, object, object]:
    return load_spent(ns(MAY), ns(before) + 1000, businesses, keys, zone=UTC)


def test_sums_by_business_and_key() -> None:
    free = {"prompt_tokens": 0, "completion_tokens": 0}
    used(NOW, business="a", key_prefix="k1")
    used(NOW, business="a", key_prefix="k2", lane="P0")
    used(NOW, business="a", key_prefix="k2", requested_model="free")
    used(MAY, business="b", key_prefix="k1")
    used(MAY - timedelta(microseconds=1), business="b", key_prefix="k1")
    used(NOW + timedelta(seconds=1), business="b", key_prefix="k1")
    # Refused, or failed with nothing produced: free.
    used(NOW, business="b", status="refused", dispatched_at=None, lane="", **free)
    used(NOW, business="b", status="upstream_error", **free)
    used(NOW, business="c", key_prefix="k1", status="upstream_error", prompt_tokens=0)
    found, businesses, keys = spent(
        ["a", "b", "nobody"], [("a", "k2"), ("b", "k2"), ("c", "k1"), ("a", "k1")]
    )
    assert found.models["chat"].request == Decimal("0.5")
    assert businesses == {"a": 4 * EACH, "b": EACH, "nobody": 0}
    assert keys == {
        ("a", "k2"): 3 * EACH,
        ("b", "k2"): 0,
        ("c", "k1"): Decimal("1.5"),
        ("a", "k1"): EACH,
    }


def test_settled_days_are_read_from_their_statements() -> None:
    for day in (1, 2, 3, 5, 20):
        used(datetime(2026, 5, day, 7, tzinfo=UTC), business="a")
    for day in (1, 2, 3, 5):
        settle_day(date(2026, 5, day), now=NOW)
    # To see where a figure comes from. The fifth is beyond a day that is not settled.
    DailyStatement.objects.filter(day__in=[date(2026, 5, 2), date(2026, 5, 5)]).update(
        amount=Decimal(100)
    )
    assert spent(["a"], [])[1] == {"a": 4 * EACH + 100}
    assert spent(["a"], [], MAY.replace(day=10))[1] == {"a": 3 * EACH + 100}


def test_no_prices_no_costs() -> None:
    before = datetime(2019, 5, 1, tzinfo=UTC)
    assert load_spent(ns(before), ns(before) + 1, ["a"], [], zone=UTC)[0].models == {}
