"""A month of everything, and the books agree to the unit; then one row goes missing."""

import os
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction

from metering.core.periods import month_bounds
from metering.models import Bill, BillLine, GpuHour, ReconciliationReport, UsageRecord
from metering.selectors.reconciliation import latest_report, open_differences
from metering.services.month_close import close_month
from metering.services.partitions import make_partition
from metering.services.reconciliation import Reconciliation, reconcile, reconcile_recent
from metering.services.settlement import settle_due

from .world import price_all, used

pytestmark = pytest.mark.django_db

LONG = bool(os.environ.get("FAIRLANE_LONG_TESTS"))
ROWS = 1_000_000 if LONG else 20_000
SHANGHAI = ZoneInfo("Asia/Shanghai")
MARCH, APRIL = date(2026, 3, 1), date(2026, 4, 1)
START, END = month_bounds(MARCH, SHANGHAI)
NEXT_END = month_bounds(APRIL, SHANGHAI)[1]
CARDS = 8
# Of a thousand requests: refused, waited too long, failed at once, failed late, left in the
# middle, left at once; the rest succeed. Some of those are paused, or made others pause.
FILL = """
INSERT INTO metering_usagerecord (
    id, business, key_prefix, credential, client_request_id, operation, stream, requested_model,
    served_model, claimed, base_level, level, lane, status, http_status, reason, received_at,
    dispatched_at, first_byte_at, finished_at, queue_wait_ms, prompt_tokens, cached_tokens,
    completion_tokens, estimated, gpu_seconds, attempts, preempted, recomputed_tokens,
    preempted_for, displaced, replica, bytes_in, bytes_out, trace_id
)
SELECT
    (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7000'
        || lpad(to_hex(%(first)s + n), 16, '8'))::uuid,
    'business-' || h %% 7, 'fl_live_abcd', '', '', 'chat', true, 'model-' || h %% 3,
    'org/Model', '', 4, 4, 'P' || h / 7 %% 3, status, 200, '', at,
    CASE WHEN kind >= 60 THEN at + interval '20 ms' END, at + interval '50 ms',
    at + interval '400 ms', 20, 100 + h %% 900, h %% 1100,
    CASE WHEN kind < 110 OR kind BETWEEN 160 AND 170 THEN 0 ELSE 1 + h %% 500 END,
    h %% 50 = 0, CASE WHEN kind >= 60 THEN (1 + h %% 997) / 1000.0 ELSE 0 END, 1,
    CASE WHEN kind > 900 THEN 1 + h %% 3 ELSE 0 END, 0, '',
    CASE WHEN kind BETWEEN 800 AND 850 THEN 'x' ELSE '' END, 'card-' || h %% 8, 2000, 4000, ''
FROM generate_series(0, %(rows)s - 1) AS n,
LATERAL (SELECT abs(hashint8(%(first)s + n))::bigint AS h) AS hashed,
LATERAL (SELECT h %% 1000 AS kind) AS kinds,
LATERAL (SELECT CASE WHEN kind < 30 THEN 'refused' WHEN kind < 60 THEN 'queue_timeout'
    WHEN kind < 110 THEN 'upstream_error' WHEN kind < 130 THEN 'upstream_timeout'
    WHEN kind < 171 THEN 'client_disconnect' ELSE 'ok' END AS status) AS statuses,
LATERAL (SELECT %(start)s + (n + 0.5) * (%(length)s / %(rows)s) * interval '1 second' AS at) AS m
"""
# Each card's clock and what its requests used of it, hour by hour.
GPU = """
INSERT INTO metering_gpuhour (process, replica, hour, wall_seconds, busy_seconds)
SELECT '0191e6a8-0000-7000-8000-000000000000', replica, date_bin('1 hour', received_at, 'epoch'),
    3600, sum(gpu_seconds)::numeric(24, 9)
FROM metering_usagerecord WHERE replica <> '' GROUP BY 2, 3
"""


def fill(start: datetime, end: datetime, rows: int, first: int = 0) -> None:
    with connection.cursor() as cursor:
        values: dict[str, Any] = {
            "start": start,
            "length": (end - start).total_seconds() - 1,
            "rows": rows,
            "first": first,
        }
        cursor.execute(FILL, values)


def failed(found: Reconciliation) -> dict[str, int]:
    return {check.name: check.differences for check in found.checks if check.differences}


