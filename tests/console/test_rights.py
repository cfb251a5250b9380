"""Every address, for each kind of person; an address that nobody has thought about fails."""

import importlib
import json
import pkgutil
from collections.abc import Callable, Iterator

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from metering.models import AuditEntry

from . import rights
from .conftest import People
from .rights.kinds import PERSONS, Right
from .strict import forbidden

Browser = Callable[[str], Client]

MODULES = [
    importlib.import_module(f"{rights.__name__}.{each.name}")
    for each in pkgutil.iter_modules(rights.__path__)
    if each.name != "kinds"
]
RIGHTS: list[Right] = [right for module in MODULES for right in module.RIGHTS]


def routes(resolver: URLResolver) -> Iterator[tuple[str, str]]:
    """Name and method of each address; of the Django admin, only its door."""
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            if each.app_name == "admin":
                yield "admin", "get"
            else:
                yield from routes(each)
            continue
        assert isinstance(each, URLPattern)
        actions = getattr(each.callback, "actions", None) or {"get": ""}
        for method in actions.keys() - {"head"}:
            yield each.name or str(each.pattern), method


def test_every_route_has_an_entry() -> None:
    listed = {(right.name, right.method) for right in RIGHTS}
    # A page that only takes a POST is entered as that.
    posts = {name for name, method in listed if method == "post"}
    missing = {
        (name, method)
        for name, method in routes(get_resolver())
        if (name, method) not in listed and not (method == "get" and name in posts)
    }
    assert missing == set()
    unknown = {name for name, _method in listed} - {name for name, _ in routes(get_resolver())}
    assert unknown == set()


def test_every_entry_says_what_each_person_gets() -> None:
    assert [str(right) for right in RIGHTS if set(right.status) != set(PERSONS)] == []


def answer(browser: Client, right: Right, objects: dict[str, object]) -> HttpResponse:
    path = right.path.format(**objects)
    if right.method == "get":
        return browser.get(path)  # type: ignore[return-value]
    data = {
        name: value.format(**objects) if isinstance(value, str) else value
        for name, value in right.data.items()
    }
    if right.json:
        return browser.generic(  # type: ignore[return-value]
            right.method.upper(), path, json.dumps(data), content_type="application/json"
        )
    return getattr(browser, right.method)(path, data)  # type: ignore[no-any-return]


@pytest.mark.parametrize("right", RIGHTS, ids=str)
def test_each_person_gets_what_is_theirs(right: Right, people: People, signed_in: Browser) -> None:
    objects: dict[str, object] = {}
    for module in MODULES:
        if right in module.RIGHTS and hasattr(module, "objects"):
            objects |= module.objects(people)
    before = AuditEntry.objects.count()
    got = {}
    for person in PERSONS:
        browser = Client() if person == "stranger" else signed_in(person)
        response = answer(browser, right, objects)
        got[person] = response.status_code
        if response.headers.get("Content-Type", "").startswith("text/html"):
            assert "script-src 'self'" in response.headers["Content-Security-Policy"]
            assert forbidden(response.content.decode()) == []
        hidden = right.hidden.format(**objects)
        if hidden and person in {"owner", "outsider"}:
            text = response.content.decode()
            assert (hidden in text) == (person == "owner"), person
        refused = right.method != "get" and right.status[person] >= 400
        if refused:
            assert AuditEntry.objects.count() == before, f"{person} has changed something"
        before = AuditEntry.objects.count()
    assert got == dict(right.status)
