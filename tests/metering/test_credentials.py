"""Tier credentials: signed, narrowed, revoked with their descendants, verified offline."""

import json
import threading
from datetime import timedelta

import jwt
import pytest
from django.conf import settings
from django.core import serializers
from django.db import connection, transaction
from django.utils import timezone

from metering.core.credentials import AUDIENCE, ISSUER, jwks, key_id
from metering.core.facts import Rates
from metering.errors import CredentialRequestError
from metering.models import AuditEntry, Business, ChangeVersion, SigningKey, TierCredential
from metering.selectors.access import load_access
from metering.services.credentials import (
    MOST_GENERATIONS,
    issue_credential,
    narrow_credential,
    revoke_credential,
    rotate_signing_key,
)
from metering.signing import UnreadableKeyError, new_key, opened

from .helpers import wait_until

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
SECOND = 1_000_000_000


@pytest.fixture
def business() -> Business:
    return Business.objects.create(name="risk-audit", grade="premium", ceiling="P0")


@pytest.fixture
def root(business: Business) -> TierCredential:
    return issue_credential(
        business, actor=None, lifetime=DAY, grade="premium", ceiling="P1", models=["chat", "rank"]
    )[0]


def version() -> int:
    return ChangeVersion.objects.get(topic="access").version


def offline(token: str, document: str) -> dict[str, object]:
    """What somebody does who knows PyJWT and the published document, and nothing of us."""
    kid = jwt.get_unverified_header(token)["kid"]
    key = jwt.PyJWKSet.from_json(document)[kid]
    return jwt.decode(
        token, key, algorithms=["EdDSA"], audience="fairlane-gateway", issuer="fairlane"
    )


def document() -> str:
    return json.dumps(jwks(load_access().signing_keys))


def test_anyone_can_verify_with_the_published_keys_alone(business: Business) -> None:
    row, token = issue_credential(
        business, actor=None, lifetime=DAY, grade="vip", ceiling="P1", models=["chat"], svc="risk"
    )
    said = offline(token, document())
    assert said == {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "risk-audit",
        "grade": "vip",
        "ceiling": "P1",
        "models": ["chat"],
        "svc": "risk",
        "iat": int(row.issued_at.timestamp()),
        "nbf": int(row.not_before.timestamp()),
        "exp": int(row.expires_at.timestamp()),
        "jti": str(row.jti),
        "parent": None,
    }
    assert row.expires_at - row.not_before == DAY
    header = jwt.get_unverified_header(token)
    assert header == {"alg": "EdDSA", "typ": "JWT", "kid": SigningKey.objects.get().kid}
    with pytest.raises(jwt.InvalidSignatureError):
        offline(token[:-8] + "AAAAAAAA", document())


def test_what_is_left_out_is_the_business_s_own(business: Business) -> None:
    business.models = ["chat"]
    business.save()
    row, _ = issue_credential(business, actor=None, lifetime=DAY)
    assert (row.grade, row.ceiling, row.models, row.svc) == ("premium", "P0", ["chat"], "")


def test_the_snapshot_has_what_works(business: Business) -> None:
    rates = Rates(requests_per_s=2.5, tokens_per_min=0)
    row, _ = issue_credential(business, actor=None, lifetime=DAY, ceiling="P2", rates=rates)
    child, _ = narrow_credential(row, actor=None, models=["chat"])
    access = load_access()
    assert access.version == version() == 2
    facts = access.credentials[str(row.jti)]
    assert (facts.business, facts.grade, facts.ceiling, facts.models) == (
        "risk-audit",
        "premium",
        2,
        None,
    )
    assert facts.expires == int(row.expires_at.timestamp()) * SECOND
    assert facts.not_before == int(row.not_before.timestamp()) * SECOND
    assert facts.rates == rates
    below = access.credentials[str(child.jti)]
    assert (below.parent, below.models, below.rates) == (
        str(row.jti),
        frozenset({"chat"}),
        Rates(),
    )
    TierCredential.objects.update(expires_at=timezone.now() - timedelta(hours=47))
    # Each call is held against the clock of its moment, which may be set back by then.
    assert load_access().credentials.keys() == access.credentials.keys()
    TierCredential.objects.update(expires_at=timezone.now() - timedelta(hours=49))
    assert not load_access().credentials


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"grade": "gold"}, "grade must be one of"),
        ({"ceiling": "P7"}, "ceiling must be one of"),
        ({"lifetime": timedelta(0)}, "lifetime"),
        ({"lifetime": timedelta(days=367)}, "lifetime"),
        ({"models": [""]}, "models"),
        ({"svc": "x" * 81}, "svc"),
        ({"rates": Rates(requests_per_s=-1)}, "negative"),
    ],
)
def test_nonsense_is_refused(business: Business, asked: dict[str, object], problem: str) -> None:
    with pytest.raises(CredentialRequestError, match=problem):
        issue_credential(business, actor=None, **{"lifetime": DAY, **asked})  # type: ignore[arg-type]
    assert not TierCredential.objects.exists()
    assert not AuditEntry.objects.exists()


