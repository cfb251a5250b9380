"""What the pages say about usage, out of rows whose figures are known."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from metering.models import UsageRecord
from metering.selectors.overview import (
    recent_requests,
    usage_of,
)

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def used(
    business: str = "risk-audit", age: timedelta = timedelta(minutes=5), **fields: Any
) -> None:
    at = NOW - age
    plain: dict[str, Any] = {
        "operation": "chat",
        "lane": "P0",
        "status": "ok",
        "received_at": at,
        "dispatched_at": at,
        "finished_at": at,
        "prompt_tokens": 10,
        "completion_tokens": 5,
    }
    UsageRecord.objects.create(business=business, **{**plain, **fields})


def refused(reason: str, **fields: Any) -> None:
    used(
        status="refused",
        reason=reason,
        dispatched_at=None,
        prompt_tokens=0,
        completion_tokens=0,
        **fields,
    )


def test_a_business_sees_its_own_window_alone() -> None:
    for wait in (0, 10, 20, 30, 40):
        used(queue_wait_ms=wait)
    used(lane="P2", queue_wait_ms=500)
    used(status="upstream_error")
    refused("queue_full")
    refused("queue_full", lane="P1")
    refused("rate_limit_requests")
    used(age=2 * HOUR)
    used(business="doc-qa")

    usage = usage_of("risk-audit", NOW - HOUR)
    assert (usage.requests, usage.succeeded, usage.turned_away, usage.broken) == (10, 6, 3, 1)
    assert (usage.prompt_tokens, usage.completion_tokens) == (70, 35)
    assert usage.refusals == [("queue_full", 2), ("rate_limit_requests", 1)]
    p0, p1, p2 = usage.lanes
    assert (p0.lane, p0.requests) == ("P0", 6)
    assert p0.wait_p50_ms == pytest.approx(15)
    assert p0.wait_p95_ms == pytest.approx(37.5)
    assert (p1.lane, p1.requests, p1.wait_p95_ms) == ("P1", 0, 0.0)
    assert (p2.requests, p2.wait_p50_ms) == (1, 500)


def test_nothing_used_is_zero_everywhere() -> None:
    usage = usage_of("risk-audit", NOW - HOUR)
    assert (usage.requests, usage.prompt_tokens, usage.refusals) == (0, 0, [])
    assert [lane.requests for lane in usage.lanes] == [0, 0, 0]


def test_recent_requests_are_its_own_newest_first() -> None:
    for minutes in (3, 1, 2):
        used(age=timedelta(minutes=minutes))
    used(business="doc-qa", age=timedelta(0))
    found = list(recent_requests("risk-audit", 2))
    assert [(NOW - row.received_at).seconds // 60 for row in found] == [1, 2]
    assert {row.business for row in found} == {"risk-audit"}
