"""What operations set of a business: its grade and ceiling, and whether it may call at all."""

from collections.abc import Mapping

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from metering.models import Business, ChangeVersion
from metering.services import audit
from metering.services.changes import announce

# What may be changed here; names and tags are the fleet file's.
PROFILE = (
    "grade",
    "ceiling",
    "realtime",
    "offline",
    "billing_sla",
    "weight",
    "latency_budget_ms",
    "degrade",
)


@transaction.atomic
def set_profile(
    business: Business,
    changes: Mapping[str, object],
    *,
    actor: AbstractBaseUser | None,
    source: str = "console",
) -> Business:
    """Change fields of ``PROFILE``; what is as it was counts as no change. Running gateways
    follow within 2 s of the commit. Raises django's ValidationError for values that no field
    takes."""
    row = Business.objects.select_for_update().get(pk=business.pk)
    found = {
        name: value
        for name, value in changes.items()
        if name in PROFILE and getattr(row, name) != value
    }
    if not found:
        return row
    before = {name: getattr(row, name) for name in found}
    for name, value in found.items():
        setattr(row, name, value)
    row.full_clean(validate_unique=False, validate_constraints=False)
    row.save(update_fields=list(found))
    audit.record(
        "business.change",
        actor=actor,
        source=source,
        business=row.name,
        target=row.name,
        before=before,
        after=dict(found),
    )
    announce(ChangeVersion.Topic.ACCESS)
    return row


@transaction.atomic
def suspend(
    business: Business,
    *,
    on: bool,
    reason: str,
    actor: AbstractBaseUser | None,
    source: str = "console",
) -> Business:
    """Refuse all of a business's requests (``on``), or let them in again."""
    row = Business.objects.select_for_update().get(pk=business.pk)
    if (row.suspended_at is not None) is on:
        return row
    row.suspended_at = timezone.now() if on else None
    row.save(update_fields=["suspended_at"])
    audit.record(
        "business.suspend" if on else "business.resume",
        actor=actor,
        source=source,
        business=row.name,
        target=row.name,
        reason=reason,
    )
    announce(ChangeVersion.Topic.ACCESS)
    return row
