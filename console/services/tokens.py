"""Management tokens: made, withdrawn, recognised."""

import secrets
import string
from collections.abc import Collection, Iterable
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from console.models import ManagementToken, User
from metering.core.keys import digest
from metering.errors import RefusedError
from metering.services import audit

PREFIX = "fl_mgmt_"
SHOWN = len(PREFIX) + 4
LONGEST = timedelta(days=366)
# How exact "last used" is: a program that asks all day should not write all day.
USED_EVERY = timedelta(minutes=1)
_ALPHABET = string.ascii_letters + string.digits
_LENGTH = 43


class TokenRequestError(RefusedError):
    """A management token that cannot be made as asked."""

    code = "invalid_token_request"


def create_token(
    user: User,
    name: str,
    *,
    scopes: Iterable[str],
    allowed: Collection[str],
    lifetime: timedelta,
) -> tuple[ManagementToken, str]:
    """A token of ``user`` and its secret, which nothing keeps.

    ``allowed`` are the scopes that the person's role has. Raises TokenRequestError for a name that
    is empty or over 80 characters, no scope, one beyond those, or a lifetime over a year.
    """
    name, wanted = name.strip(), sorted(set(scopes))
    if not name or len(name) > 80:
        raise TokenRequestError(_("A token's name has 1 to 80 characters."))
    if not wanted or not set(wanted) <= set(allowed):
        raise TokenRequestError(_("Choose what the token may do, among what you may do."))
    if not timedelta(0) < lifetime <= LONGEST:
        raise TokenRequestError(_("A token lives for a year at most."))
    secret = PREFIX + "".join(secrets.choice(_ALPHABET) for _index in range(_LENGTH))
    with transaction.atomic():
        row = ManagementToken.objects.create(
            user=user,
            name=name,
            prefix=secret[:SHOWN],
            digest=digest(secret, settings.FAIRLANE_KEY_PEPPER),
            scopes=wanted,
            expires_at=timezone.now() + lifetime,
        )
        audit.record(
            "token.create",
            actor=user,
            source="console",
            target=row.prefix,
            name=name,
            scopes=wanted,
            expires_at=row.expires_at.isoformat(),
        )
    return row, secret


def revoke_token(token: ManagementToken, *, actor: User) -> None:
    """Withdraw the token for good; one that is withdrawn already stays as it is."""
    with transaction.atomic():
        now = timezone.now()
        if not ManagementToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            return
        audit.record(
            "token.revoke", actor=actor, source="console", target=token.prefix, name=token.name
        )


def find_token(secret: str) -> ManagementToken | None:
    """The token that works and is this one; its holder's account must be active, too."""
    if not secret.startswith(PREFIX):
        return None
    now = timezone.now()
    token = (
        ManagementToken.objects.select_related("user")
        .filter(
            digest=digest(secret, settings.FAIRLANE_KEY_PEPPER),
            revoked_at=None,
            expires_at__gt=now,
            user__is_active=True,
        )
        .first()
    )
    if token is not None:
        stale = Q(last_used_at=None) | Q(last_used_at__lt=now - USED_EVERY)
        ManagementToken.objects.filter(stale, pk=token.pk).update(last_used_at=now)
    return token
