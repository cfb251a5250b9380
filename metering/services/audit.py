"""The one way into the audit trail."""

from django.contrib.auth.base_user import AbstractBaseUser

from metering.models import AuditEntry


def record(
    action: str,
    *,
    actor: AbstractBaseUser | None,
    source: str,
    business: str = "",
    target: str = "",
    **data: object,
) -> AuditEntry:
    """Append one entry, in the caller's transaction.

    ``data`` must be JSON's own types and never hold a key, digest or token.
    """
    return AuditEntry.objects.create(
        actor_id=None if actor is None else actor.pk,
        source=source,
        action=action,
        business=business,
        target=target[:200],
        data=data,
    )
