"""Issuing, narrowing and revoking tier credentials, and changing the key that signs them.

Operations issue credentials of any grade, owners up to their business's; owners narrow what
they hold. Tokens are returned once and kept nowhere.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

import jwt
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import connection, transaction
from django.utils import timezone

from metering.core.credentials import ALGORITHM, Terms, claims, excess
from metering.core.facts import LANES, UNLIMITED, Rates
from metering.errors import CredentialRequestError
from metering.models import (
    Business,
    ChangeVersion,
    CredentialQuota,
    Grade,
    Lane,
    SigningKey,
    TierCredential,
)
from metering.services import audit
from metering.services.changes import announce
from metering.signing import UnreadableKeyError, new_key, opened

LONGEST = timedelta(days=366)
# Each generation is looked at with every request of the youngest.
MOST_GENERATIONS = 16
MOST_SVC = 80


def issue_credential(
    business: Business,
    *,
    actor: AbstractBaseUser | None,
    lifetime: timedelta,
    source: str = "console",
    grade: str = "",
    ceiling: str = "",
    models: Iterable[str] | None = None,
    svc: str = "",
    not_before: datetime | None = None,
    rates: Rates = UNLIMITED,
    operations: bool = True,
) -> tuple[TierCredential, str]:
    """A credential of ``business`` and its token, which nothing keeps.

    What is left empty is the business's own; ``models`` None is every model. ``lifetime``
    counts from ``not_before``, or from now. Only ``operations`` may grant a better grade than
    the business has. Raises CredentialRequestError.
    """
    now = _whole(timezone.now())
    start = now if not_before is None else _whole(not_before)
    terms = Terms(
        grade=_one_of(grade or business.grade, Grade.values, "grade"),
        ceiling=LANES.index(_one_of(ceiling or business.ceiling, Lane.values, "ceiling")),
        models=_models(models, business.models),
        svc=_svc(svc),
        not_before=_seconds(start),
        expires=_seconds(start + _lifetime(lifetime)),
    )
    if terms.ceiling < LANES.index(business.ceiling):
        raise CredentialRequestError(f"ceiling: {business.name} has {business.ceiling} at best")
    if not operations and Grade.values.index(terms.grade) < Grade.values.index(business.grade):
        raise CredentialRequestError(f"grade: {business.name} has {business.grade}; ask for more")
    with transaction.atomic():
        row, token = _sign(business, terms, None, now=now, actor=actor, rates=rates)
        _record("credential.issue", row, actor, source)
        announce(ChangeVersion.Topic.ACCESS)
    return row, token


def narrow_credential(
    parent: TierCredential,
    *,
    actor: AbstractBaseUser | None,
    source: str = "console",
    grade: str = "",
    ceiling: str = "",
    models: Iterable[str] | None = None,
    svc: str = "",
    lifetime: timedelta | None = None,
    rates: Rates = UNLIMITED,
) -> tuple[TierCredential, str]:
    """A credential that grants a part of what ``parent`` does, and its token.

    What is left empty is the parent's own; ``lifetime`` counts from now. Raises
    CredentialRequestError for anything beyond the parent, or a parent that no longer works.
    """
    now = _whole(timezone.now())
    with transaction.atomic():
        _lock(parent.business)
        held = TierCredential.objects.select_related("business").get(pk=parent.pk)
        if held.revoked_at is not None or held.expires_at <= now:
            raise CredentialRequestError("only a credential that works can be narrowed")
        if _generation(held) >= MOST_GENERATIONS:
            raise CredentialRequestError("it has been narrowed too often already")
        above = _terms(held)
        start = max(now, held.not_before)
        end = held.expires_at if lifetime is None else start + _lifetime(lifetime)
        terms = Terms(
            grade=_one_of(grade or held.grade, Grade.values, "grade"),
            ceiling=LANES.index(_one_of(ceiling or held.ceiling, Lane.values, "ceiling")),
            models=above.models if models is None else _models(models, None),
            svc=_svc(svc) or held.svc,
            not_before=_seconds(start),
            expires=_seconds(end),
        )
        if beyond := excess(terms, above):
            raise CredentialRequestError(beyond)
        row, token = _sign(held.business, terms, held, now=now, actor=actor, rates=rates)
        _record("credential.narrow", row, actor, source)
        announce(ChangeVersion.Topic.ACCESS)
    return row, token


def revoke_credential(
    credential: TierCredential, *, actor: AbstractBaseUser | None, source: str = "console"
) -> int:
    """Withdraw a credential and all that was narrowed from it, everywhere within 2 s.

    Returns how many worked until now; 0 where it was revoked already.
    """
    with transaction.atomic():
        _lock(credential.business)
        family = _with_descendants(credential.pk)
        if not family:
            return 0
        TierCredential.objects.filter(pk__in=family).update(revoked_at=timezone.now())
        audit.record(
            "credential.revoke",
            actor=actor,
            source=source,
            business=credential.business.name,
            target=str(credential.jti),
            revoked=len(family),
        )
        announce(ChangeVersion.Topic.ACCESS)
    credential.refresh_from_db(fields=["revoked_at"])
    return len(family)


def rotate_signing_key(*, actor: AbstractBaseUser | None, source: str = "console") -> SigningKey:
    """Sign with a new key from now on. The one before goes on verifying what it signed, and
    its private half is destroyed."""
    with transaction.atomic():
        _lock_signing()
        before = SigningKey.objects.filter(status=SigningKey.Status.ACTIVE).first()
        if before is not None:
            before.status = SigningKey.Status.RETIRED
            before.sealed = b""
            before.retired_at = timezone.now()
            before.save(update_fields=["status", "sealed", "retired_at"])
        key = _new_signing_key()
        audit.record(
            "signing_key.rotate",
            actor=actor,
            source=source,
            target=key.kid,
            before="" if before is None else before.kid,
        )
        announce(ChangeVersion.Topic.ACCESS)
    return key


def _sign(
    business: Business,
    terms: Terms,
    parent: TierCredential | None,
    *,
    now: datetime,
    actor: AbstractBaseUser | None,
    rates: Rates,
) -> tuple[TierCredential, str]:
    """The row and the token, in the caller's transaction."""
    key = _signing_key()
    try:
        private = opened(key.kid, bytes(key.sealed), settings.FAIRLANE_KEY_PEPPER)
    except UnreadableKeyError:
        raise CredentialRequestError(
            "the signing key was kept under another FAIRLANE_KEY_PEPPER: rotate it"
        ) from None
    row = TierCredential.objects.create(
        business=business,
        parent=parent,
        signing_key=key,
        grade=terms.grade,
        ceiling=LANES[terms.ceiling],
        models=None if terms.models is None else sorted(terms.models),
        svc=terms.svc,
        issued_at=now,
        not_before=datetime.fromtimestamp(terms.not_before, now.tzinfo),
        expires_at=datetime.fromtimestamp(terms.expires, now.tzinfo),
        created_by_id=None if actor is None else actor.pk,
    )
    if rates != UNLIMITED:
        _keep_rates(row, rates)
    said = claims(
        terms,
        business=business.name,
        jti=str(row.jti),
        parent=None if parent is None else str(parent.jti),
        issued=_seconds(now),
    )
    return row, jwt.encode(said, private, algorithm=ALGORITHM, headers={"kid": key.kid})


