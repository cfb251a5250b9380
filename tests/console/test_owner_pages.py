"""Credentials, members, tokens and the chat's pass, as owners use them."""

from collections.abc import Callable
from datetime import timedelta

import jwt
import pytest
from django.test import Client

from console.models import ManagementToken
from metering.models import (
    AuditEntry,
    GradeRequest,
    Membership,
    SigningKey,
    TierCredential,
)
from metering.services.credentials import issue_credential
from metering.services.grades import decide_grade_request, request_grade

from .conftest import People, person

Browser = Callable[[str], Client]
ISSUE = {"business": "alpha", "grade": "basic", "ceiling": "P2", "svc": "scoring", "hours": 24}


def token_in(page: bytes) -> str:
    return page.decode().partition('spellcheck="false">')[2].partition("</textarea>")[0]


def test_a_credential_is_shown_once_and_says_what_was_chosen(
    people: People, signed_in: Browser
) -> None:
    browser = signed_in("owner")
    token = token_in(browser.post("/credentials/", ISSUE).content)
    claims = jwt.decode(token, options={"verify_signature": False})
    assert (claims["sub"], claims["ceiling"], claims["svc"]) == ("alpha", "P2", "scoring")
    assert claims["exp"] - claims["nbf"] == 86_400
    row = TierCredential.objects.get()
    for page in (browser.get("/credentials/"), browser.get(f"/credentials/{row.jti}/narrow/")):
        assert token not in page.content.decode()
    assert token not in str([entry.data for entry in AuditEntry.objects.all()])


def test_the_form_offers_nothing_beyond_the_business(people: People, signed_in: Browser) -> None:
    browser = signed_in("owner")
    for beyond in ({"grade": "vip"}, {"ceiling": "P0"}, {"hours": 999_999}):
        assert browser.post("/credentials/", {**ISSUE, **beyond}).status_code == 422
    assert not TierCredential.objects.exists()


def test_a_narrowed_one_goes_with_its_parent(people: People, signed_in: Browser) -> None:
    parent, _token = issue_credential(people.alpha, actor=None, lifetime=timedelta(hours=1))
    browser = signed_in("owner")
    narrow = {"grade": "basic", "ceiling": "P2", "hours": 0}
    page = browser.post(f"/credentials/{parent.jti}/narrow/", narrow)
    claims = jwt.decode(token_in(page.content), options={"verify_signature": False})
    assert (claims["ceiling"], claims["parent"]) == ("P2", str(parent.jti))
    beyond = browser.post(f"/credentials/{parent.jti}/narrow/", {**narrow, "hours": 24})
    assert beyond.status_code == 422
    assert "It would outlive its parent" in beyond.content.decode()
    browser.post(f"/credentials/{parent.jti}/revoke/")
    assert not TierCredential.objects.filter(revoked_at=None).exists()
    assert str(parent.jti)[:8] not in browser.get("/credentials/").content.decode()
    assert str(parent.jti)[:8] in browser.get("/credentials/?show=all").content.decode()


def test_a_better_grade_is_asked_for_and_given(people: People, signed_in: Browser) -> None:
    browser = signed_in("owner")
    wanted = {"business": "alpha", "grade": "premium", "reason": "a contract"}
    assert browser.post("/credentials/grade/", wanted).status_code == 302
    assert browser.post("/credentials/grade/", wanted).status_code == 422
    asked = GradeRequest.objects.get()
    operator = signed_in("operator")
    assert "a contract" in operator.get("/ops/businesses/").content.decode()
    answer = {"approve": "1", "answer": "welcome"}
    operator.post(f"/ops/businesses/grades/{asked.pk}/", answer)
    people.alpha.refresh_from_db()
    assert people.alpha.grade == "premium"
    page = browser.get("/credentials/").content.decode()
    assert "welcome" in page
    assert "approved" in page
    for grade in ("premium", "basic", "golden"):
        assert browser.post("/credentials/grade/", {**wanted, "grade": grade}).status_code == 422


