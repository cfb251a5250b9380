"""A day of ten million rows (a tenth of that unless FAIRLANE_LONG_TESTS is set)."""

import os
import time
from datetime import date, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.db.models import Sum

from metering.core.periods import day_bounds
from metering.core.prices import Used, cost
from metering.models import DailyStatement
from metering.services.partitions import make_partition
from metering.services.settlement import due_days, settle_day

from .world import PRICES, price_all

LONG = bool(os.environ.get("FAIRLANE_LONG_TESTS"))
ROWS = 10_000_000 if LONG else 1_000_000
ALLOWED_S = 60.0
DAY = date(2026, 3, 10)
BUSINESSES, MODELS, LANES = 20, 3, 3

FILL = """
INSERT INTO metering_usagerecord_202603 (
    id, business, key_prefix, credential, client_request_id, operation, stream, requested_model,
    served_model, claimed, base_level, level, lane, status, http_status, reason, received_at,
    dispatched_at, first_byte_at, finished_at, queue_wait_ms, prompt_tokens, cached_tokens,
    completion_tokens, estimated, gpu_seconds, attempts, preempted, recomputed_tokens,
    preempted_for, displaced, replica, bytes_in, bytes_out, trace_id, price_version
)
SELECT
    (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7000'
        || lpad(to_hex(n), 16, '8'))::uuid,
    'business-' || n %% 20, 'fl_live_abcd', '', '', 'chat', true, 'model-' || n %% 3,
    'org/Model-7B', '', 4, 4, 'P' || n / 3 %% 3, 'ok', 200, '', at, at, at, at, 12.5,
    1000, 200, 100, false, 0.25, 1, 0, 0, '', '', 'card-1', 2000, 4000,
    '0af7651916cd43dd8448eb211c80319c', 1
FROM generate_series(0, %(rows)s - 1) AS n,
LATERAL (SELECT %(start)s + n * interval '1 day' / %(rows)s AS at) AS moments
"""


@pytest.mark.django_db
@pytest.mark.timeout(3600 if LONG else 300)
def test_a_day_at_full_size() -> None:
    price_all()
    start, end = day_bounds(DAY, ZoneInfo("Asia/Shanghai"))
    with connection.cursor() as cursor:
        make_partition(date(2026, 3, 1))
        cursor.execute("ALTER TABLE metering_usagerecord_202603 DISABLE TRIGGER USER")
        cursor.execute(FILL, {"rows": ROWS, "start": start})
        cursor.execute("ANALYZE metering_usagerecord_202603")
    assert due_days(end + timedelta(hours=1)) == [DAY]
    began = time.monotonic()
    settled = settle_day(DAY, now=end + timedelta(hours=1))
    elapsed = time.monotonic() - began
    print(f"\nsettled {ROWS:,} rows in {elapsed:.1f} s")
    assert settled.rows == ROWS
    assert settled.changed == DailyStatement.objects.count() == 180
    sums = DailyStatement.objects.aggregate(
        requests=Sum("requests"), prompt=Sum("prompt_tokens"), gpu=Sum("gpu_seconds")
    )
    assert sums == {"requests": ROWS, "prompt": 1000 * ROWS, "gpu": Decimal(ROWS) / 4}
    one = DailyStatement.objects.get(business="business-4", model="model-1", lane="P1")
    of = Used(1000, 200, 100, Decimal("0.25"))
    assert one.amount == one.requests * cost(PRICES, "model-1", "P1", of).amount
    assert elapsed < ALLOWED_S
