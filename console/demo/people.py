"""One sign-in per role."""

import secrets
from collections.abc import Mapping, Sequence
from itertools import chain, count

from console.models import User
from metering.models import Business, Membership

from .marks import mark, own
from .record import Login

# Without look-alikes, since people type them.
_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


def make_people(homes: Sequence[str]) -> dict[str, Login]:
    """Make (or give a new password to) the user of each role; the owner's business is the first of
    ``homes`` that is the demo's. Who has a role's name and is somebody else stays as they are.

    Runs in the caller's transaction.
    """
    logins = {}
    for role in User.Role:
        password = "-".join(_word() for _ in range(4))
        user, _ = User.objects.get_or_create(username=_free_name(role.value))
        user.role = role
        user.is_staff = user.is_superuser = role == User.Role.ADMIN
        user.is_active = True
        user.set_password(password)
        user.save()
        logins[role.value] = Login(username=user.username, password=password)
        mark(User, [user.username])
    ours = own(Business)
    home = next((name for name in homes if name in ours), None)
    if home is not None:
        Membership.objects.update_or_create(
            user=User.objects.get(username=logins[User.Role.OWNER.value].username),
            business=Business.objects.get(name=home),
            defaults={"role": Membership.Role.OWNER},
        )
    return logins


def known_people(logins: Mapping[str, Login]) -> bool:
    """Whether all of these are users whom the demo has made here, whatever their passwords are by
    now."""
    names = {login.username for login in logins.values()}
    return set(logins) == set(User.Role.values) and names <= own(User)


def _free_name(role: str) -> str:
    """The role's own name, or another where somebody else has it."""
    ours = own(User)
    names = chain((role, f"demo-{role}"), (f"demo-{role}-{number}" for number in count(2)))
    return next(n for n in names if n in ours or not User.objects.filter(username=n).exists())


def _word() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))