def test_none_is_issued_above_its_business(business: Business) -> None:
    business.ceiling, business.models = "P1", ["chat"]
    business.save()
    with pytest.raises(CredentialRequestError, match="P1 at best"):
        issue_credential(business, actor=None, lifetime=DAY, ceiling="P0")
    with pytest.raises(CredentialRequestError, match="not the business's: rank"):
        issue_credential(business, actor=None, lifetime=DAY, models=["rank"])


def test_a_child_is_a_subset(root: TierCredential) -> None:
    child, token = narrow_credential(
        root,
        actor=None,
        grade="basic",
        ceiling="P2",
        models=["chat"],
        svc="batch",
        lifetime=timedelta(hours=1),
    )
    said = offline(token, document())
    assert said["parent"] == str(root.jti)
    assert (said["grade"], said["ceiling"], said["models"]) == ("basic", "P2", ["chat"])
    assert child.parent == root
    assert child.expires_at <= root.expires_at
    inherited, _ = narrow_credential(child, actor=None)
    assert (inherited.grade, inherited.ceiling, inherited.models, inherited.svc) == (
        "basic",
        "P2",
        ["chat"],
        "batch",
    )
    assert inherited.expires_at == child.expires_at


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"grade": "vip"}, "grade vip is above premium"),
        ({"ceiling": "P0"}, "ceiling P0 is above P1"),
        ({"models": ["chat", "other"]}, "not the parent's models: other"),
        ({"lifetime": timedelta(days=2)}, "outlive"),
    ],
)
def test_a_child_has_nothing_more(
    root: TierCredential, asked: dict[str, object], problem: str
) -> None:
    with pytest.raises(CredentialRequestError, match=problem):
        narrow_credential(root, actor=None, **asked)  # type: ignore[arg-type]
    assert TierCredential.objects.count() == 1


def test_a_child_keeps_its_parent_s_service_and_beginning(business: Business) -> None:
    later = timezone.now() + timedelta(hours=1)
    parent, _ = issue_credential(business, actor=None, lifetime=DAY, svc="risk", not_before=later)
    with pytest.raises(CredentialRequestError, match="service risk alone"):
        narrow_credential(parent, actor=None, svc="other")
    child, _ = narrow_credential(parent, actor=None)
    assert child.not_before == parent.not_before


def test_only_what_works_can_be_narrowed(root: TierCredential) -> None:
    revoke_credential(root, actor=None)
    with pytest.raises(CredentialRequestError, match="works"):
        narrow_credential(root, actor=None)
    past = timezone.now().replace(microsecond=0)
    TierCredential.objects.update(revoked_at=None, expires_at=past)
    with pytest.raises(CredentialRequestError, match="works"):
        narrow_credential(root, actor=None)


def test_generations_are_bounded(root: TierCredential) -> None:
    row = root
    for _ in range(MOST_GENERATIONS - 1):
        row, _ = narrow_credential(row, actor=None)
    with pytest.raises(CredentialRequestError, match="too often"):
        narrow_credential(row, actor=None)


def test_revoking_takes_the_descendants_along(business: Business, root: TierCredential) -> None:
    other, _ = issue_credential(business, actor=None, lifetime=DAY)
    child, _ = narrow_credential(root, actor=None)
    sibling, _ = narrow_credential(root, actor=None)
    grandchild, _ = narrow_credential(child, actor=None)
    before = version()
    assert revoke_credential(child, actor=None) == 2
    assert version() == before + 1
    assert set(load_access().credentials) == {str(x.jti) for x in (root, sibling, other)}
    assert revoke_credential(root, actor=None) == 2
    assert set(load_access().credentials) == {str(other.jti)}
    assert revoke_credential(grandchild, actor=None) == 0
    assert version() == before + 2
    assert root.revoked_at is not None
    entry = AuditEntry.objects.filter(action="credential.revoke").first()
    assert entry is not None
    assert (entry.business, entry.target, entry.data) == (
        "risk-audit",
        str(root.jti),
        {"revoked": 2},
    )


