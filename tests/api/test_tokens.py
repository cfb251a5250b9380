"""Management tokens: what they open, and when they stop."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.api.routes import scopes_of
from console.models import ManagementToken
from console.services.tokens import TokenRequestError, create_token, revoke_token
from metering.models import AuditEntry
from metering.services.keys import create_key
from tests.console.conftest import People

Program = Callable[..., APIClient]
KEYS = "/api/v1/keys/"


def test_a_token_acts_for_its_holder_within_its_scopes(people: People, program: Program) -> None:
    reader = program("owner", "keys:read")
    assert reader.get(KEYS).status_code == 200
    new = {"business": "alpha", "name": "by token"}
    assert reader.post(KEYS, new, format="json").status_code == 403
    writer = program("owner", "keys:write")
    assert writer.get(KEYS).status_code == 200
    made = writer.post(KEYS, new, format="json")
    assert made.status_code == 201
    assert made.data["secret"].startswith("fl_live_")
    entry = AuditEntry.objects.get(action="key.create")
    assert entry.actor_id == people.owner.pk
    assert entry.source.startswith("rest fl_mgmt_")
    assert len(entry.source) == len("rest fl_mgmt_") + 4


@pytest.mark.parametrize("way", ["unknown", "revoked", "expired", "inactive", "key", "other"])
def test_whatever_is_wrong_with_a_token_the_answer_is_one(people: People, way: str) -> None:
    allowed = scopes_of("owner")
    row, secret = create_token(
        people.owner, "x", scopes=allowed, allowed=allowed, lifetime=timedelta(hours=1)
    )
    if way == "revoked":
        revoke_token(row, actor=people.owner)
    elif way == "expired":
        ManagementToken.objects.update(expires_at=timezone.now())
    elif way == "inactive":
        people.owner.is_active = False
        people.owner.save()
    elif way == "key":
        _key, secret = create_key(people.alpha, "app", actor=None)
    header = {"unknown": f"Bearer {secret}x", "other": f"Basic {secret}"}
    response = Client().get(KEYS, headers={"authorization": header.get(way, f"Bearer {secret}")})
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"].startswith("Bearer")
    assert response.json() == {
        "error": {"code": "authentication_failed", "message": "This token is not valid."}
    }


def test_a_token_is_kept_as_a_keyed_hash_and_never_logged(
    people: People, caplog: pytest.LogCaptureFixture
) -> None:
    row, secret = create_token(
        people.owner, "x", scopes=["keys:read"], allowed=["keys:read"], lifetime=timedelta(days=1)
    )
    assert secret[:8] == "fl_mgmt_"
    assert secret not in str([vars(each) for each in ManagementToken.objects.all()])
    assert secret not in str([each.data for each in AuditEntry.objects.all()])
    assert len(row.digest) == 32
    assert secret not in caplog.text


def test_a_token_can_do_no_more_than_its_person(people: People) -> None:
    allowed = scopes_of("finance")
    assert "keys:write" not in allowed
    for scopes, lifetime, name in (
        (["keys:write"], timedelta(hours=1), "x"),
        ([], timedelta(hours=1), "x"),
        (["usage:read"], timedelta(days=367), "x"),
        (["usage:read"], timedelta(0), "x"),
        (["usage:read"], timedelta(hours=1), " "),
    ):
        with pytest.raises(TokenRequestError):
            create_token(
                people.finance, name, scopes=scopes, allowed={"usage:read"}, lifetime=lifetime
            )
    assert not ManagementToken.objects.exists()


def test_a_token_follows_what_becomes_of_its_person(people: People, program: Program) -> None:
    client = program("owner")
    key, _secret = create_key(people.alpha, "app", actor=None)
    assert client.get(f"{KEYS}{key.pk}/").status_code == 200
    people.owner.memberships.update(role="member")
    assert client.post(f"{KEYS}{key.pk}/revoke/").status_code == 403
    people.owner.memberships.all().delete()
    assert client.get(f"{KEYS}{key.pk}/").status_code == 404
    people.owner.role = "finance"
    people.owner.save()
    assert client.get(KEYS).status_code == 403


def test_its_use_is_noted_once_a_minute(people: People, program: Program) -> None:
    client = program("owner")
    client.get(KEYS)
    first = ManagementToken.objects.get().last_used_at
    assert first is not None
    client.get(KEYS)
    assert ManagementToken.objects.get().last_used_at == first


def test_a_session_needs_the_page_s_own_mark_to_write(people: People) -> None:
    browser = APIClient(enforce_csrf_checks=True)
    browser.force_login(people.owner)
    new = {"business": "alpha", "name": "by session"}
    assert browser.get(KEYS).status_code == 200
    assert browser.post(KEYS, new, format="json").status_code == 403
    page = browser.get("/keys/")
    mark = page.context["csrf_token"]
    answer = browser.post(KEYS, new, format="json", headers={"x-csrftoken": str(mark)})
    assert answer.status_code == 201
