"""Keys: shown once, kept as a keyed hash, audited, announced."""

import json
import logging
from contextlib import nullcontext
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core import serializers
from django.utils import timezone

from metering.core.keys import KEY_PREFIX, digest, prefix_of
from metering.errors import KeyRequestError
from metering.models import ApiKey, AuditEntry, Business, ChangeVersion
from metering.selectors.access import load_access
from metering.services.keys import create_key, revoke_key, rotate_key
from scheduler.gateway.callers import authenticate
from scheduler.gateway.credentials import CredentialVerifier
from scheduler.gateway.errors import GatewayError
from scheduler.gateway.incoming import Incoming

pytestmark = pytest.mark.django_db


@pytest.fixture
def business() -> Business:
    return Business.objects.create(name="risk-audit", ceiling="P0")


def version() -> int:
    return ChangeVersion.objects.get(topic="access").version


def works(secret: str) -> bool:
    return digest(secret, settings.FAIRLANE_KEY_PEPPER) in load_access().keys


def test_a_digest_depends_on_key_and_pepper() -> None:
    assert len(digest("fl_live_x", b"pepper")) == 32
    assert digest("fl_live_x", b"pepper") == digest("fl_live_x", b"pepper")
    assert digest("fl_live_x", b"pepper") != digest("fl_live_y", b"pepper")
    assert digest("fl_live_x", b"pepper") != digest("fl_live_x", b"salt")
    assert len(digest("\udcff", b"pepper")) == 32


def test_a_key_is_shown_once_and_kept_as_a_keyed_hash(business: Business) -> None:
    row, secret = create_key(business, " app ", actor=None, source="command line")
    assert secret.startswith(KEY_PREFIX)
    assert secret.removeprefix(KEY_PREFIX).isalnum()
    assert len(secret) >= 48
    assert row.prefix == prefix_of(secret) == secret[:12]
    assert row.name == "app"
    assert bytes(row.digest) == digest(secret, settings.FAIRLANE_KEY_PEPPER)
    everything = serializers.serialize("json", [*ApiKey.objects.all(), *AuditEntry.objects.all()])
    assert secret not in everything
    assert secret[12:20] not in everything


def test_the_pepper_is_not_the_secret_key() -> None:
    assert settings.SECRET_KEY.encode() != settings.FAIRLANE_KEY_PEPPER


def test_no_two_keys_are_alike(business: Business) -> None:
    assert len({create_key(business, "x", actor=None)[1] for _ in range(50)}) == 50


def test_a_new_key_works_with_its_ceiling(business: Business) -> None:
    _, secret = create_key(business, "app", actor=None, ceiling="P2")
    snapshot = load_access()
    facts = snapshot.keys[digest(secret, settings.FAIRLANE_KEY_PEPPER)]
    assert (facts.business, facts.ceiling, facts.expires) == ("risk-audit", 2, None)
    assert snapshot.version == version() == 1


def test_an_expiry_is_in_the_snapshot_to_the_microsecond(business: Business) -> None:
    end = timezone.now() + timedelta(days=1)
    _, secret = create_key(business, "app", actor=None, expires_at=end)
    facts = load_access().keys[digest(secret, settings.FAIRLANE_KEY_PEPPER)]
    assert facts.expires is not None
    assert facts.expires == int(end.timestamp()) * 10**9 + end.microsecond * 1000


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("", {}),
        ("   ", {}),
        ("x" * 81, {}),
        ("x", {"ceiling": "P9"}),
        ("x", {"expires_at": timezone.now() - timedelta(seconds=1)}),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(
    business: Business, name: str, wrong: dict[str, str]
) -> None:
    with pytest.raises(KeyRequestError) as refused:
        create_key(business, name, actor=None, **wrong)  # type: ignore[arg-type]
    assert refused.value.status == 400
    assert not ApiKey.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_revoked_key_stops_for_good(business: Business) -> None:
    row, secret = create_key(business, "app", actor=None)
    assert works(secret)
    revoke_key(row, actor=None)
    assert not works(secret)
    first = row.revoked_at
    seen = version()
    revoke_key(ApiKey.objects.get(), actor=None)
    assert ApiKey.objects.get().revoked_at == first
    assert version() == seen
    assert AuditEntry.objects.filter(action="key.revoke").count() == 1


