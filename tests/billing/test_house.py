"""Partitions, and an end to what is kept only for a while."""

import uuid
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from metering.models import Bill, BillLine, DailyStatement, UsageHour, UsageRecord
from metering.services.house import keep_house
from metering.services.month_close import close_month
from metering.services.partitions import REST, make_partition, make_partitions, partitions
from metering.services.reconciliation import NOT_KEPT, reconcile
from metering.services.settlement import settle_due

from .world import plain_row, price_all, used

pytestmark = pytest.mark.django_db

SHANGHAI = ZoneInfo("Asia/Shanghai")
MARCH = date(2026, 3, 1)
NOON = datetime(2026, 3, 10, 12, tzinfo=SHANGHAI)


def lies_in(row: UsageRecord) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tableoid::regclass::text FROM metering_usagerecord WHERE id = %s", [row.pk]
        )
        found = cursor.fetchone()
    assert found is not None
    return str(found[0])


def test_rows_lie_in_the_month_of_their_id() -> None:
    made = partitions()
    now = datetime.now(UTC)
    assert now.date().replace(day=1) in made
    assert lies_in(used(now)) == f"metering_usagerecord_{now:%Y%m}"
    assert lies_in(used(NOON)) == REST
    assert lies_in(used(now, id=uuid.UUID(int=0))) == REST


def test_a_partition_made_late_takes_its_rows_along() -> None:
    early, later = used(NOON), used(NOON + timedelta(days=31))
    first, last = used(datetime(2026, 3, 1, tzinfo=UTC)), used(datetime(2026, 4, 1, tzinfo=UTC))
    assert make_partition(date(2026, 3, 17))
    assert not make_partition(MARCH)
    assert [lies_in(row) for row in (early, first)] == ["metering_usagerecord_202603"] * 2
    assert [lies_in(row) for row in (later, last)] == [REST] * 2
    # The rules of the table hold for it as well.
    price_all(starts_at=datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=365 * 70))
    settle_due(now=NOON + timedelta(days=60))
    close_month(MARCH, now=NOON + timedelta(days=60))
    assert used(NOON).billed_in == date(2026, 4, 1)
    # Of months that the present is far from: those about it are there.
    assert make_partitions(date(2096, 11, 30))[-1] == date(2097, 1, 1)


def test_rows_of_closed_months_go_and_their_figures_stay(settings: Any) -> None:
    price_all()
    for month in (MARCH, date(2026, 4, 1), date(2026, 5, 1)):
        make_partition(month)
    odd = used(NOON, id=uuid.UUID(int=1))
    rows = [used(NOON + timedelta(days=31 * n)) for n in range(3)]
    now = datetime(2026, 6, 5, tzinfo=SHANGHAI)
    settings.USAGE_RETENTION_DAYS = 30
    # Nothing is closed yet: everything is kept.
    settle_due(now=now)
    assert keep_house(now=now) == []
    close_month(MARCH, now=now)
    late = used(NOON)
    assert late.billed_in == date(2026, 4, 1)
    # Its own month is closed, and its bill not issued.
    assert keep_house(now=now) == []
    close_month(date(2026, 4, 1), now=now)
    before = DailyStatement.objects.count(), UsageHour.objects.count(), BillLine.objects.count()
    # April ends here eight hours before the partition's, which stays.
    assert keep_house(now=now) == ["metering_usagerecord_202603"]
    held = UsageRecord.objects.order_by("received_at").values_list("pk", flat=True)
    assert list(held) == [rows[1].pk, rows[2].pk]
    assert not UsageRecord.objects.filter(pk=odd.pk).exists()
    assert before == (
        *(DailyStatement.objects.count(), UsageHour.objects.count()),
        BillLine.objects.count(),
    )
    march = reconcile(MARCH, now=now)
    assert march.differences == 0
    assert march.checks[0].note == NOT_KEPT
    assert reconcile(date(2026, 4, 1), now=now).differences == 0
    assert reconcile(date(2026, 5, 1), now=now).differences == 0
    assert Bill.objects.count() == 2
    assert settle_due(now=now) == []
    settings.USAGE_RETENTION_DAYS = 0
    assert keep_house(now=now + timedelta(days=5000)) == []


def test_a_partition_waits_for_rows_of_a_later_month(settings: Any) -> None:
    """The clock was set ahead between a request's acceptance, which its id tells, and its end."""
    price_all()
    for month in (MARCH, date(2026, 4, 1)):
        make_partition(month)
    used(NOON)
    late = plain_row(datetime(2026, 3, 31, 23, tzinfo=UTC)).pk
    astray = used(datetime(2026, 4, 2, tzinfo=UTC), id=late)
    assert lies_in(astray) == "metering_usagerecord_202603"
    now = datetime(2026, 7, 5, tzinfo=SHANGHAI)
    settings.USAGE_RETENTION_DAYS = 30
    settle_due(now=now)
    for month in (MARCH, date(2026, 4, 1)):
        close_month(month, now=now)
    # April's rows are kept, and this is one of them.
    assert keep_house(now=now) == []
    assert reconcile(date(2026, 4, 1), now=now).differences == 0
    close_month(date(2026, 5, 1), now=now)
    assert keep_house(now=now) == ["metering_usagerecord_202603", "metering_usagerecord_202604"]
