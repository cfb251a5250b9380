"""Businesses, keys, usage and bills in any number, written by Postgres itself.

Business 1 is the large one: it has a twentieth of all usage, and every key that no other has.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import connection, transaction

_BUSINESSES = """
INSERT INTO metering_business (name, tags, grade, ceiling, realtime, offline, billing_sla, weight,
    created_at)
SELECT 'business-' || n, '[]', 'basic', 'P1', '', false, false, 1, now()
FROM generate_series(1, %(businesses)s) AS n
"""
_LIMITS = """
INSERT INTO metering_quota (business_id, kind, running)
SELECT id, kind, 10 FROM metering_business, (VALUES ('limit'), ('envelope')) AS kinds (kind)
"""
_KEYS = """
INSERT INTO metering_apikey (business_id, name, prefix, digest, ceiling, created_at)
SELECT business.id, 'key ' || n, 'fl_live_' || lpad(n::text, 4, '0'),
    sha256(('key ' || n)::bytea), '', now() - n * interval '1 second'
FROM generate_series(1, %(keys)s) AS n
JOIN metering_business AS business ON business.name = 'business-' ||
    (CASE WHEN n %% 2 = 0 THEN 1 ELSE 1 + n %% %(businesses)s END)
"""
# Over the last forty days, newest last; ids in the order of time, as the gateway's are.
_USAGE = """
INSERT INTO metering_usagerecord (id, business, key_prefix, credential, client_request_id,
    operation, stream, requested_model, served_model, claimed, base_level, level, lane, status,
    http_status, reason, received_at, dispatched_at, first_byte_at, finished_at, queue_wait_ms,
    prompt_tokens, cached_tokens, completion_tokens, estimated, gpu_seconds, attempts, preempted,
    recomputed_tokens, preempted_for, displaced, replica, bytes_in, bytes_out, trace_id)
SELECT lpad(to_hex(n), 32, '0')::uuid,
    'business-' || (CASE WHEN n %% 20 = 0 THEN 1 ELSE 1 + (n::bigint * 7919) %% %(businesses)s END),
    'fl_live_0001', '', '', 'chat.completions', true, 'chat', 'chat', '', 4, 4,
    (ARRAY['P0', 'P1', 'P2'])[1 + n %% 3],
    CASE WHEN n %% 10 = 0 THEN 'refused' ELSE 'ok' END, 200,
    CASE WHEN n %% 10 = 0 THEN 'queue_full' ELSE '' END,
    at, at, at, at + interval '2 seconds', n %% 500, 300, 0, 200, false, 1, 1, 0, 0, '', '',
    'card-1', 100, 100, ''
FROM (
    SELECT n, now() - (%(usage)s - n) * (interval '40 days' / %(usage)s) AS at
    FROM generate_series(1, %(usage)s) AS n
) AS moments
"""
_STATEMENTS = """
INSERT INTO metering_dailystatement (business, day, model, lane, requests, billed_requests,
    prompt_tokens, cached_tokens, completion_tokens, gpu_seconds, billed_gpu_seconds, preempted,
    displaced, estimated, clamped, charge, credit, surcharge, amount, settled_at)
SELECT 'business-' || n, current_date - day, 'chat', 'P1', 10, 10, 100, 0, 100, 1, 1, 0, 0, 0, 0,
    1, 0, 0, 1, now()
FROM generate_series(1, %(businesses)s) AS n, generate_series(1, 35) AS day
"""
_SETTLED = """
INSERT INTO metering_daysettlement (day, rows, settled_at)
SELECT current_date - day, 0, now() FROM generate_series(1, 35) AS day
"""
_AUDIT = """
INSERT INTO metering_auditentry (at, source, action, business, target, data)
SELECT now() - n * interval '1 minute', 'console', 'key.create',
    'business-' || (1 + n %% %(businesses)s), 'fl_live_0001', '{}'
FROM generate_series(1, %(keys)s) AS n
"""
_BILLS = """
INSERT INTO metering_bill (number, business, month, starts_at, ends_at, timezone, currency, total,
    exact, lines_count, issued_at)
SELECT n, 'business-' || n, %(month)s, now(), now(), 'UTC', 'CNY', 100, 100, 1, now()
FROM generate_series(1, %(businesses)s) AS n
"""
_LINES = """
INSERT INTO metering_billline (bill_id, position, kind, usage_month, model, lane, rounded, requests,
    billed_requests, prompt_tokens, cached_tokens, completion_tokens, gpu_seconds,
    billed_gpu_seconds, preempted, displaced, estimated, clamped, charge, credit, surcharge, amount)
SELECT id, 1, 'usage', %(month)s, 'chat', 'P1', 100, 10, 10, 100, 0, 100, 1, 1, 0, 0, 0, 0, 100, 0,
    0, 100
FROM metering_bill
"""
_MONTH = """
INSERT INTO metering_monthclose (month, starts_at, ends_at, closed_at)
VALUES (%(month)s, now(), now(), now())
"""
STATEMENTS = (
    *(_BUSINESSES, _LIMITS, _KEYS, _USAGE, _STATEMENTS, _SETTLED, _AUDIT),
    *(_MONTH, _BILLS, _LINES),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many rows of each there are."""

    businesses: int
    keys: int
    usage: int


def fill(size: Size) -> None:
    """Write them into an empty database, all or nothing, and let Postgres look at them."""
    values: Mapping[str, int | str] = {
        "businesses": size.businesses,
        "keys": size.keys,
        "usage": size.usage,
        "month": "2020-01-01",
    }
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in STATEMENTS:
            cursor.execute(statement, values)
        cursor.execute("ANALYZE")
