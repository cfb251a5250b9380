"""Limits: what a form value means, and that saving one never changes another."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from django.http import HttpResponse
from django.test import Client

from metering.core.quotas import FIELDS, Changes, Limits
from metering.models import AuditEntry, Quota, QuotaRequest
from metering.services.quotas import set_envelope, set_quota

from .conftest import People

Browser = Callable[[str], Client]
WIDE = Limits()


def held(people: People) -> Quota:
    return Quota.objects.get(business=people.alpha, kind=Quota.Kind.LIMIT)


def post(browser: Client, changed: dict[str, str], *, sure: bool = True) -> HttpResponse:
    """As the page is sent back: every field as it was shown, but for those that are changed."""
    form = browser.get("/quotas/").context["form"]
    data = {"business": "alpha"}
    for name in FIELDS:
        shown = form.seen(name)
        text = "" if shown is None else format(shown, "f") if isinstance(shown, Decimal) else shown
        data[f"initial-{name}"] = data[name] = str(text)
    data |= changed
    if sure:
        data["sure"] = "1"
    return browser.post("/quotas/", data)  # type: ignore[return-value]


def test_0_blocks_and_blank_is_unlimited_and_the_page_says_so(
    people: People, signed_in: Browser
) -> None:
    """G07."""
    set_envelope(people.alpha, WIDE, actor=None)
    set_quota(people.alpha, {"running": 5, "queued": 7}, actor=None, operations=True)
    browser = signed_in("owner")
    assert post(browser, {"running": "0", "queued": ""}).status_code == 302
    limits = held(people)
    assert (limits.running, limits.queued) == (0, None)
    page = browser.get("/quotas/").content.decode()
    assert "0: blocks everything" in page
    assert "unlimited" in page


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("running", "-1"),
        ("running", "0.5"),
        ("running", "1e9"),
        ("running", "ten"),
        ("requests_per_s", "-0.1"),
        ("requests_per_s", "nan"),
        ("requests_per_s", "1e400"),
        ("gpu_share", "101"),
        ("monthly_budget", "0.0000001"),
        ("monthly_budget", "-5"),
    ],
)
def test_nonsense_is_refused_at_its_field(
    people: People, signed_in: Browser, name: str, text: str
) -> None:
    """G07."""
    set_envelope(people.alpha, WIDE, actor=None)
    response = post(signed_in("owner"), {name: text})
    assert response.status_code == 422
    page = response.content.decode()
    assert f'id="id_{name}-error"' in page
    assert f'value="{text}"' in page
    assert not Quota.objects.filter(business=people.alpha, kind="limit").exists()


def test_a_change_is_shown_with_its_effect_before_it_is_made(
    people: People, signed_in: Browser
) -> None:
    """G07."""
    set_envelope(people.alpha, Limits(running=10), actor=None)
    response = post(signed_in("owner"), {"running": "9", "requests_per_s": "2.5"}, sure=False)
    assert response.status_code == 200
    page = response.content.decode()
    assert "9 requests" in page
    assert "2.5 per second" in page
    assert not Quota.objects.filter(business=people.alpha, kind="limit").exists()


def test_what_others_changed_meanwhile_stays(people: People, signed_in: Browser) -> None:
    """G07: saving one field never changes another."""
    set_envelope(people.alpha, WIDE, actor=None)
    browser = signed_in("owner")
    form = {"business": "alpha", "sure": "1", "initial-running": "", "running": "4"}
    form |= {f"initial-{name}": "" for name in FIELDS} | {"queued": "", "burst": ""}
    set_quota(people.alpha, {"queued": 3}, actor=None, operations=True)
    assert browser.post("/quotas/", form).status_code == 302
    limits = held(people)
    assert (limits.running, limits.queued) == (4, 3)


def test_money_and_shares_survive_being_saved_unchanged(people: People, signed_in: Browser) -> None:
    exact: Changes = {
        "monthly_budget": Decimal("1234567.891"),
        "gpu_share": 0.3,
        "requests_per_s": 0.1,
    }
    set_quota(people.alpha, exact, actor=None, operations=True)
    set_envelope(people.alpha, WIDE, actor=None)
    before = AuditEntry.objects.count()
    assert post(signed_in("owner"), {}).status_code == 302
    assert AuditEntry.objects.count() == before
    assert post(signed_in("owner"), {"running": "1"}).status_code == 302
    limits = held(people)
    assert limits.monthly_budget == Decimal("1234567.891")
    assert (limits.gpu_share, limits.requests_per_s, limits.running) == (0.3, 0.1, 1)


def test_inside_the_envelope_at_once_and_beyond_it_a_request(
    people: People, signed_in: Browser
) -> None:
    set_envelope(people.alpha, Limits(running=10, queued=10), actor=None)
    browser = signed_in("owner")
    changed = {"running": "10", "queued": "11", "reason": "a launch"}
    assert post(browser, changed).status_code == 302
    assert held(people).running == 10
    assert held(people).queued is None
    asked = QuotaRequest.objects.get()
    assert (asked.wanted, asked.reason, asked.status) == ({"queued": 11}, "a launch", "open")
    # Another request is still open: nothing of this is done.
    response = post(browser, {"running": "9", "queued": "12"})
    assert response.status_code == 422
    assert "Another request is still open" in response.content.decode()
    assert held(people).running == 10
    assert browser.post("/quotas/request/withdraw/", {"business": "alpha"}).status_code == 302
    assert QuotaRequest.objects.get().status == "withdrawn"


def test_without_an_envelope_everything_is_asked_for(people: People, signed_in: Browser) -> None:
    assert post(signed_in("owner"), {"running": "3"}).status_code == 302
    assert QuotaRequest.objects.get().wanted == {"running": 3}
    assert held(people).running is None


def test_an_owner_says_whether_a_lighter_model_may_answer(
    people: People, signed_in: Browser
) -> None:
    browser = signed_in("owner")
    assert not people.alpha.degrade
    for sent, may in (({"degrade": "on"}, True), ({}, False)):
        browser.post("/quotas/lighter/", {"business": "alpha", **sent})
        people.alpha.refresh_from_db()
        assert people.alpha.degrade is may
        entry = AuditEntry.objects.filter(action="business.change").latest("pk")
        assert (entry.business, entry.data["after"]) == ("alpha", {"degrade": may})
    page = browser.get("/quotas/").content.decode()
    assert "A lighter model may answer" in page