def test_a_rotated_key_still_verifies_and_signs_no_more(root: TierCredential) -> None:
    old = SigningKey.objects.get()
    token = narrow_credential(root, actor=None)[1]
    new = rotate_signing_key(actor=None)
    old.refresh_from_db()
    assert (old.status, bytes(old.sealed), new.status) == ("retired", b"", "active")
    assert old.retired_at is not None
    assert offline(token, document())["parent"] == str(root.jti)
    later = narrow_credential(root, actor=None)[1]
    assert jwt.get_unverified_header(later)["kid"] == new.kid != old.kid
    assert set(load_access().signing_keys) == {old.kid, new.kid}
    # Nothing that works is signed by it any more: no need to trust it.
    revoke_credential(root, actor=None)
    assert set(load_access().signing_keys) == {new.kid}


def test_the_private_key_lies_sealed(root: TierCredential) -> None:
    key = SigningKey.objects.get()
    private = opened(key.kid, bytes(key.sealed), settings.FAIRLANE_KEY_PEPPER)
    assert private.public_key().public_bytes_raw() == bytes(key.public)
    assert key.kid == key_id(bytes(key.public))
    assert private.private_bytes_raw() not in bytes(key.sealed)
    with pytest.raises(UnreadableKeyError):
        opened(key.kid, bytes(key.sealed), settings.SECRET_KEY.encode())
    other = new_key(settings.FAIRLANE_KEY_PEPPER)[0]
    with pytest.raises(UnreadableKeyError):
        opened(other, bytes(key.sealed), settings.FAIRLANE_KEY_PEPPER)
    with pytest.raises(UnreadableKeyError):
        opened(key.kid, b"", settings.FAIRLANE_KEY_PEPPER)


def test_another_pepper_is_named_and_a_rotation_mends_it(
    root: TierCredential, business: Business, settings: object
) -> None:
    settings.FAIRLANE_KEY_PEPPER = b"another"  # type: ignore[attr-defined]
    with pytest.raises(CredentialRequestError, match="FAIRLANE_KEY_PEPPER: rotate"):
        issue_credential(business, actor=None, lifetime=DAY)
    rotate_signing_key(actor=None)
    assert issue_credential(business, actor=None, lifetime=DAY)[1]


def test_tokens_and_private_keys_are_written_nowhere(business: Business) -> None:
    row, token = issue_credential(business, actor=None, lifetime=DAY)
    child, narrower = narrow_credential(row, actor=None)
    rotate_signing_key(actor=None)
    rows = [*TierCredential.objects.all(), *SigningKey.objects.all(), *AuditEntry.objects.all()]
    everything = serializers.serialize("json", rows)
    for secret in (token, narrower):
        assert secret not in everything
        assert secret.rpartition(".")[2] not in everything
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions == ["credential.issue", "credential.narrow", "signing_key.rotate"]
    assert AuditEntry.objects.get(action="credential.narrow").data["parent"] == str(row.jti)
    assert child.parent == row


def test_a_thumbprint_is_as_the_standard_has_it() -> None:
    # The key and its thumbprint in RFC 8037, appendix A.
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert key_id(public) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.django_db(transaction=True)
def test_no_child_is_born_while_its_parent_is_revoked() -> None:
    business = Business.objects.create(name="risk-audit", ceiling="P0")
    root, _ = issue_credential(business, actor=None, lifetime=DAY)
    child, _ = narrow_credential(root, actor=None)
    revoked: list[int] = []

    def revoke() -> None:
        try:
            revoked.append(revoke_credential(root, actor=None))
        finally:
            connection.close()

    thread = threading.Thread(target=revoke)
    with transaction.atomic():
        narrow_credential(child, actor=None)
        thread.start()
        wait_until(waiting_for_a_lock)
    thread.join(10)
    assert revoked == [3]
    assert not load_access().credentials


def waiting_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        row = cursor.fetchone()
    return bool(row and row[0])
