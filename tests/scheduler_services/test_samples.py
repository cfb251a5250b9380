"""What earlier requests were like: which rows say so, and what reading them costs."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from metering.models import Business, UsageRecord
from metering.services.partitions import make_partition
from scheduler.core.events import Sample
from scheduler.selectors import samples
from scheduler.selectors.samples import load_samples
from tests.billing.world import plain_row

LONG = os.environ.get("FAIRLANE_LONG_TESTS") == "1"
ROWS = 1_000_000 if LONG else 20_000
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
SECOND = 1_000_000_000

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(900 if LONG else 300)]


def business(name: str = "shop") -> None:
    Business.objects.create(name=name, ceiling="P1")


def served(ago_s: float, **fields: Any) -> UsageRecord:
    """A stream that came so long ago, waited half a second, began after a quarter and took two
    seconds."""
    at = NOW - timedelta(seconds=ago_s)
    plain: dict[str, Any] = {
        "business": "shop",
        "stream": True,
        "replica": "card-1",
        "attempts": 1,
        "dispatched_at": at + timedelta(seconds=0.5),
        "first_byte_at": at + timedelta(seconds=0.75),
        "finished_at": at + timedelta(seconds=2.5),
    }
    row = plain_row(at, **{**plain, **fields})
    row.save(force_insert=True)
    return row


def test_a_stream_says_all_there_is_to_know() -> None:
    business()
    served(60)
    assert load_samples(NOW) == (
        Sample("shop", "chat", "card-1", 1000, 100, 200, SECOND // 4, 2 * SECOND),
    )


def test_a_plain_call_says_nothing_of_its_first_token() -> None:
    business()
    served(60, stream=False)
    served(50, first_byte_at=None)
    assert [sample.first for sample in load_samples(NOW)] == [0, 0]


def test_an_embedding_is_work_without_tokens() -> None:
    business()
    served(60, operation="embeddings", stream=False, completion_tokens=0)
    (sample,) = load_samples(NOW)
    assert (sample.prompt, sample.output, sample.cached, sample.held) == (0, 0, 0, 2 * SECOND)


def test_the_model_that_ran_is_the_one_that_was_measured() -> None:
    business()
    served(60, degraded_to="small")
    assert [sample.model for sample in load_samples(NOW)] == ["small"]


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "upstream_error"},
        {"status": "client_disconnect"},
        {"attempts": 2},
        {"preempted": 1},
        {"estimated": True},
        {"dispatched_at": None},
        {"replica": ""},
        {"finished_at": NOW - timedelta(seconds=59.5)},
        {"business": "gone"},
    ],
    ids=str,
)
def test_what_says_nothing_of_how_long_such_work_takes(fields: dict[str, Any]) -> None:
    business()
    served(60, **fields)
    assert load_samples(NOW) == ()


def test_only_of_the_last_day() -> None:
    business()
    served(86_400 + 60, replica="old")
    served(86_400 - 60, replica="new")
    assert [sample.replica for sample in load_samples(NOW)] == ["new"]


def test_the_newest_of_each_kind_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    business()
    business("other")
    monkeypatch.setattr(samples, "MOST_ALIKE", 2)
    for ago in (50, 40, 30, 20):
        served(ago, completion_tokens=ago)
        served(ago + 1, completion_tokens=ago, replica="card-2")
        served(ago + 2, completion_tokens=ago, requested_model="code")
        served(ago + 3, completion_tokens=ago, business="other")
    found = load_samples(NOW)
    assert [sample.output for sample in found] == [30] * 4 + [20] * 4
    kinds = {(sample.business, sample.model, sample.replica) for sample in found}
    assert len(kinds) == 4


def test_no_more_than_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    business()
    monkeypatch.setattr(samples, "MOST_TOLD", 3)
    for ago in range(50, 40, -1):
        served(ago, completion_tokens=ago)
    assert [sample.output for sample in load_samples(NOW)] == [43, 42, 41]


def test_a_business_whose_requests_are_refused_is_read_no_further_than_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old ones behind all the refusals are not looked for, and the others' are read."""
    business()
    business("other")
    monkeypatch.setattr(samples, "MOST_READ", 20)
    served(900)
    served(800, business="other")
    for ago in range(700, 650, -1):
        served(ago, status="refused", dispatched_at=None)
    assert [sample.business for sample in load_samples(NOW)] == ["other"]


FILL = """
INSERT INTO metering_usagerecord (id, business, key_prefix, client_request_id, operation, stream,
    requested_model, served_model, claimed, lane, status, reason, received_at, dispatched_at,
    first_byte_at, finished_at, queue_wait_ms, prompt_tokens, cached_tokens, completion_tokens,
    estimated, gpu_seconds, attempts, preempted, recomputed_tokens, replica, bytes_in, bytes_out,
    trace_id, credential, preempted_for, displaced)
SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008'
        || lpad(to_hex(n), 15, '0'))::uuid,
    'business-' || n %% 5, '', '', 'chat', true, 'model-' || n %% 7, '', '', 'P1', 'ok', '', at,
    at + interval '10 ms', at + interval '90 ms', at + interval '1 s', 10, 300, 0, 200, false, 1,
    1, 0, 0, 'card-' || n %% 100, 0, 0, '', '', '', ''
FROM (
    SELECT n, %(now)s::timestamptz - n * interval '20 s' * 4000 / %(rows)s AS at
    FROM generate_series(1, %(rows)s) AS n
) AS made
"""


def plan(cursor: Any, query: str, values: dict[str, object]) -> str:
    """What Postgres did, with how many rows it read."""
    cursor.execute(f"EXPLAIN (ANALYZE, TIMING OFF) {query}", values)
    return "\n".join(str(line) for (line,) in cursor.fetchall())


def test_a_day_of_rows_is_read_by_indexes_and_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: no partition is gone through, and other months are left out."""
    # Whatever else the machine does.
    monkeypatch.setattr(samples, "_LIMITS", "SET LOCAL statement_timeout = 0")
    for number in range(5):
        business(f"business-{number}")
    for month in (NOW - timedelta(days=31), NOW):
        make_partition(month.date())
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(FILL, {"now": NOW, "rows": ROWS})
        cursor.execute(FILL, {"now": NOW - timedelta(days=20), "rows": ROWS})
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("ANALYZE metering_usagerecord")
        since = NOW - samples.SPAN
        values = {
            "since": since,
            "least": samples._least_id(since - samples.ASTRAY),
            "each": 1000,
            "alike": samples.MOST_ALIKE,
            "most": samples.MOST_TOLD,
        }
        found = plan(cursor, samples._NEWEST, values)
    assert "Seq Scan on metering_usagerecord" not in found
    assert "metering_usagerecord_202602" not in found
    assert "metering_usagerecord_202603" in found
    told = load_samples(NOW)
    assert 0 < len(told) <= samples.MOST_TOLD
    assert {sample.business for sample in told} == {f"business-{n}" for n in range(5)}
