"""Resources: pages by cursor, filters, and the same rules as on the pages."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from metering.core.quotas import Limits
from metering.models import Business, Membership, QuotaRequest, TierCredential, UsageRecord
from metering.services.credentials import issue_credential
from metering.services.quotas import set_envelope, set_quota
from tests.console.conftest import People

Program = Callable[..., APIClient]


def used(business: str, age: timedelta, **fields: object) -> UsageRecord:
    at = timezone.now() - age
    given = {"operation": "chat.completions", "status": "ok", "lane": "P1", **fields}
    return UsageRecord.objects.create(
        id=uuid.uuid4(), business=business, received_at=at, finished_at=at, **given
    )


def test_every_row_comes_once_whatever_arrives_meanwhile(people: People, program: Program) -> None:
    rows = [used("alpha", timedelta(minutes=n)) for n in range(7)]
    used("beta", timedelta(0))
    client = program("owner")
    page = client.get("/api/v1/usage/?page_size=3").json()
    seen = [row["id"] for row in page["results"]]
    used("alpha", timedelta(seconds=-5))
    while page["next"]:
        page = client.get(page["next"]).json()
        seen += [row["id"] for row in page["results"]]
    assert seen == [str(row.pk) for row in rows]


def test_usage_is_filtered(people: People, program: Program) -> None:
    used("alpha", timedelta(hours=3), lane="P0")
    late = used("alpha", timedelta(hours=1), lane="P0", status="refused", reason="queue_full")
    used("alpha", timedelta(hours=1), lane="P2")
    client = program("owner")
    since = (timezone.now() - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = client.get("/api/v1/usage/", {"lane": "P0", "since": since}).json()["results"]
    assert [row["id"] for row in found] == [str(late.pk)]
    assert client.get("/api/v1/usage/", {"status": "no-such"}).status_code == 400
    everything = program("finance").get("/api/v1/usage/", {"business": "alpha"}).json()
    assert len(everything["results"]) == 3


def test_a_filter_never_reaches_beyond_ones_own(people: People, program: Program) -> None:
    used("beta", timedelta(0))
    client = program("owner")
    for path in ("usage", "statements", "bills"):
        assert client.get(f"/api/v1/{path}/", {"business": "beta"}).json()["results"] == []
    for path in ("keys", "credentials"):
        found = client.get(f"/api/v1/{path}/", {"business__name": "beta"}).json()
        assert found["results"] == []


def test_limits_inside_the_envelope_and_beyond(people: People, program: Program) -> None:
    set_envelope(people.alpha, Limits(running=10), actor=None)
    client = program("owner")
    path = "/api/v1/quotas/alpha/"
    answer = client.patch(path, {"running": 10, "monthly_budget": "12.5"}, format="json")
    assert answer.status_code == 200
    assert answer.data["limits"]["running"] == 10
    assert Decimal(answer.data["limits"]["monthly_budget"]) == Decimal("12.5")
    assert answer.data["limits"]["queued"] is None
    beyond = client.patch(path, {"running": 11}, format="json")
    assert beyond.status_code == 400
    assert beyond.json()["error"]["code"] == "invalid_quota_request"
    assert beyond.json()["error"]["fields"]["running"]
    for wrong in (-1, 0.5, "ten"):
        refused = client.patch(path, {"running": wrong}, format="json")
        assert refused.status_code == 400, wrong
        assert refused.json()["error"]["fields"]["running"]
    asked = client.post(
        f"{path}request/", {"limits": {"running": 11}, "reason": "more"}, format="json"
    )
    assert asked.status_code == 201
    assert QuotaRequest.objects.get().wanted == {"running": 11}


def test_0_and_null_are_two_things(people: People, program: Program) -> None:
    """G07."""
    set_envelope(people.alpha, Limits(), actor=None)
    set_quota(people.alpha, {"running": 5, "queued": 5}, actor=None, operations=True)
    answer = program("owner").patch(
        "/api/v1/quotas/alpha/", {"running": 0, "queued": None}, format="json"
    )
    assert answer.data["limits"]["running"] == 0
    assert answer.data["limits"]["queued"] is None


def test_an_owner_grants_no_more_than_the_business_has(people: People, program: Program) -> None:
    new = {"business": "alpha", "grade": "vip", "lifetime_s": 60}
    assert program("owner").post("/api/v1/credentials/", new, format="json").status_code == 400
    made = program("operator").post("/api/v1/credentials/", new, format="json")
    assert made.status_code == 201
    assert made.data["grade"] == "vip"
    narrow = f"/api/v1/credentials/{made.data['jti']}/narrow/"
    part = program("owner").post(narrow, {"grade": "basic", "ceiling": "P2"}, format="json")
    assert (part.data["ceiling"], part.data["parent"]) == ("P2", made.data["jti"])
    assert program("owner").post(narrow, {"ceiling": "P0"}, format="json").status_code == 400


def test_revoking_takes_children_along(people: People, program: Program) -> None:
    row, _token = issue_credential(people.alpha, actor=None, lifetime=timedelta(hours=1))
    client = program("owner")
    base = f"/api/v1/credentials/{row.jti}"
    client.post(f"{base}/narrow/", {}, format="json")
    assert client.post(f"{base}/revoke/").data["revoked_at"]
    assert not TierCredential.objects.filter(revoked_at=None).exists()


def test_prices_are_set_by_finance_and_read_by_all(people: People, program: Program) -> None:
    client = program("finance")
    new = {
        "prices": [{"model": "", "prompt": "2.5", "p0": "1.5"}, {"model": "chat", "cached": None}],
        "preemption_credit": "0.1",
        "note": "first",
    }
    made = client.post("/api/v1/prices/", new, format="json")
    assert made.status_code == 201, made.data
    held = program("owner").get(f"/api/v1/prices/{made.data['version']}/").json()
    assert {row["model"]: row["prompt"] for row in held["prices"]} == {
        "": "2.500000",
        "chat": "0.000000",
    }
    wrong = client.post("/api/v1/prices/", {"prices": [{"prompt": "-1"}]}, format="json")
    assert wrong.status_code == 400


@pytest.mark.parametrize("path", ["keys/999999/", "usage/nonsense/", "credentials/x/", "nope/"])
def test_what_is_not_there_is_404(people: People, program: Program, path: str) -> None:
    assert program("owner").get(f"/api/v1/{path}").status_code == 404


def test_a_body_that_is_no_json_is_said_to_be(people: People, program: Program) -> None:
    answer = program("owner").post("/api/v1/keys/", "{nonsense", content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "parse_error"


def test_answers_do_not_grow_with_businesses(people: People, program: Program) -> None:
    more = [Business(name=f"more-{n}") for n in range(20)]
    Business.objects.bulk_create(more)
    Membership.objects.bulk_create(
        Membership(user=people.owner, business=each, role="owner") for each in more
    )
    client = program("owner")
    assert len(client.get("/api/v1/quotas/?page_size=5").json()["results"]) == 5
    assert client.get("/api/v1/businesses/?page_size=9999").json()["next"] is None


def test_the_openapi_document_describes_what_there_is(people: People, program: Program) -> None:
    schema = program("owner").get("/api/v1/schema/?format=json").json()
    assert "/api/v1/keys/{id}/rotate/" in schema["paths"]
    create = schema["paths"]["/api/v1/keys/"]["post"]
    assert "Idempotency-Key" in {each["name"] for each in create["parameters"]}
    assert schema["components"]["securitySchemes"]["managementToken"]["scheme"] == "bearer"
