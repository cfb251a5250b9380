"""Who may open a live socket, and what it shows: from the session alone.

One function answers for a new socket and for all that are open, with the same few queries
however many there are.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from console.access import BUSINESS_SESSION_KEY, LIVE_ROLES
from console.models import User
from metering.models import Membership

from .board import OPERATIONS, Audience


@dataclass(frozen=True, slots=True)
class Pass:
    """What a signed-in person's socket was opened with."""

    session_key: str
    user_id: int
    audience: Audience


@dataclass(frozen=True, slots=True)
class Holder:
    """The person behind a valid session, and every audience they may belong to.

    ``chosen`` is the one that a new socket gets; None if there is none for them.
    """

    user_id: int
    audiences: frozenset[Audience]
    chosen: Audience | None


def admit(session_key: str) -> Pass | None:
    """A pass for the session's person, or None: no session, no right, no business."""
    holder = _holders([session_key]).get(session_key)
    if holder is None or holder.chosen is None:
        return None
    return Pass(session_key, holder.user_id, holder.chosen)


def still_valid(passes: Collection[Pass]) -> set[Pass]:
    """Those whose session lives on, for the same person, with the right to the same view."""
    holders = _holders({each.session_key for each in passes})
    return {
        each
        for each in passes
        if (holder := holders.get(each.session_key)) is not None
        and holder.user_id == each.user_id
        and each.audience in holder.audiences
    }


def _holders(session_keys: Collection[str]) -> dict[str, Holder]:
    """The person of each session that is valid, by session key."""
    rows = Session.objects.filter(session_key__in=session_keys, expire_date__gt=timezone.now())
    sessions: dict[str, Mapping[str, object]] = {row.session_key: row.get_decoded() for row in rows}
    ids = {str(data[SESSION_KEY]) for data in sessions.values() if SESSION_KEY in data}
    users = {str(user.pk): user for user in User.objects.filter(pk__in=ids, is_active=True)}
    names: dict[int, list[str]] = {}
    memberships = Membership.objects.filter(user__in=users.values()).order_by("business__name")
    for user_id, name in memberships.values_list("user_id", "business__name"):
        names.setdefault(user_id, []).append(name)
    holders = {}
    for key, data in sessions.items():
        user = users.get(str(data.get(SESSION_KEY)))
        if user is not None and _same_password(user, data):
            holders[key] = _holder(user, names.get(user.pk, []), data.get(BUSINESS_SESSION_KEY))
    return holders


def _same_password(user: User, data: Mapping[str, object]) -> bool:
    """Whether the session was opened with the password that the user has now."""
    return constant_time_compare(str(data.get(HASH_SESSION_KEY, "")), user.get_session_auth_hash())


def _holder(user: User, businesses: list[str], preferred: object) -> Holder:
    if user.role in LIVE_ROLES:
        return Holder(user.pk, frozenset([OPERATIONS]), OPERATIONS)
    if user.role != User.Role.OWNER:
        return Holder(user.pk, frozenset(), None)
    audiences = [Audience(name) for name in businesses]
    chosen = next((each for each in audiences if each.business == preferred), None)
    return Holder(user.pk, frozenset(audiences), chosen or next(iter(audiences), None))


def session_cookie(cookies: Mapping[str, str]) -> str:
    """The session key that a browser sent, or nothing if it can't be one."""
    key = cookies.get(settings.SESSION_COOKIE_NAME, "")
    return key if key.isascii() and key.isalnum() and len(key) <= 40 else ""
