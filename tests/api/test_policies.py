"""Policies through the API: a draft is added, one is activated, a conflict is said."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from metering.models import AuditEntry
from scheduler.core.policy import Policy
from scheduler.models import PolicyVersion
from scheduler.services.policy import active_policy, import_policy

Program = Callable[..., APIClient]
pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/policies/"


def test_a_draft_comes_in_and_is_activated(program: Program) -> None:
    import_policy(Policy(), active=True, author=None, reason="first")
    client = program("operator")
    body = {"document": {"scheduler": {"tick_ms": 30}}, "reason": "slower", "seen": 1, "base": 1}
    made = client.post(ADDRESS, body, format="json")
    assert (made.status_code, made.data["version"], made.data["active"]) == (201, 2, False)
    assert made.data["document"]["scheduler"]["tick_ms"] == 30
    done = client.post(f"{ADDRESS}2/activate/", {"reason": "go"}, format="json")
    assert (done.status_code, done.data["active"]) == (200, True)
    assert active_policy()[1].tick_ms == 30
    entry = AuditEntry.objects.get(action="policy.activate", target="policy 2")
    assert entry.actor_name == "operator"
    assert entry.source.startswith("rest fl_mgmt_")
    late = client.post(ADDRESS, body, format="json")
    assert late.status_code == 409
    assert PolicyVersion.objects.count() == 2


def test_problems_stand_at_their_fields(program: Program) -> None:
    document = {"scheduler": {"tick_ms": "soon", "mode": "odd"}}
    refused = program("operator").post(ADDRESS, {"document": document}, format="json")
    assert refused.status_code == 400
    assert set(refused.data["error"]["fields"]) == {"scheduler.tick_ms", "scheduler.mode"}
    assert not PolicyVersion.objects.exists()


def test_a_token_for_reading_writes_nothing(program: Program) -> None:
    client = program("operator", "policies:read")
    body: dict[str, object] = {"document": {"scheduler": {}}}
    assert client.post(ADDRESS, body, format="json").status_code == 403
    assert client.get(ADDRESS).status_code == 200
