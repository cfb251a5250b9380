"""Who somebody is that the OpenID Connect provider vouches for."""

from collections.abc import Mapping

from django.conf import settings
from django.db import IntegrityError, transaction

from console.models import SignOn, User
from metering.services import audit

MOST_NAME = 150


class SignOnError(Exception):
    """The provider vouches for somebody who may not enter; the text says why."""


def person_of(claims: Mapping[str, object]) -> User:
    """The account behind a verified ID token's claims.

    Found by issuer and subject; the first time by a mail address that the provider has verified
    and one account has. Where ``OIDC_ROLES`` gives roles to groups, others get an account made,
    and everybody's role follows their groups. Raises SignOnError.
    """
    issuer, subject = str(claims["iss"]), str(claims["sub"])
    role = role_of(claims)
    with transaction.atomic():
        known = SignOn.objects.select_related("user").filter(issuer=issuer, subject=subject).first()
        if known is not None:
            user = known.user
        else:
            user = _by_mail(claims) or _made(claims, role)
            try:
                with transaction.atomic():
                    SignOn.objects.create(user=user, issuer=issuer, subject=subject)
            except IntegrityError:
                raise SignOnError("this account belongs to another sign-on") from None
            audit.record("user.sign_on", actor=user, source="console", target=user.username)
        if not user.is_active:
            raise SignOnError("this account is switched off")
        if role is not None and role != user.role:
            _give(user, role)
    return user


def role_of(claims: Mapping[str, object]) -> str | None:
    """The role of the first group in ``OIDC_ROLES`` that the person is in; None where groups give
    none. Raises SignOnError for somebody in none of them."""
    if not settings.OIDC_ROLES:
        return None
    held = claims.get(settings.OIDC_GROUPS_CLAIM)
    groups = {held} if isinstance(held, str) else set(held) if isinstance(held, list) else set()
    for group, role in settings.OIDC_ROLES.items():
        if group in groups:
            return str(role)
    raise SignOnError("your groups give you no role here")


def _by_mail(claims: Mapping[str, object]) -> User | None:
    mail = str(claims.get("email") or "")
    # Whoever may write any address at the provider must not become somebody else here.
    if not mail or claims.get("email_verified") is not True:
        return None
    found = list(User.objects.filter(email__iexact=mail, sign_on=None)[:2])
    return found[0] if len(found) == 1 else None


def _made(claims: Mapping[str, object], role: str | None) -> User:
    if role is None:
        raise SignOnError("there is no account for you here; administrators make accounts")
    wanted = str(claims.get("preferred_username") or claims.get("email") or claims["sub"])
    wanted = wanted[: MOST_NAME - 4]
    taken = set(User.objects.filter(username__startswith=wanted).values_list("username", flat=True))
    names = (wanted, *(f"{wanted}-{number}" for number in range(2, 1_000)))
    username = next((name for name in names if name not in taken), None)
    if username is None:
        raise SignOnError("no user name is left for you here")
    verified = claims.get("email_verified") is True
    user = User(username=username, email=str(claims.get("email") or "") if verified else "")
    user.set_unusable_password()
    _give(user, role)
    return user


def _give(user: User, role: str) -> None:
    """Role and the rights in the Django admin that belong to it."""
    before = user.role if user.pk else ""
    user.role = role
    user.is_staff = user.is_superuser = role == User.Role.ADMIN
    user.save()
    audit.record(
        "user.role", actor=user, source="sign-on", target=user.username, before=before, role=role
    )
