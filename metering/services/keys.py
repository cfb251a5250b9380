"""Making, replacing and withdrawing API keys."""

import secrets
import string
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from metering.core.keys import KEY_PREFIX, digest, prefix_of
from metering.errors import KeyRequestError
from metering.models import ApiKey, Business, ChangeVersion, Lane
from metering.services import audit
from metering.services.changes import announce

# Letters and digits alone, so that a double click selects the whole key: 43 of them carry
# 256 bits.
_ALPHABET = string.ascii_letters + string.digits
_LENGTH = 43


def create_key(
    business: Business,
    name: str,
    *,
    actor: AbstractBaseUser | None,
    source: str = "console",
    ceiling: str = "",
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """Make a key of ``business``; returns its row and the key itself, which nothing keeps.

    ``ceiling`` is a lane, or empty for the business's own. Raises KeyRequestError for a name that
    is empty or over 80 characters, an unknown lane or an expiry in the past.
    """
    name = name.strip()
    if not name or len(name) > 80:
        raise KeyRequestError("a key's name has 1 to 80 characters")
    if ceiling and ceiling not in Lane.values:
        raise KeyRequestError(f"ceiling must be one of {', '.join(Lane.values)}")
    if expires_at is not None and expires_at <= timezone.now():
        raise KeyRequestError("the expiry lies in the past")
    with transaction.atomic():
        row, secret = _insert(business, name, actor, ceiling, expires_at)
        audit.record(
            "key.create",
            actor=actor,
            source=source,
            business=business.name,
            target=row.prefix,
            name=name,
            ceiling=ceiling,
            expires_at=None if expires_at is None else expires_at.isoformat(),
        )
        announce(ChangeVersion.Topic.ACCESS)
    return row, secret


def revoke_key(key: ApiKey, *, actor: AbstractBaseUser | None, source: str = "console") -> None:
    """Withdraw ``key`` for good, everywhere within 2 s. A key already revoked stays as it is."""
    with transaction.atomic():
        now = timezone.now()
        if not ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
            key.refresh_from_db(fields=["revoked_at"])
            return
        key.revoked_at = now
        audit.record(
            "key.revoke",
            actor=actor,
            source=source,
            business=key.business.name,
            target=key.prefix,
            name=key.name,
        )
        announce(ChangeVersion.Topic.ACCESS)


def rotate_key(
    key: ApiKey,
    *,
    overlap: timedelta,
    actor: AbstractBaseUser | None,
    source: str = "console",
) -> tuple[ApiKey, str]:
    """Make a successor of ``key``; the old one works on for ``overlap`` (zero: revoked at once).

    An expiry that was nearer than that stays. The successor has the same name and ceiling and
    no expiry. Raises KeyRequestError for a key that is revoked or expired, or a negative overlap.
    """
    if overlap < timedelta(0):
        raise KeyRequestError("the overlap cannot be negative")
    with transaction.atomic():
        held = ApiKey.objects.select_for_update().select_related("business").get(pk=key.pk)
        now = timezone.now()
        expired = held.expires_at is not None and held.expires_at <= now
        if held.revoked_at is not None or expired:
            raise KeyRequestError("only a key that works can be rotated")
        row, secret = _insert(held.business, held.name, actor, held.ceiling, None)
        if overlap:
            end = now + overlap
            held.expires_at = end if held.expires_at is None else min(held.expires_at, end)
        else:
            held.revoked_at = now
        held.save(update_fields=["expires_at", "revoked_at"])
        audit.record(
            "key.rotate",
            actor=actor,
            source=source,
            business=held.business.name,
            target=held.prefix,
            name=held.name,
            successor=row.prefix,
            overlap_s=overlap.total_seconds(),
        )
        announce(ChangeVersion.Topic.ACCESS)
    key.expires_at, key.revoked_at = held.expires_at, held.revoked_at
    return row, secret


def _insert(
    business: Business,
    name: str,
    actor: AbstractBaseUser | None,
    ceiling: str,
    expires_at: datetime | None,
) -> tuple[ApiKey, str]:
    """A new row and its key, in the caller's transaction."""
    secret = KEY_PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))
    row = ApiKey.objects.create(
        business=business,
        name=name,
        prefix=prefix_of(secret),
        digest=digest(secret, settings.FAIRLANE_KEY_PEPPER),
        ceiling=ceiling,
        created_by_id=None if actor is None else actor.pk,
        expires_at=expires_at,
    )
    return row, secret
