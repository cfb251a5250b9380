"""Where a business hears of its budget."""

import secrets

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from metering.errors import BillingRequestError
from metering.models import AlertTarget, Business, Membership
from metering.sealing import WEBHOOKS, seal
from metering.services import audit
from metering.webhooks import Permitted, WebhookError, is_public, resolve

MOST = 20
Kind = AlertTarget.Kind


def add_target(
    business: Business,
    kind: str,
    address: str,
    *,
    actor: AbstractBaseUser | None,
    source: str = "console",
    permitted: Permitted = is_public,
) -> tuple[AlertTarget, str]:
    """Add a mail address or webhook; returns it and, for a webhook, the secret that its POSTs
    will be signed with, which is shown once. Raises BillingRequestError for an address that is
    none, is there already or is not on the public internet. Resolves names, so it may block."""
    address = address.strip()
    if kind not in Kind.values:
        raise BillingRequestError("a target is mail or webhook")
    secret = _check(kind, address, permitted)
    with transaction.atomic():
        # One at a time for a business, so that two make neither one too many nor two alike.
        Business.objects.select_for_update().get(pk=business.pk)
        held = AlertTarget.objects.filter(business=business)
        if held.filter(kind=kind, address=address).exists():
            raise BillingRequestError("this address is there already")
        if held.count() >= MOST:
            raise BillingRequestError(f"a business has at most {MOST} addresses for alerts")
        sealed = seal(secret.encode(), settings.FAIRLANE_KEY_PEPPER, WEBHOOKS) if secret else b""
        target = AlertTarget.objects.create(
            business=business, kind=kind, address=address, sealed=sealed
        )
        audit.record(
            "alerts.add",
            actor=actor,
            source=source,
            business=business.name,
            target=address,
            kind=kind,
        )
    return target, secret


def remove_target(
    target: AlertTarget, *, actor: AbstractBaseUser | None, source: str = "console"
) -> None:
    """Send nothing more there."""
    with transaction.atomic():
        audit.record(
            "alerts.remove",
            actor=actor,
            source=source,
            business=target.business.name,
            target=target.address,
            kind=target.kind,
        )
        target.delete()


def addresses(business: str) -> set[tuple[str, str]]:
    """Kind and address of everywhere that alerts of a business go: what was added, and the mail
    addresses of its owners. No mail where there is no mail server."""
    found = {
        (target.kind, target.address)
        for target in AlertTarget.objects.filter(business__name=business)
    }
    owners = Membership.objects.filter(
        business__name=business, role=Membership.Role.OWNER, user__is_active=True
    ).values_list("user__email", flat=True)
    found.update((Kind.MAIL.value, str(email)) for email in owners if email)
    if not settings.SMTP_URL:
        found = {(kind, address) for kind, address in found if kind != Kind.MAIL}
    return found


def _check(kind: str, address: str, permitted: Permitted) -> str:
    """The new secret of a webhook, or nothing for mail."""
    if kind == Kind.MAIL:
        try:
            validate_email(address)
        except ValidationError:
            raise BillingRequestError("this is no mail address") from None
        return ""
    try:
        resolve(address, permitted)
    except WebhookError as error:
        raise BillingRequestError(str(error)) from None
    return secrets.token_urlsafe(32)
