"""What was spent, for the check of budgets: by business and key, in the month, once landed."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from metering.core.tariff import ModelRates, Tariff
from metering.models import UsageRecord
from metering.selectors import spending
from metering.selectors.spending import load_spent

pytestmark = pytest.mark.django_db

MAY = datetime(2026, 5, 1, tzinfo=UTC)
NOW = datetime(2026, 5, 20, 12, tzinfo=UTC)


def ns(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


def used(business: str, *, key: str = "k1", at: datetime = NOW, **fields: object) -> None:
    plain: dict[str, object] = {
        "operation": "chat",
        "lane": "P1",
        "requested_model": "chat",
        "status": "ok",
        "received_at": at,
        "dispatched_at": at,
        "finished_at": at,
        "prompt_tokens": 1000,
        "completion_tokens": 100,
    }
    UsageRecord.objects.create(business=business, key_prefix=key, **{**plain, **fields})


def test_sums_by_business_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = ModelRates(
        prompt=Decimal(1000),
        completion=Decimal(10_000),
        request=Decimal("0.5"),
        lanes=(Decimal(3), Decimal(1), Decimal(1)),
    )
    monkeypatch.setattr(spending, "load_tariff", lambda: Tariff({"chat": rates}))
    used("a")
    used("a", key="k2", lane="P0")
    used("a", key="k2", requested_model="free")
    used("b", at=MAY)
    used("b", at=MAY - timedelta(microseconds=1))
    used("b", at=NOW + timedelta(seconds=1))
    # Refused, or failed with nothing produced: free.
    used("b", status="refused", dispatched_at=None, prompt_tokens=0, completion_tokens=0, lane="")
    used("b", status="upstream_error", prompt_tokens=0, completion_tokens=0)
    used("c", status="upstream_error", prompt_tokens=0, completion_tokens=100)
    tariff, businesses, keys = load_spent(
        ns(MAY), ns(NOW) + 1_000, ["a", "b", "nobody"], [("a", "k2"), ("b", "k2"), ("c", "k1")]
    )
    assert tariff.models == {"chat": rates}
    each = Decimal("2.5")
    assert businesses == {"a": 4 * each, "b": each, "nobody": 0}
    assert keys == {("a", "k2"): 3 * each, ("b", "k2"): 0, ("c", "k1"): Decimal("1.5")}
