"""Single sign-on against a provider that runs: who gets in, as whom, and what is turned away."""

import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import jwt
import pytest
from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client
from pytest_django.fixtures import Settings

from console.models import SignOn, User
from metering.models import AuditEntry

from .conftest import People
from .provider import CLIENT, SECRET, Provider, new_key, provider

BEGIN = "/accounts/sign-on/"
FINE = {"sub": "u-1", "email": "owner@alpha.example", "email_verified": True}


@pytest.fixture
def idp(settings: Settings) -> Iterator[Provider]:
    """The provider that this console is told to trust."""
    with provider() as found:
        settings.OIDC_ISSUER = found.issuer
        settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = CLIENT, SECRET
        found.claims = dict(FINE)
        yield found


@pytest.fixture
def with_mail(people: People) -> People:
    User.objects.filter(pk=people.owner.pk).update(email="owner@alpha.example")
    return people


def sign_on(browser: Client, start: str = BEGIN) -> HttpResponse:
    """There and back again, as a browser goes."""
    away = browser.get(start)
    assert away.status_code == 302
    there = httpx.get(away["Location"], trust_env=False)
    back = urlsplit(there.headers["location"])
    return browser.get(f"{back.path}?{back.query}")  # type: ignore[return-value]


def who(browser: Client) -> str:
    """The name of whoever the browser's session is of."""
    key = browser.session.get("_auth_user_id")
    return User.objects.get(pk=key).username if key else ""


def said(answer: HttpResponse) -> str:
    return " ".join(str(each) for each in get_messages(answer.wsgi_request))  # type: ignore[attr-defined]


def test_an_account_is_found_by_its_verified_mail_and_then_by_its_subject(
    with_mail: People, idp: Provider
) -> None:
    browser = Client()
    page = browser.get("/accounts/login/?next=/quotas/").content.decode()
    assert "/accounts/sign-on/?next=/quotas/" in page
    answer = sign_on(browser, f"{BEGIN}?next=/quotas/")
    assert answer["Location"] == "/quotas/"
    assert who(browser) == "owner"
    # Another address by now, and still the same person.
    idp.claims = {"sub": "u-1", "email": "else@alpha.example", "email_verified": False}
    again = Client()
    sign_on(again)
    assert who(again) == "owner"
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["user.sign_on", "user.sign_in", "user.sign_in"]


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"email_verified": False}, "There is no account for you here"),
        ({"email_verified": "true"}, "There is no account for you here"),
        ({"email": "nobody@alpha.example"}, "There is no account for you here"),
        ({"email": ""}, "There is no account for you here"),
    ],
)
def test_nobody_becomes_somebody_else(
    with_mail: People, idp: Provider, claims: dict[str, object], why: str
) -> None:
    idp.claims |= claims
    browser = Client()
    answer = sign_on(browser)
    assert answer["Location"] == "/accounts/login/"
    assert why in said(answer)
    assert not who(browser)
    assert not SignOn.objects.exists()


def test_a_second_subject_does_not_get_an_account_that_has_one(
    with_mail: People, idp: Provider
) -> None:
    sign_on(Client())
    idp.claims["sub"] = "u-2"
    browser = Client()
    assert "There is no account for you here" in said(sign_on(browser))
    assert not who(browser)


def test_groups_make_accounts_and_roles_follow_them(
    people: People, idp: Provider, settings: Settings
) -> None:
    settings.OIDC_ROLES = {"admins": "admin", "ops": "operator", "staff": "owner"}
    idp.claims = {"sub": "u-9", "preferred_username": "owner", "groups": ["staff", "ops"]}
    browser = Client()
    sign_on(browser)
    assert who(browser) == "owner-2", "the name was taken"
    user = User.objects.get(username="owner-2")
    assert (user.role, user.is_staff, user.has_usable_password()) == ("operator", False, False)
    idp.claims["groups"] = "admins"
    sign_on(Client())
    user.refresh_from_db()
    assert (user.role, user.is_staff, user.is_superuser) == ("admin", True, True)
    idp.claims["groups"] = ["staff"]
    sign_on(Client())
    user.refresh_from_db()
    assert (user.role, user.is_staff, user.is_superuser) == ("owner", False, False)
    idp.claims["groups"] = []
    browser = Client()
    assert "Your groups give you no role here" in said(sign_on(browser))
    assert not who(browser)


def test_who_is_switched_off_stays_out(with_mail: People, idp: Provider) -> None:
    sign_on(Client())
    User.objects.filter(username="owner").update(is_active=False)
    browser = Client()
    assert "This account is switched off" in said(sign_on(browser))
    assert not who(browser)


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"iss": "https://elsewhere.example"},
        {"nonce": "of another time"},
        {"exp": int(time.time()) - 3_600},
        {"sub": None},
    ],
    ids=["audience", "issuer", "nonce", "expired", "nobody"],
)
def test_a_wrong_token_is_no_word(
    with_mail: People, idp: Provider, claims: dict[str, object]
) -> None:
    idp.claims |= claims
    browser = Client()
    assert "Sign-on did not work" in said(sign_on(browser))
    assert not who(browser)


def test_a_token_that_another_key_signed_is_no_word(with_mail: People, idp: Provider) -> None:
    idp.published = new_key()
    browser = Client()
    assert "Sign-on did not work" in said(sign_on(browser))
    assert not who(browser)


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_that_nobody_signed_is_no_word(
    with_mail: People, idp: Provider, algorithm: str
) -> None:
    claims = {**FINE, "iss": idp.issuer, "aud": CLIENT, "exp": int(time.time()) + 60}
    key = "" if algorithm == "none" else SECRET * 2
    idp.token = jwt.encode(claims, key, algorithm, headers={"kid": "one"})
    browser = Client()
    assert "Sign-on did not work" in said(sign_on(browser))
    assert not who(browser)


def test_an_answer_to_another_browser_is_none(with_mail: People, idp: Provider) -> None:
    """Somebody lures a person's browser to an answer of their own."""
    mine, theirs = Client(), Client()
    away = mine.get(BEGIN)
    back = urlsplit(httpx.get(away["Location"], trust_env=False).headers["location"])
    answer = theirs.get(f"{back.path}?{back.query}")
    assert "Sign-on did not work" in said(answer)  # type: ignore[arg-type]
    assert not who(theirs)


def test_it_goes_nowhere_else_afterwards(with_mail: People, idp: Provider) -> None:
    answer = sign_on(Client(), f"{BEGIN}?next=https://evil.example/")
    assert answer["Location"] == "/"


def test_a_provider_that_is_down_leaves_the_password(people: People, settings: Settings) -> None:
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = "http://127.0.0.1:1", CLIENT
    answer = Client().get(BEGIN, follow=True)
    assert answer.status_code == 200
    assert "sign in with a password" in answer.content.decode()


def test_without_a_provider_there_is_no_such_page(people: People) -> None:
    assert Client().get(BEGIN).status_code == 404
    assert "sign-on" not in Client().get("/accounts/login/").content.decode()