def _keep_rates(row: TierCredential, rates: Rates) -> None:
    given = (rates.requests_per_s, rates.burst, rates.tokens_per_min)
    if any(limit is not None and limit < 0 for limit in given):
        raise CredentialRequestError("a limit cannot be negative")
    CredentialQuota.objects.create(
        credential=row,
        requests_per_s=rates.requests_per_s,
        burst=rates.burst,
        tokens_per_min=rates.tokens_per_min,
    )


def _signing_key() -> SigningKey:
    """The active key, made on first use."""
    found = SigningKey.objects.filter(status=SigningKey.Status.ACTIVE).first()
    if found is None:
        _lock_signing()
        found = SigningKey.objects.filter(status=SigningKey.Status.ACTIVE).first()
    return found or _new_signing_key()


def _new_signing_key() -> SigningKey:
    kid, public, sealed = new_key(settings.FAIRLANE_KEY_PEPPER)
    return SigningKey.objects.create(kid=kid, public=public, sealed=sealed)


def _lock_signing() -> None:
    """One at a time makes or retires keys: there may be no row yet that could be locked."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('fairlane signing key'))")


def _lock(business: Business) -> None:
    """Revoking and narrowing of one business wait for each other, so that no child is born
    to a parent that is being revoked."""
    Business.objects.select_for_update(no_key=True).get(pk=business.pk)


def _with_descendants(pk: int) -> list[int]:
    """Keys of the rows not yet revoked; what comes from a revoked one is revoked as well."""
    working = TierCredential.objects.filter(revoked_at=None)
    level = list(working.filter(pk=pk).values_list("pk", flat=True))
    found: list[int] = []
    while level:
        found += level
        level = list(working.filter(parent__in=level).values_list("pk", flat=True))
    return found


def _generation(row: TierCredential) -> int:
    """1 for an issued credential, one more for each time it was narrowed."""
    count, above = 1, row.parent
    while above is not None:
        count, above = count + 1, above.parent
    return count


def _terms(row: TierCredential) -> Terms:
    return Terms(
        grade=row.grade,
        ceiling=LANES.index(row.ceiling),
        models=None if row.models is None else frozenset(map(str, row.models)),
        svc=row.svc,
        not_before=_seconds(row.not_before),
        expires=_seconds(row.expires_at),
    )


def _record(action: str, row: TierCredential, actor: AbstractBaseUser | None, source: str) -> None:
    audit.record(
        action,
        actor=actor,
        source=source,
        business=row.business.name,
        target=str(row.jti),
        parent=None if row.parent is None else str(row.parent.jti),
        grade=row.grade,
        ceiling=row.ceiling,
        models=row.models,
        svc=row.svc,
        not_before=row.not_before.isoformat(),
        expires_at=row.expires_at.isoformat(),
    )


def _one_of(value: str, allowed: list[str], what: str) -> str:
    if value not in allowed:
        raise CredentialRequestError(f"{what} must be one of {', '.join(allowed)}")
    return value


def _models(names: Iterable[str] | None, owned: list[str] | None) -> frozenset[str] | None:
    """The models named, or those of the business; None is every model."""
    if names is None:
        return None if owned is None else frozenset(map(str, owned))
    found = frozenset(names)
    if not all(name and len(name) <= 200 for name in found):
        raise CredentialRequestError("models: a name has 1 to 200 characters")
    if owned is not None and (beyond := found - set(map(str, owned))):
        raise CredentialRequestError(f"models: not the business's: {', '.join(sorted(beyond))}")
    return found


def _svc(name: str) -> str:
    name = name.strip()
    if len(name) > MOST_SVC or not name.isprintable():
        raise CredentialRequestError(f"svc has at most {MOST_SVC} printable characters")
    return name


def _lifetime(given: timedelta) -> timedelta:
    if not timedelta(seconds=1) <= given <= LONGEST:
        raise CredentialRequestError(f"the lifetime is 1 second to {LONGEST.days} days")
    return given


def _whole(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