def test_two_who_decide_at_once_are_one_decision(people: People) -> None:
    asked = request_grade(people.alpha, "vip", actor=people.owner)
    other = GradeRequest.objects.get()
    decide_grade_request(asked, approve=False, answer="no", actor=people.operator)
    with pytest.raises(ValueError, match="not open any more"):
        decide_grade_request(other, approve=True, actor=people.admin)
    people.alpha.refresh_from_db()
    assert people.alpha.grade == "basic"


def test_members_come_change_and_go_and_an_owner_is_left(
    people: People, signed_in: Browser
) -> None:
    guest = person("guest", email="guest@example.com")
    browser = signed_in("owner")
    add = {"business": "alpha", "person": "GUEST@example.com", "role": "member"}
    assert browser.post("/members/", add).status_code == 302
    assert browser.post("/members/", add).status_code == 422
    member = Membership.objects.get(user=guest)
    browser.post(f"/members/{member.pk}/change/", {"role": "owner"})
    own = Membership.objects.get(user=people.owner)
    browser.post(f"/members/{own.pk}/change/", {"role": "member"})
    assert Membership.objects.get(user=people.owner).role == "member"
    last = signed_in("owner").post(f"/members/{member.pk}/remove/")
    assert last.status_code == 403
    theirs = Client()
    theirs.force_login(guest)
    for verb in ("remove", "change"):
        theirs.post(f"/members/{member.pk}/{verb}/", {"role": "member"})
        assert Membership.objects.get(user=guest).role == "owner"


@pytest.mark.parametrize("name", ["operator", "nobody-of-that-name", "inactive"])
def test_accounts_of_other_kinds_look_like_none(
    people: People, signed_in: Browser, name: str
) -> None:
    person("inactive", is_active=False)
    form = {"business": "alpha", "person": name, "role": "owner"}
    page = signed_in("owner").post("/members/", form)
    assert page.status_code == 422
    assert "There is no such account" in page.content.decode()
    assert Membership.objects.filter(business=people.alpha).count() == 2


def test_the_chat_s_pass_is_short_and_no_more_than_the_business(
    people: People, signed_in: Browser
) -> None:
    answer = signed_in("owner").post("/try/pass/", {"business": "alpha"})
    claims = jwt.decode(answer.json()["token"], options={"verify_signature": False})
    assert (claims["grade"], claims["ceiling"]) == ("basic", "P1")
    assert claims["exp"] - claims["nbf"] == 900
    assert "no-store" in answer.headers["Cache-Control"]


def test_a_token_is_made_for_what_was_chosen_and_shown_once(
    people: People, signed_in: Browser
) -> None:
    browser = signed_in("finance")
    form = {"name": "export", "scopes": ["bills:read"], "days": 30}
    page = browser.post("/accounts/tokens/", form).content.decode()
    secret = page.partition('value="fl_mgmt_')[2].partition('"')[0]
    assert len(secret) == 43
    assert secret not in browser.get("/accounts/tokens/").content.decode()
    header = {"authorization": f"Bearer fl_mgmt_{secret}"}
    assert Client().get("/api/v1/bills/", headers=header).status_code == 200
    assert Client().get("/api/v1/usage/", headers=header).status_code == 403
    beyond = browser.post("/accounts/tokens/", {**form, "scopes": ["keys:write"]})
    assert beyond.status_code == 422
    browser.post(f"/accounts/tokens/{ManagementToken.objects.get().pk}/revoke/")
    assert Client().get("/api/v1/bills/", headers=header).status_code == 401


def test_administrators_rotate_the_signing_key(people: People, signed_in: Browser) -> None:
    issue_credential(people.alpha, actor=None, lifetime=timedelta(hours=1))
    before = SigningKey.objects.get()
    browser = signed_in("admin")
    page = browser.get("/admin/metering/signingkey/")
    assert page.status_code == 200
    form = {"action": "rotate", "_selected_action": [before.pk]}
    assert browser.post("/admin/metering/signingkey/", form).status_code == 302
    assert SigningKey.objects.get(status="active").kid != before.kid
    assert AuditEntry.objects.filter(action="signing_key.rotate", actor=people.admin).exists()
    assert browser.get("/admin/console/managementtoken/").status_code == 200
    assert browser.get("/admin/console/signinattempt/").status_code == 200
