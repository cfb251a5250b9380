"""Who belongs to a business. There is always an owner left."""

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction

from metering.errors import MemberRequestError
from metering.models import Business, Membership
from metering.services import audit


def add_member(
    business: Business,
    person: AbstractBaseUser,
    role: str,
    *,
    actor: AbstractBaseUser | None,
    source: str = "console",
) -> Membership:
    """Let ``person`` belong to the business. Raises MemberRequestError for one who does."""
    _check(role)
    with transaction.atomic():
        _lock(business)
        row, made = Membership.objects.get_or_create(
            business=business, user_id=person.pk, defaults={"role": role}
        )
        if not made:
            raise MemberRequestError("this person belongs to the business already")
        _record("member.add", row, actor, source)
    return row


def change_member(
    member: Membership, role: str, *, actor: AbstractBaseUser | None, source: str = "console"
) -> None:
    """Give a member another role. Raises MemberRequestError for the last owner."""
    _check(role)
    with transaction.atomic():
        _lock(member.business)
        if role != Membership.Role.OWNER:
            _keep_an_owner(member)
        Membership.objects.filter(pk=member.pk).update(role=role)
        member.role = role
        _record("member.change", member, actor, source)


def remove_member(
    member: Membership, *, actor: AbstractBaseUser | None, source: str = "console"
) -> None:
    """End a membership. Raises MemberRequestError for the last owner."""
    with transaction.atomic():
        _lock(member.business)
        _keep_an_owner(member)
        _record("member.remove", member, actor, source)
        member.delete()


def _keep_an_owner(member: Membership) -> None:
    others = Membership.objects.filter(business=member.business, role=Membership.Role.OWNER)
    if not others.exclude(pk=member.pk).exists():
        raise MemberRequestError("a business needs at least one owner")


def _lock(business: Business) -> None:
    """Two owners who remove each other at once must not both succeed."""
    Business.objects.select_for_update(no_key=True).get(pk=business.pk)


def _check(role: str) -> None:
    if role not in Membership.Role.values:
        raise MemberRequestError("there is no such role")


def _record(action: str, row: Membership, actor: AbstractBaseUser | None, source: str) -> None:
    audit.record(
        action,
        actor=actor,
        source=source,
        business=row.business.name,
        target=row.user.get_username(),
        role=row.role,
    )
