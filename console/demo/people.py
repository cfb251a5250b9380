"""One sign-in per role."""

import secrets
from collections.abc import Mapping

from console.models import User
from metering.models import Business, Membership

from .record import Login

# Without look-alikes, since people type them.
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


def make_people(home: str) -> dict[str, Login]:
    """Make (or give a new password to) the user of each role; the owner's business is ``home``.

    Runs in the caller's transaction.
    """
    logins = {}
    for role in User.Role:
        password = "-".join(_word() for _ in range(4))
        user, _ = User.objects.get_or_create(username=role.value)
        user.role = role
        user.is_staff = user.is_superuser = role == User.Role.ADMIN
        user.is_active = True
        user.set_password(password)
        user.save()
        logins[role.value] = Login(username=user.username, password=password)
    Membership.objects.update_or_create(
        user=User.objects.get(username=User.Role.OWNER.value),
        business=Business.objects.get(name=home),
        defaults={"role": Membership.Role.OWNER},
    )
    return logins


def known_people(logins: Mapping[str, Login]) -> bool:
    """Whether this database has all of these users, whatever their passwords are by now."""
    names = {login.username for login in logins.values()}
    found = User.objects.filter(username__in=names).count()
    return set(logins) == set(User.Role.values) and found == len(names)


def _word() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))
