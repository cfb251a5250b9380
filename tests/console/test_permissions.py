"""Who gets which page: each of them, for each kind of person."""

import re
from collections.abc import Callable

import pytest
from django.core.management import call_command
from django.test import Client

from console.models import User
from metering.models import ApiKey, AuditEntry
from metering.services.keys import create_key

from .conftest import People

Browser = Callable[[str], Client]

OWNERS = ("owner", "colleague", "outsider")
OTHERS = ("operator", "finance", "admin")
EVERYONE = (*OWNERS, *OTHERS)

PAGES = {
    "/keys/": OWNERS,
    "/ops/live/": ("operator", "admin"),
    "/finance/usage/": ("finance",),
}


@pytest.mark.parametrize("name", EVERYONE)
@pytest.mark.parametrize("path", PAGES)
def test_a_page_exists_for_its_roles_alone(signed_in: Browser, path: str, name: str) -> None:
    expected = 200 if name in PAGES[path] else 403
    assert signed_in(name).get(path).status_code == expected


@pytest.mark.parametrize("path", ["/", *PAGES, "/keys/1/rotate/", "/keys/1/revoke/", "/admin/"])
def test_a_stranger_is_sent_to_the_sign_in_page(client: Client, db: None, path: str) -> None:
    response = client.get(path, follow=True)
    assert response.redirect_chain[-1][0].startswith("/accounts/login/?next=")


@pytest.mark.parametrize(
    ("name", "first"),
    [("operator", "/ops/live/"), ("finance", "/finance/bills/"), ("admin", "/admin/")],
)
def test_everyone_starts_at_a_page_of_their_own(signed_in: Browser, name: str, first: str) -> None:
    response = signed_in(name).get("/", follow=True)
    assert response.redirect_chain == [(first, 302)]
    assert response.status_code == 200


def test_an_owner_starts_at_the_overview(signed_in: Browser) -> None:
    response = signed_in("owner").get("/")
    assert response.status_code == 200
    assert b"alpha" in response.content
    assert b"beta" not in response.content


@pytest.mark.parametrize("name", EVERYONE)
def test_the_menu_leads_only_to_pages_that_open(signed_in: Browser, name: str) -> None:
    browser = signed_in(name)
    first = browser.get("/keys/" if name in OWNERS else "/", follow=True)
    menu = [page["url"] for page in first.context["menu"]]
    assert menu
    for path in menu:
        assert browser.get(path).status_code == 200, path


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize(
    ("name", "status"), [("owner", 200), ("colleague", 403), ("outsider", 404), ("operator", 403)]
)
def test_only_an_owner_of_the_business_changes_its_keys(
    people: People, signed_in: Browser, name: str, status: int, verb: str, method: str
) -> None:
    key, _secret = create_key(people.alpha, "app", actor=people.owner)
    response = getattr(signed_in(name), method)(f"/keys/{key.pk}/{verb}/", {"hours": 0})
    allowed = (200, 302) if status == 200 else (status,)
    assert response.status_code in allowed
    key.refresh_from_db()
    changed = method == "post" and name == "owner"
    assert (key.revoked_at is not None) == changed


@pytest.mark.parametrize(
    ("name", "status"), [("owner", 200), ("colleague", 403), ("outsider", 404), ("admin", 403)]
)
def test_only_an_owner_of_the_business_creates_a_key(
    people: People, signed_in: Browser, name: str, status: int
) -> None:
    form = {"business": "alpha", "name": "app", "days": 0}
    assert signed_in(name).post("/keys/", form).status_code == status
    assert ApiKey.objects.filter(business=people.alpha).exists() == (name == "owner")


def test_an_unknown_business_looks_like_somebody_elses(signed_in: Browser, people: People) -> None:
    browser = signed_in("owner")
    answers = [
        browser.post("/keys/", {"business": name, "name": "app", "days": 0})
        for name in ("beta", "no-such-thing", "")
    ]
    assert {answer.status_code for answer in answers} == {404}
    token = re.compile(rb'name="csrfmiddlewaretoken" value="[^"]*"')
    assert len({token.sub(b"", answer.content) for answer in answers}) == 1


def test_an_owner_never_sees_anothers_keys(people: People, signed_in: Browser) -> None:
    key, _secret = create_key(people.beta, "of beta", actor=people.outsider)
    page = signed_in("owner").get("/keys/").content.decode()
    assert "of beta" not in page
    assert key.prefix not in page
    assert "of beta" in signed_in("outsider").get("/keys/").content.decode()


def test_a_colleague_looks_and_is_offered_nothing_more(people: People, signed_in: Browser) -> None:
    create_key(people.alpha, "app", actor=people.owner)
    page = signed_in("colleague").get("/keys/").content.decode()
    assert "app" in page
    for word in ("Create key", "Rotate", "Revoke"):
        assert word not in page


def test_createsuperuser_makes_an_administrator(client: Client, db: None) -> None:
    call_command("createsuperuser", "--no-input", "--username", "first", "--email", "")
    first = User.objects.get()
    assert first.role == User.Role.ADMIN
    client.force_login(first)
    assert client.get("/").headers["Location"] == "/admin/"


def test_the_admin_turns_away_those_who_may_not_enter(signed_in: Browser) -> None:
    response = signed_in("owner").get("/admin/", follow=True)
    assert response.status_code == 403


def test_a_person_without_a_business_is_told_so(signed_in: Browser, people: People) -> None:
    people.owner.memberships.all().delete()
    browser = signed_in("owner")
    for path in ("/", "/keys/"):
        response = browser.get(path)
        assert response.status_code == 200
        assert b"No business yet" in response.content


def test_the_admin_looks_at_the_audit_trail_and_changes_nothing(
    signed_in: Browser, people: People
) -> None:
    create_key(people.alpha, "app", actor=people.owner)
    entry = AuditEntry.objects.latest("pk")
    browser = signed_in("admin")
    for path in (
        "",
        "console/user/",
        "metering/auditentry/",
        f"metering/auditentry/{entry.pk}/change/",
    ):
        assert browser.get(f"/admin/{path}").status_code == 200, path
    assert browser.get("/admin/metering/auditentry/add/").status_code == 403
    assert browser.post(f"/admin/metering/auditentry/{entry.pk}/delete/").status_code == 403