def test_a_key_leaves_the_snapshot_days_after_its_end(business: Business) -> None:
    """Each call is held against the clock of its moment, which may be set back by then."""
    row, secret = create_key(business, "app", actor=None)
    ended = timezone.now() - timedelta(hours=25)
    ApiKey.objects.filter(pk=row.pk).update(expires_at=ended)
    access = load_access()
    incoming = Incoming(authorization=f"Bearer {secret}")
    for late, valid in ((-timedelta(seconds=1), True), (timedelta(0), False)):
        wall = round((ended + late).timestamp() * 1e6) * 1000
        with nullcontext() if valid else pytest.raises(GatewayError):
            authenticate(incoming, access, settings.FAIRLANE_KEY_PEPPER, wall, CredentialVerifier())
    ApiKey.objects.filter(pk=row.pk).update(expires_at=timezone.now() - timedelta(days=3))
    assert not works(secret)


def test_a_rotated_key_works_on_for_the_overlap(business: Business) -> None:
    old, old_secret = create_key(business, "app", actor=None, ceiling="P1")
    new, new_secret = rotate_key(old, overlap=timedelta(hours=1), actor=None)
    assert works(old_secret)
    assert works(new_secret)
    assert old.expires_at is not None
    assert timedelta(minutes=59) < old.expires_at - timezone.now() <= timedelta(hours=1)
    assert (new.name, new.ceiling, new.expires_at) == ("app", "P1", None)


def test_rotating_without_overlap_ends_the_old_one(business: Business) -> None:
    old, old_secret = create_key(business, "app", actor=None)
    _, new_secret = rotate_key(old, overlap=timedelta(0), actor=None)
    assert not works(old_secret)
    assert works(new_secret)
    with pytest.raises(KeyRequestError):
        rotate_key(old, overlap=timedelta(0), actor=None)


def test_an_overlap_never_lengthens_a_life(business: Business) -> None:
    end = timezone.now() + timedelta(minutes=5)
    old, _ = create_key(business, "app", actor=None, expires_at=end)
    rotate_key(old, overlap=timedelta(days=1), actor=None)
    assert old.expires_at == end


def test_every_change_is_audited_with_who_and_what(business: Business) -> None:
    person = get_user_model().objects.create_user("olga", password="x")
    row, _ = create_key(business, "app", actor=person)
    successor, _ = rotate_key(row, overlap=timedelta(hours=1), actor=person)
    revoke_key(successor, actor=None, source="command line")
    trail = list(AuditEntry.objects.order_by("pk"))
    assert [(entry.action, entry.actor, entry.source) for entry in trail] == [
        ("key.create", person, "console"),
        ("key.rotate", person, "console"),
        ("key.revoke", None, "command line"),
    ]
    assert {entry.business for entry in trail} == {"risk-audit"}
    assert trail[1].data["successor"] == successor.prefix
    assert version() == 3


def test_keys_of_a_suspended_business_stay_known(business: Business) -> None:
    _, secret = create_key(business, "app", actor=None)
    Business.objects.update(suspended_at=timezone.now())
    assert works(secret)
    assert load_access().businesses["risk-audit"].suspended


def test_no_key_and_no_hash_in_what_is_written(
    business: Business, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    row, secret = create_key(business, "app", actor=None)
    rotate_key(row, overlap=timedelta(0), actor=None)
    snapshot = load_access()
    kept = digest(secret, settings.FAIRLANE_KEY_PEPPER)
    written = [
        caplog.text,
        json.dumps(list(AuditEntry.objects.values()), default=str),
        repr(snapshot),
        repr(next(iter(snapshot.keys.values()))),
        repr(row),
        str(row),
    ]
    for text in written:
        assert secret not in text
        assert secret[12:] not in text
        assert kept.hex() not in text
        assert repr(kept)[2:-1] not in text
