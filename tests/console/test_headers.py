"""What every page carries, and what none contains."""

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from django.test import Client

from metering.services.keys import create_key

from .conftest import PASSWORD, People

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


class Inline(HTMLParser):
    """Collects what a strict policy forbids, and every address that a page loads from."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "style" or "style" in given:
            self.found.append(f"style on {tag}")
        if tag == "script" and "src" not in given and given.get("type") != "application/json":
            self.found.append("inline script")
        self.found.extend(name for name in given if name.startswith("on"))
        for name in ("src", "href", "action"):
            address = given.get(name)
            if address:
                self.sources.append(address)


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
