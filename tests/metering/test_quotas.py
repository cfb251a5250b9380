"""Limits: set inside the envelope, asked for beyond it, decided once, audited, announced."""

from decimal import Decimal

import pytest

from metering.core.facts import Allowance
from metering.core.quotas import Changes, Limits
from metering.errors import QuotaRequestError
from metering.models import AuditEntry, Business, ChangeVersion, KeyQuota, Quota, QuotaRequest
from metering.selectors.access import load_access
from metering.services.keys import create_key, revoke_key
from metering.services.quotas import (
    decide_quota_request,
    envelope_of,
    request_quota,
    set_envelope,
    set_key_quota,
    set_quota,
    withdraw_quota_request,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def business() -> Business:
    business = Business.objects.create(name="risk-audit")
    envelope = Limits(requests_per_s=50, running=64, monthly_budget=Decimal(1000))
    set_envelope(business, envelope, actor=None)
    return business


def version() -> int:
    return ChangeVersion.objects.get(topic="access").version


def limit(business: Business) -> Quota:
    return Quota.objects.get(business=business, kind="limit")


def test_an_owner_moves_inside_the_envelope_at_once(business: Business) -> None:
    changes: Changes = {"requests_per_s": 50, "running": 0, "monthly_budget": "99.5", "burst": None}
    set_quota(business, changes, actor=None)
    held = limit(business)
    assert (held.requests_per_s, held.running) == (50.0, 0)
    assert held.monthly_budget == Decimal("99.5")
    # What the envelope leaves blank may be anything.
    set_quota(business, {"tokens_per_min": 10**12}, actor=None)
    before = version()
    entry = AuditEntry.objects.filter(action="quota.set").latest("pk")
    assert entry.data == {"before": {"tokens_per_min": None}, "after": {"tokens_per_min": 10**12}}
    set_quota(business, {"tokens_per_min": 10**12}, actor=None)
    assert version() == before


@pytest.mark.parametrize(
    ("field", "value"),
    [("requests_per_s", 50.1), ("requests_per_s", None), ("running", 65), ("monthly_budget", 1001)],
)
def test_beyond_the_envelope_is_refused_at_the_field(
    business: Business, field: str, value: float | None
) -> None:
    set_quota(business, {field: 1}, actor=None)
    with pytest.raises(QuotaRequestError) as refused:
        set_quota(business, {field: value, "queued": 7}, actor=None)
    assert list(refused.value.problems) == [field]
    assert limit(business).queued is None
    set_quota(business, {field: value}, actor=None, operations=True)
    # What operations have set stays when something else is changed.
    set_quota(business, {field: value, "queued": 7}, actor=None)
    assert limit(business).queued == 7


def test_without_an_envelope_an_owner_sets_nothing() -> None:
    business = Business.objects.create(name="bare")
    with pytest.raises(QuotaRequestError) as refused:
        set_quota(business, {"running": 1}, actor=None)
    assert list(refused.value.problems) == ["running"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("requests_per_s", -1),
        ("requests_per_s", float("nan")),
        ("requests_per_s", float("inf")),
        ("requests_per_s", True),
        ("burst", 1.5),
        ("burst", -1),
        ("burst", 2**31),
        ("running", "7"),
        ("tokens_per_min", 2**63),
        ("gpu_share", 1.01),
        ("gpu_share", "25%"),
        ("monthly_budget", "-0.01"),
        ("monthly_budget", "NaN"),
        ("monthly_budget", "much"),
        ("monthly_budget", "0.0000001"),
        ("monthly_budget", 10**14),
        ("colour", 1),
    ],
)
def test_out_of_range_is_refused_at_the_field(
    business: Business, field: str, value: float | str
) -> None:
    with pytest.raises(QuotaRequestError) as refused:
        set_quota(business, {field: value}, actor=None, operations=True)
    assert list(refused.value.problems) == [field]
    assert "there is no" in refused.value.problems[field] or "blank" in str(refused.value)


def test_a_request_is_approved_once_and_widens_the_envelope(business: Business) -> None:
    wanted: Changes = {"running": 128, "monthly_budget": Decimal("5000.5"), "queued": 3}
    request = request_quota(business, wanted, reason=" a campaign ", actor=None)
    assert request.wanted == {"running": 128, "monthly_budget": "5000.5", "queued": 3}
    assert request.reason == "a campaign"
    with pytest.raises(QuotaRequestError, match="still open"):
        request_quota(business, {"running": 256}, actor=None)
    decide_quota_request(request, approve=True, answer="until June", actor=None)
    assert (request.status, request.answer) == ("approved", "until June")
    held, envelope = limit(business), envelope_of(business)
    assert (held.running, held.monthly_budget, held.queued) == (128, Decimal("5000.5"), 3)
    assert envelope is not None
    assert (envelope.running, envelope.monthly_budget) == (128, Decimal("5000.5"))
    assert (envelope.requests_per_s, envelope.queued) == (50, None)
    with pytest.raises(QuotaRequestError, match="not open"):
        decide_quota_request(request, approve=False, actor=None)
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["quota.envelope", "quota.request", "quota.approve", "quota.set"]


def test_a_declined_or_withdrawn_request_changes_nothing(business: Business) -> None:
    first = request_quota(business, {"running": 128}, actor=None)
    # Somebody else's copy of the row decides first.
    decide_quota_request(
        QuotaRequest.objects.get(pk=first.pk), approve=False, answer="too much", actor=None
    )
    with pytest.raises(QuotaRequestError, match="not open"):
        withdraw_quota_request(first, actor=None)
    second = request_quota(business, {"running": 100}, actor=None)
    withdraw_quota_request(second, actor=None)
    assert [second.status, limit(business).running] == ["withdrawn", None]
    with pytest.raises(QuotaRequestError, match="as they are"):
        request_quota(business, {"running": None}, actor=None)
    with pytest.raises(QuotaRequestError, match="500 characters"):
        request_quota(business, {"running": 1}, reason="x" * 501, actor=None)


def test_a_key_has_limits_of_its_own(business: Business) -> None:
    key, _ = create_key(business, "app", actor=None)
    before = version()
    set_key_quota(key, {"running": 2, "monthly_budget": "1"}, models=["b", "a"], actor=None)
    set_key_quota(key, {"running": 3}, models=["a"], actor=None)
    held = KeyQuota.objects.get(key=key)
    assert (held.running, held.monthly_budget, held.models) == (3, Decimal(1), ["a"])
    assert version() == before + 2
    (facts,) = load_access().keys.values()
    assert facts.allowance == Allowance(running=3, monthly_budget=Decimal(1))
    assert (facts.models, facts.ceiling) == (frozenset({"a"}), None)
    set_key_quota(key, {}, actor=None, ceiling="P2")
    (facts,) = load_access().keys.values()
    assert (facts.models, facts.ceiling) == (None, 2)
    with pytest.raises(QuotaRequestError) as refused:
        set_key_quota(key, {}, actor=None, ceiling="P3")
    assert list(refused.value.problems) == ["ceiling"]
    revoke_key(key, actor=None)
    with pytest.raises(QuotaRequestError, match="revoked"):
        set_key_quota(key, {"running": 3}, actor=None)
