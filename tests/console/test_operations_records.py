"""Businesses, one request's story, and the audit, as operations see them."""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from metering.models import AuditEntry, Quota, QuotaRequest, UsageRecord
from metering.selectors.access import load_access
from metering.services import audit
from metering.services.audit_chain import seal
from metering.services.grades import request_grade
from metering.services.quotas import request_quota
from scheduler.decision_log.partitions import prepare
from scheduler.models import DecisionLog

from .conftest import People

Browser = Callable[[str], Client]
pytestmark = pytest.mark.django_db


def test_grade_and_ceiling_change_at_once_and_say_so(people: People, signed_in: Browser) -> None:
    browser = signed_in("operator")
    form = {"grade": "vip", "ceiling": "P0", "realtime": "high", "weight": "2"}
    assert browser.post("/ops/businesses/alpha/profile/", form).status_code == 302
    facts = load_access().businesses["alpha"]
    assert (facts.grade, facts.ceiling, facts.realtime, facts.weight) == ("vip", 0, "high", 2.0)
    entry = AuditEntry.objects.get(action="business.change")
    assert entry.actor == people.operator
    assert entry.data["before"]["grade"] == "basic"
    assert entry.data["after"]["grade"] == "vip"
    # Nothing has changed: nothing is said.
    browser.post("/ops/businesses/alpha/profile/", form)
    assert AuditEntry.objects.filter(action="business.change").count() == 1


def test_limits_and_envelope_where_zero_blocks_and_blank_is_unlimited(
    people: People, signed_in: Browser
) -> None:
    """Case G07 again."""
    browser = signed_in("operator")
    names = ("requests_per_s", "burst", "tokens_per_min", "running", "queued")
    blank = {f"limit-{name}": "" for name in (*names, "gpu_share", "monthly_budget")}
    form = {**blank, "limit-running": "0", "limit-gpu_share": "12.5"}
    assert browser.post("/ops/businesses/alpha/limits/", form).status_code == 302
    held = Quota.objects.get(business=people.alpha, kind="limit")
    assert (held.running, held.queued, held.gpu_share) == (0, None, 0.125)
    page = browser.get("/ops/businesses/alpha/").content.decode()
    assert 'value="12.5"' in page
    wrong = browser.post("/ops/businesses/alpha/limits/", {**form, "limit-running": "-1"})
    assert wrong.status_code == 422
    envelope = {name.replace("limit-", "envelope-"): "" for name in blank}
    browser.post("/ops/businesses/alpha/envelope/", {**envelope, "envelope-running": "9"})
    assert Quota.objects.get(business=people.alpha, kind="envelope").running == 9
    browser.post("/ops/businesses/alpha/envelope/", {**envelope, "none": "1"})
    assert not Quota.objects.filter(business=people.alpha, kind="envelope").exists()


def test_a_suspension_needs_a_reason_and_is_lifted_again(
    people: People, signed_in: Browser
) -> None:
    browser = signed_in("operator")
    assert browser.post("/ops/businesses/alpha/suspend/", {"on": "1"}).status_code == 422
    browser.post("/ops/businesses/alpha/suspend/", {"on": "1", "reason": "not paid"})
    assert load_access().businesses["alpha"].suspended
    assert AuditEntry.objects.get(action="business.suspend").data["reason"] == "not paid"
    listed = browser.get("/ops/businesses/?state=suspended").content.decode()
    assert "alpha" in listed
    assert "beta" not in listed
    browser.post("/ops/businesses/alpha/suspend/", {"reason": "paid"})
    assert not load_access().businesses["alpha"].suspended


