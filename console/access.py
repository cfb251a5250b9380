"""Who may see which part of the console.

The role decides which pages exist for a person (403 elsewhere); membership decides which
businesses do (404 elsewhere, as if there were no such thing).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse

from console.models import User
from metering.models import AlertTarget, ApiKey, Business, Membership, TierCredential

P = ParamSpec("P")
Row = TypeVar("Row", ApiKey, TierCredential, Membership, AlertTarget)
View = Callable[Concatenate[HttpRequest, P], HttpResponse]

BUSINESS_SESSION_KEY = "business"
LIVE_ROLES = frozenset({User.Role.OPERATOR, User.Role.ADMIN})


def role_required(*roles: User.Role) -> Callable[[View[P]], View[P]]:
    """Let a view answer only people of these roles; others get 403, strangers the sign-in page."""

    def wrap(view: View[P]) -> View[P]:
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            user = request.user
            if not isinstance(user, User):
                return redirect_to_login(request.get_full_path())
            if user.role not in roles:
                raise PermissionDenied
            return view(request, *args, **kwargs)

        return guarded

    return wrap


def signed_in(request: HttpRequest) -> User:
    """The person behind the request; for views that ``role_required`` guards."""
    assert isinstance(request.user, User), "the view is not guarded"
    return request.user


@dataclass(frozen=True, slots=True)
class Reach:
    """A person's place in one business, and the others they could switch to."""

    business: Business
    can_change: bool
    names: list[str]


def reach_of(request: HttpRequest, name: str = "") -> Reach | None:
    """The business of that name or the session's choice, else the first; None without any."""
    memberships = list(
        Membership.objects.filter(user=signed_in(request))
        .select_related("business")
        .order_by("business__name")
    )
    if not memberships:
        return None
    preferred = name or request.session.get(BUSINESS_SESSION_KEY)
    chosen = next((m for m in memberships if m.business.name == preferred), memberships[0])
    return Reach(
        business=chosen.business,
        can_change=chosen.role == Membership.Role.OWNER,
        names=[membership.business.name for membership in memberships],
    )


def business_to_change(request: HttpRequest, name: str) -> Business:
    """The named business, for its owner: 404 for an outsider, 403 for one who only looks."""
    membership = (
        Membership.objects.filter(user=signed_in(request), business__name=name)
        .select_related("business")
        .first()
    )
    if membership is None:
        raise Http404
    if membership.role != Membership.Role.OWNER:
        raise PermissionDenied
    return membership.business


def _for_owner(request: HttpRequest, row: Row | None) -> Row:
    """What belongs to a business, for its owner: 404 for an outsider, 403 for one who looks."""
    if row is None:
        raise Http404
    business_to_change(request, row.business.name)
    return row


def key_to_change(request: HttpRequest, pk: int) -> ApiKey:
    """The key, for an owner of its business: 404 for an outsider, 403 for one who only looks."""
    return _for_owner(request, ApiKey.objects.filter(pk=pk).select_related("business").first())


def credential_to_change(request: HttpRequest, jti: UUID) -> TierCredential:
    """The credential, for an owner of its business: 404 and 403 as for a key."""
    found = TierCredential.objects.filter(jti=jti).select_related("business", "parent")
    return _for_owner(request, found.first())


def member_to_change(request: HttpRequest, pk: int) -> Membership:
    """The membership, for an owner of its business: 404 and 403 as for a key."""
    found = Membership.objects.filter(pk=pk).select_related("business", "user")
    return _for_owner(request, found.first())


def alert_target_to_change(request: HttpRequest, pk: int) -> AlertTarget:
    """The address, for an owner of its business: 404 and 403 as for a key."""
    found = AlertTarget.objects.filter(pk=pk).select_related("business")
    return _for_owner(request, found.first())
