"""Keys: shown once, rotated with overlap, revoked."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django.fixtures import Settings

from metering.core.keys import digest
from metering.models import ApiKey, AuditEntry
from metering.services.keys import create_key, revoke_key
from scheduler.models import ModelDeployment

from .conftest import People

Browser = Callable[[str], Client]

SECRET = re.compile(r"fl_live_[A-Za-z0-9_-]{20,}")


def make(browser: Client, **form: object) -> str:
    """Create a key through the page; returns the key that the page shows."""
    response = browser.post("/keys/", {"business": "alpha", "name": "app", "days": 0, **form})
    assert response.status_code == 200, response.content
    assert "no-store" in response.headers["Cache-Control"]
    found: set[str] = set(SECRET.findall(response.content.decode()))
    assert len(found) == 1
    return found.pop()


def test_a_new_key_is_shown_once_and_kept_as_a_hash(
    signed_in: Browser, people: People, settings: Settings
) -> None:
    browser = signed_in("owner")
    secret = make(browser)
    row = ApiKey.objects.get()
    assert bytes(row.digest) == digest(secret, settings.FAIRLANE_KEY_PEPPER)
    assert row.created_by == people.owner
    for path in ("/", "/keys/", f"/keys/{row.pk}/rotate/", f"/keys/{row.pk}/revoke/"):
        page = browser.get(path).content.decode()
        assert secret not in page
        assert digest(secret, settings.FAIRLANE_KEY_PEPPER).hex() not in page
    assert secret not in str(dict(browser.session))
    assert not AuditEntry.objects.filter(data__icontains=secret[12:]).exists()
    assert row.prefix in browser.get("/keys/").content.decode()


def test_snippets_call_this_console_with_a_model_of_the_business(
    signed_in: Browser, people: People
) -> None:
    for name, task in (("embed", "embedding"), ("chat-small", "chat"), ("chat-large", "chat")):
        ModelDeployment.objects.create(name=name, task=task)
    people.alpha.models = ["embed", "chat-small"]
    people.alpha.save()
    response = signed_in("owner").post(
        "/keys/",
        {"business": "alpha", "name": "app", "days": 0},
        headers={"host": "localhost:8000"},
    )
    curl, python, node = (snippet.code for snippet in response.context["snippets"])
    assert "curl http://localhost:8000/v1/chat/completions" in curl
    assert 'base_url="http://localhost:8000/v1"' in python
    assert 'baseURL: "http://localhost:8000/v1"' in node
    for code in (curl, python, node):
        assert "chat-small" in code
        assert response.context["secret"] in code


def test_a_key_can_expire(signed_in: Browser) -> None:
    make(signed_in("owner"), days=30)
    expires_at = ApiKey.objects.get().expires_at
    assert expires_at is not None
    assert abs(expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)


@pytest.mark.parametrize("form", [{"name": ""}, {"name": "x" * 81}, {"days": 17}, {"days": -1}])
def test_a_wrong_form_comes_back_with_what_is_wrong(
    signed_in: Browser, form: dict[str, object]
) -> None:
    full = {"business": "alpha", "name": "app", "days": 0, **form}
    response = signed_in("owner").post("/keys/", full)
    assert response.status_code == 422
    assert b"invalid-feedback" in response.content
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("hours", [0, 24])
def test_rotation_shows_the_successor_and_ends_the_old_key_when_asked(
    signed_in: Browser, people: People, hours: int
) -> None:
    old, secret = create_key(people.alpha, "app", actor=people.owner)
    response = signed_in("owner").post(f"/keys/{old.pk}/rotate/", {"hours": hours})
    successor = set(SECRET.findall(response.content.decode()))
    assert len(successor) == 1
    assert secret not in successor
    old.refresh_from_db()
    if hours:
        assert old.revoked_at is None
        assert old.expires_at is not None
        assert abs(old.expires_at - timezone.now() - timedelta(hours=hours)) < timedelta(minutes=1)
    else:
        assert old.revoked_at is not None


def test_a_dead_key_is_not_rotated(signed_in: Browser, people: People) -> None:
    old, _secret = create_key(people.alpha, "app", actor=people.owner)
    revoke_key(old, actor=people.owner)
    response = signed_in("owner").post(f"/keys/{old.pk}/rotate/", {"hours": 0})
    assert not SECRET.findall(response.content.decode())
    assert ApiKey.objects.count() == 1


def test_revoking_asks_first(signed_in: Browser, people: People) -> None:
    key, _secret = create_key(people.alpha, "app", actor=people.owner)
    browser = signed_in("owner")
    asked = browser.get(f"/keys/{key.pk}/revoke/")
    assert b"can&#x27;t be undone" in asked.content or b"can't be undone" in asked.content
    key.refresh_from_db()
    assert key.revoked_at is None
    done = browser.post(f"/keys/{key.pk}/revoke/", follow=True)
    assert "is revoked" in done.content.decode()
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_changes_are_in_the_audit_trail_with_their_author(
    signed_in: Browser, people: People
) -> None:
    browser = signed_in("owner")
    make(browser)
    key = ApiKey.objects.get()
    browser.post(f"/keys/{key.pk}/rotate/", {"hours": 1})
    browser.post(f"/keys/{key.pk}/revoke/")
    entries = AuditEntry.objects.filter(actor=people.owner).order_by("pk")
    assert [entry.action for entry in entries] == ["key.create", "key.rotate", "key.revoke"]
    assert {entry.business for entry in entries} == {"alpha"}


def test_the_list_tells_the_states_apart_and_has_pages(signed_in: Browser, people: People) -> None:
    now = timezone.now()
    ApiKey.objects.bulk_create(
        ApiKey(
            business=people.alpha,
            name=f"key {number}",
            prefix="fl_live_test",
            digest=bytes([number]) * 32,
            created_at=now,
            expires_at={0: now - timedelta(days=1), 1: now + timedelta(days=1)}.get(number),
            revoked_at=now if number == 2 else None,
        )
        for number in range(53)
    )
    browser = signed_in("owner")
    rows = [row for page in (1, 2) for row in browser.get(f"/keys/?page={page}").context["rows"]]
    states = {row.key.name: row.state for row in rows}
    assert len(states) == 53
    assert [states[f"key {number}"] for number in range(4)] == [
        "expired",
        "ending",
        "revoked",
        "working",
    ]


def test_forms_need_their_token(people: People) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(people.owner)
    for path in ("/keys/", "/accounts/business/", "/accounts/logout/"):
        assert browser.post(path, {"business": "alpha", "name": "app"}).status_code == 403
