"""Escalations are audited as one row for each business and minute."""

from dataclasses import replace

import pytest

from metering.core.escalations import EscalationMinute
from metering.models import AuditEntry
from metering.services.audit import record_escalations

pytestmark = pytest.mark.django_db

SEEN = EscalationMinute(
    business="offline-eval",
    minute=29_000_000,
    count=3,
    claimed="P0",
    ceiling="P2",
    outcome="clamp",
    last_request="a",
)


def test_one_row_for_each_business_and_minute() -> None:
    record_escalations([SEEN, replace(SEEN, business="other", count=1)])
    record_escalations([replace(SEEN, minute=29_000_001, count=5)])
    rows = AuditEntry.objects.order_by("business", "target")
    assert [(row.business, row.target, row.data["count"]) for row in rows] == [
        ("offline-eval", "2025-02-19T21:20Z", 3),
        ("offline-eval", "2025-02-19T21:21Z", 5),
        ("other", "2025-02-19T21:20Z", 1),
    ]
    assert {(row.action, row.source, row.actor) for row in rows} == {
        ("priority.escalation", "gateway", None)
    }


def test_another_process_s_count_of_the_same_minute_adds_up() -> None:
    record_escalations([SEEN])
    record_escalations([replace(SEEN, count=4, claimed="1", last_request="b", outcome="refuse")])
    row = AuditEntry.objects.get()
    assert row.data == {
        "count": 7,
        "claimed": "1",
        "ceiling": "P2",
        "outcome": "refuse",
        "last_request": "b",
    }