@pytest.mark.parametrize("verb", ["approve", "decline"])
def test_what_a_business_asks_for_is_decided(people: People, signed_in: Browser, verb: str) -> None:
    row = request_quota(people.alpha, {"running": 40}, reason="launch", actor=people.owner)
    browser = signed_in("operator")
    assert "launch" in browser.get("/ops/businesses/").content.decode()
    browser.post(f"/ops/businesses/requests/{row.pk}/", {verb: "1", "answer": "fine"})
    row.refresh_from_db()
    approved = verb == "approve"
    status = QuotaRequest.Status.APPROVED if approved else QuotaRequest.Status.DECLINED
    assert (row.status, row.decided_by, row.answer) == (status, people.operator, "fine")
    assert Quota.objects.filter(business=people.alpha, running=40).exists() == approved


@pytest.mark.parametrize("verb", ["approve", "decline"])
def test_a_grade_that_is_asked_for_is_decided(
    people: People, signed_in: Browser, verb: str
) -> None:
    row = request_grade(people.alpha, "vip", reason="contract 12", actor=people.owner)
    browser = signed_in("operator")
    assert "contract 12" in browser.get("/ops/businesses/").content.decode()
    browser.post(f"/ops/businesses/grades/{row.pk}/", {verb: "1", "answer": "as signed"})
    people.alpha.refresh_from_db()
    assert people.alpha.grade == ("vip" if verb == "approve" else "basic")
    again = browser.post(f"/ops/businesses/grades/{row.pk}/", {verb: "1"}, follow=True)
    assert "alert-danger" in again.content.decode()


def decided(request: str, kind: str, **more: object) -> None:
    DecisionLog.objects.create(at=timezone.now(), kind=kind, request=request, **more)


def test_a_requests_whole_story_by_its_id(people: People, signed_in: Browser) -> None:
    prepare(connection.connection, [datetime.now(UTC).date()])
    mine, other = str(uuid.uuid4()), str(uuid.uuid4())
    detail = {
        "features": {"grade": "vip", "realtime": "high"},
        "claim": "P0",
        "base_level": 0,
        "scores": [["card-1", 0.9], ["card-2", 0.4]],
    }
    decided(mine, "dispatch", business="alpha", lane=0, level=0, replica="card-1", detail=detail)
    decided(
        other,
        "preempt",
        business="beta",
        lane=2,
        level=8,
        other=mine,
        replica="card-1",
        detail={"gain_ms": 900, "cost_ms": 40},
    )
    now = timezone.now()
    UsageRecord.objects.create(
        id=mine,
        business="alpha",
        operation="chat",
        status="ok",
        lane="P0",
        level=0,
        received_at=now,
        finished_at=now,
        prompt_tokens=1200,
        attempts=1,
    )
    browser = signed_in("operator")
    page = browser.get(f"/ops/decisions/?request={mine.upper()}").content.decode()
    for word in ("card-1 0.9, card-2 0.4", "gain_ms", "900", "1,200", other, "features.grade"):
        assert word in page, word
    listed = browser.get("/ops/decisions/?kind=preempt").content.decode()
    assert other in listed
    assert "no request id" in browser.get("/ops/decisions/?request=abc").content.decode()
    unknown = browser.get(f"/ops/decisions/?request={uuid.uuid4()}").content.decode()
    assert "Nothing is known" in unknown


def test_the_audit_is_read_by_topic_and_business_page_by_page(
    people: People, signed_in: Browser
) -> None:
    for number in range(45):
        audit.record("key.create", actor=people.owner, source="console", target=f"k{number:02}")
    audit.record("policy.save", actor=people.operator, source="console", business="beta")
    seal()
    browser = signed_in("operator")
    page = browser.get("/audit/?action=key")
    assert [row.target for row in page.context["rows"]][:2] == ["k44", "k43"]
    assert b"Sealed up to batch 1" in page.content
    older = browser.get(f"/audit/?action=key&before={page.context['older']}")
    assert [row.target for row in older.context["rows"]] == [f"k{n:02}" for n in range(4, -1, -1)]
    assert older.context["older"] is None
    only = browser.get("/audit/?business=beta")
    assert [row.action for row in only.context["rows"]] == ["policy.save"]
