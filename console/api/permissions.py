"""What a role and a token may do; whose rows they see is each view's ``get_queryset``."""

from typing import TYPE_CHECKING

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from console.models import ManagementToken, User

if TYPE_CHECKING:
    # Its module asks for the classes here while it is being imported.
    from rest_framework.views import APIView

Role = User.Role
EVERYBODY = frozenset(Role)
OWNERS = frozenset({Role.OWNER})
OPERATIONS = frozenset({Role.OPERATOR, Role.ADMIN})
FINANCE = frozenset({Role.FINANCE})
NOBODY: frozenset[Role] = frozenset()


def caller(request: Request) -> User:
    """The person behind the request; for views that a permission guards."""
    assert isinstance(request.user, User), "the view is not guarded"
    return request.user


class SignedIn(BasePermission):
    """Anybody with an account."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Whether somebody is behind the request."""
        return isinstance(request.user, User)


class Allowed(BasePermission):
    """By the view's ``read_roles`` and ``write_roles``, and by the token's scopes."""

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Whether this role, with this token if it is one, may use the method at all."""
        user = request.user
        if not isinstance(user, User):
            return False
        writes = request.method not in SAFE_METHODS
        roles = getattr(view, "write_roles" if writes else "read_roles", NOBODY)
        return user.role in roles and granted(request.auth, getattr(view, "resource", ""), writes)


def granted(auth: object, resource: str, writes: bool) -> bool:
    """Whether the token has the scope; a session has all of its person's."""
    if not isinstance(auth, ManagementToken):
        return True
    scopes = set(auth.scopes)
    wanted = {f"{resource}:write"} if writes else {f"{resource}:read", f"{resource}:write"}
    return bool(scopes & wanted)
