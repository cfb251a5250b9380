"""Writes of the policy: versions are only ever added, and one at most is active."""

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone

from metering.models import ChangeVersion
from metering.services import audit, changes
from scheduler.core.policy import (
    Policy,
    PolicyError,
    Problem,
    from_stored,
    problems,
    to_document,
)
from scheduler.models import Canary, PolicyVersion
from scheduler.selectors.policy import load_policy as active_policy
from scheduler.selectors.policy import missing_pools

__all__ = [
    "PolicyMovedError",
    "activate",
    "active_policy",
    "import_policy",
    "lock_policy",
    "save_version",
]

# One number for this application's advisory lock; any would do.
POLICY_LOCK = 0x666C_706F_6C69
MOST_REASON = 500


class PolicyMovedError(Exception):
    """Somebody else saved a version meanwhile: ``newest`` is the last one."""

    def __init__(self, newest: PolicyVersion) -> None:
        super().__init__(f"policy {newest.version} was saved meanwhile")
        self.newest = newest


def lock_policy() -> None:
    """Let one transaction at a time change versions or what they depend on, until it ends.

    Also for who removes a pool: a version that names it must not become active meanwhile.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [POLICY_LOCK])


@transaction.atomic
def save_version(
    policy: Policy,
    *,
    author: AbstractBaseUser | None,
    reason: str,
    source: str = "console",
    base: int | None = None,
    seen: int | None = None,
) -> PolicyVersion:
    """Keep a policy as the next version, not active. Numbers have no gaps.

    ``base`` is the version it was made from; ``seen`` the newest that its author knew of.
    Raises PolicyError when the policy breaks its own rules, or the reason is too long, and
    PolicyMovedError when there is a newer one than ``seen``.
    """
    found = problems(policy)
    if len(reason) > MOST_REASON:
        found.append(Problem("reason", f"must be at most {MOST_REASON} characters"))
    if found:
        raise PolicyError(found)
    lock_policy()
    last = PolicyVersion.objects.aggregate(last=Max("version"))["last"] or 0
    if seen is not None and last > seen:
        raise PolicyMovedError(PolicyVersion.objects.select_related("author").get(version=last))
    row = PolicyVersion.objects.create(
        version=last + 1,
        base=base,
        document=to_document(policy),
        author_id=None if author is None else author.pk,
        reason=reason,
    )
    audit.record(
        "policy.save",
        actor=author,
        source=source,
        target=f"policy {row.version}",
        reason=reason,
    )
    return row


@transaction.atomic
def activate(
    version: PolicyVersion,
    *,
    actor: AbstractBaseUser | None,
    reason: str,
    source: str = "console",
) -> PolicyVersion:
    """Make a version the active one; listeners hear of it on commit. A canary that runs ends.

    Raises PolicyError, with nothing changed, when it names a pool that isn't in the fleet
    or is no policy of this release. The active version stays as it is.
    """
    lock_policy()
    row = PolicyVersion.objects.get(pk=version.pk)
    if row.active:
        return row
    found = missing_pools(from_stored(row.document))
    if found:
        raise PolicyError(found)
    _supersede(row, actor, source)
    before = PolicyVersion.objects.filter(active=True).first()
    if before is not None:
        before.active = False
        before.save(update_fields=["active"])
    row.active = True
    row.activated_at = timezone.now()
    row.save(update_fields=["active", "activated_at"])
    audit.record(
        "policy.activate",
        actor=actor,
        source=source,
        target=f"policy {row.version}",
        reason=reason,
        before=0 if before is None else before.version,
    )
    changes.announce(ChangeVersion.Topic.POLICY)
    return row


def _supersede(row: PolicyVersion, actor: AbstractBaseUser | None, source: str) -> None:
    """What was tried against the policy that goes says nothing about the one that comes."""
    for canary in Canary.objects.select_for_update().filter(state=Canary.State.RUNNING):
        canary.state, canary.ended_at = Canary.State.SUPERSEDED, timezone.now()
        canary.save(update_fields=["state", "ended_at"])
        audit.record(
            "canary.end",
            actor=actor,
            source=source,
            target=f"policy {canary.version.version}",
            reason=f"policy {row.version} was activated",
        )


@transaction.atomic
def import_policy(
    policy: Policy,
    *,
    active: bool,
    author: AbstractBaseUser | None,
    reason: str,
    source: str = "console",
) -> PolicyVersion:
    """Save a policy and, with ``active``, activate it: both or neither. Raises PolicyError."""
    row = save_version(policy, author=author, reason=reason, source=source)
    return activate(row, actor=author, reason=reason, source=source) if active else row
