"""What every page carries, and what none contains."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from metering.services.keys import create_key

from .conftest import PASSWORD, People
from .strict import Inline

Browser = Callable[[str], Client]

PAGES = [
    ("owner", "/"),
    ("owner", "/keys/"),
    ("colleague", "/keys/"),
    ("operator", "/ops/live/"),
    ("finance", "/finance/usage/"),
    ("owner", "/ops/live/"),
    ("owner", "/no-such-page/"),
    ("admin", "/admin/"),
]


@pytest.mark.parametrize(("name", "path"), PAGES)
def test_pages_are_strict_about_what_runs(signed_in: Browser, name: str, path: str) -> None:
    response = signed_in(name).get(path)
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    page = Inline()
    page.feed(response.content.decode())
    assert page.found == []
    assert [
        each for each in page.sources if re.match(r"(https?:)?//|data:|javascript:", each)
    ] == []


def test_the_page_that_shows_a_key_is_strict_too(signed_in: Browser, people: People) -> None:
    browser = signed_in("owner")
    key, _secret = create_key(people.alpha, "a <script>alert(1)</script> name", actor=people.owner)
    for response in (
        browser.post("/keys/", {"business": "alpha", "name": "<b>bold</b>", "days": 0}),
        browser.get("/keys/"),
        browser.get(f"/keys/{key.pk}/rotate/"),
        browser.get(f"/keys/{key.pk}/revoke/"),
    ):
        assert response.status_code == 200
        page = Inline()
        page.feed(response.content.decode())
        assert page.found == []
        assert b"<b>bold" not in response.content


def test_cookies_are_out_of_reach_of_scripts(client: Client, people: People) -> None:
    client.get("/accounts/login/")
    client.post("/accounts/login/", {"username": "owner", "password": PASSWORD})
    for name in ("sessionid", "csrftoken"):
        assert client.cookies[name]["httponly"]
        assert client.cookies[name]["samesite"] == "Lax"


def test_cookies_that_came_over_tls_stay_there(client: Client, people: People) -> None:
    over_tls = {"x-forwarded-proto": "https"}
    form = {"username": "owner", "password": PASSWORD}
    client.get("/accounts/login/")
    client.post("/accounts/login/", form)
    for name in ("sessionid", "csrftoken"):
        assert not client.cookies[name]["secure"]
    other = Client()
    other.get("/accounts/login/", headers=over_tls)
    other.post("/accounts/login/", form, headers=over_tls)
    other.post("/accounts/language/", {"language": "zh-hans"}, headers=over_tls)
    for name in ("sessionid", "csrftoken", "django_language"):
        assert other.cookies[name]["secure"], name


def test_a_form_works_behind_a_proxy_that_ends_tls(people: People) -> None:
    browser = Client(enforce_csrf_checks=True)
    over_tls = {
        "host": "testserver",
        "x-forwarded-proto": "https",
        "origin": "https://testserver",
    }
    page = browser.get("/accounts/login/", headers=over_tls)
    form = {
        "username": "owner",
        "password": PASSWORD,
        "csrfmiddlewaretoken": str(page.context["csrf_token"]),
    }
    headers = {**over_tls, "referer": "https://testserver/accounts/login/"}
    assert browser.post("/accounts/login/", form, headers=headers).status_code == 302
    foreign = {**headers, "origin": "https://elsewhere.example"}
    assert browser.post("/accounts/login/", form, headers=foreign).status_code == 403