@pytest.mark.timeout(3600 if LONG else 120)
def test_a_month_of_everything_reconciles_to_zero() -> None:
    price_all()
    for month in (date(2026, 2, 1), MARCH, APRIL):
        make_partition(month)
    fill(START, END, ROWS)
    settle_due(now=END + timedelta(hours=1))
    # Rows that come late, but before the month is closed; and some that come after.
    fill(START, END, ROWS // 100, first=10**7)
    close_month(MARCH, now=END + timedelta(days=1))
    fill(START, END, ROWS // 200, first=2 * 10**7)
    fill(END, NEXT_END, ROWS // 20, first=3 * 10**7)
    close_month(APRIL, now=NEXT_END + timedelta(days=1))
    with connection.cursor() as cursor:
        cursor.execute(GPU)
    march = reconcile(MARCH, now=NEXT_END + timedelta(days=2))
    april = reconcile(APRIL, now=NEXT_END + timedelta(days=2))
    assert (failed(march), failed(april)) == ({}, {})
    by_name = {check.name: check for check in march.checks}
    rows = by_name["rows = statements"]
    assert rows.left_requests == rows.right_requests == ROWS + ROWS // 100
    assert by_name["statements = bills"].left == rows.left
    late = {check.name: check for check in april.checks}["late rows = adjustments"]
    assert late.left_requests == ROWS // 200
    billed = sum(BillLine.objects.values_list("requests", flat=True))
    assert billed == UsageRecord.objects.count()
    assert march.gpu is not None
    assert march.gpu.billed + march.gpu.unbilled + march.gpu.idle == pytest.approx(march.gpu.wall)
    assert min(march.gpu.billed, march.gpu.unbilled, march.gpu.idle) > 0
    assert open_differences() == 0
    _one_row_less(rows.left_requests)


def _one_row_less(requests: int) -> None:
    """Behind everybody's back, without a trigger that could tell."""
    row = UsageRecord.objects.filter(status="ok", billed_in=None, received_at__lt=END)[500]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM metering_usagerecord WHERE id = %s", [row.pk])
    found = reconcile(MARCH, now=NEXT_END + timedelta(days=3))
    assert failed(found)["rows = statements"] == 1
    check = found.checks[0]
    assert (check.left_requests, check.right_requests) == (requests - 1, requests)
    assert row.business in check.examples[0]
    assert check.left < check.right
    assert open_differences() == found.differences
    report = latest_report(MARCH)
    assert report is not None
    assert report.data["checks"][0]["differences"] == 1


def test_figures_that_were_bent_are_found() -> None:
    """Only a superuser who turns the rules off can do this; the report tells all the same."""
    price_all()
    used(START + timedelta(days=3))
    close_month(MARCH, now=END + timedelta(days=1))
    assert failed(reconcile(MARCH)) == {}

    def bend(table: str, change: str) -> dict[str, int]:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            cursor.execute(f"UPDATE {table} SET {change}")
            found = failed(reconcile(MARCH))
            transaction.set_rollback(True)
        return found

    assert bend("metering_bill", "total = total + 0.01") == {"lines = totals": 1}
    assert bend("metering_billline", "amount = amount + 0.000000000000000001") == {
        "statements = bills": 1,
        "lines = totals": 1,
    }
    assert bend("metering_dailystatement", "completion_tokens = completion_tokens + 1") == {
        "rows = statements": 1,
        "statements = bills": 1,
    }
    assert bend("metering_bill", "number = 7") == {"lines = totals": 6}


def test_gpu_time_that_nobody_is_charged_for_is_told() -> None:
    price_all()
    used(START + timedelta(days=3), gpu_seconds=2.5)
    hour = {"process": UUID(int=1), "replica": "card-1", "hour": START + timedelta(days=3)}
    GpuHour.objects.create(**hour, wall_seconds=Decimal(3600), busy_seconds=Decimal("2.5"))
    close_month(MARCH, now=END + timedelta(days=1))
    assert failed(reconcile(MARCH)) == {}
    GpuHour.objects.update(busy_seconds=Decimal("2.6"))
    assert failed(reconcile(MARCH)) == {"GPU time": 1}


def test_days_that_wait_to_be_settled_are_no_difference() -> None:
    price_all()
    now = START + timedelta(days=5)
    used(START + timedelta(days=3))
    assert failed(reconcile(MARCH, now=now)) == {}
    settle_due(now=now)
    used(START + timedelta(days=3))
    assert failed(reconcile(MARCH, now=now)) == {}
    assert not Bill.objects.exists()


def test_the_report_is_made_once_a_day() -> None:
    now = END + timedelta(days=3)
    assert [found.month for found in reconcile_recent(now=now)] == [MARCH, APRIL]
    assert reconcile_recent(now=now + timedelta(hours=19)) == []
    assert len(reconcile_recent(now=now + timedelta(hours=21))) == 2
    assert ReconciliationReport.objects.count() == 4
