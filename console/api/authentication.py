"""Who asks: a browser's session, or a program with a management token."""

from django.utils.translation import gettext as _
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from console.models import ManagementToken, User
from console.services.tokens import find_token


class TokenAuthentication(BaseAuthentication):
    """``Authorization: Bearer fl_mgmt_...``; the answer is the same whatever is wrong with it."""

    def authenticate(self, request: Request) -> tuple[User, ManagementToken] | None:
        """The token's holder; None where there is no such header, AuthenticationFailed else."""
        kind, _blank, secret = request.headers.get("Authorization", "").partition(" ")
        if not kind:
            return None
        token = find_token(secret.strip()) if kind.lower() == "bearer" else None
        if token is None:
            raise AuthenticationFailed(_("This token is not valid."))
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        """What 401 says about how to do it."""
        return 'Bearer realm="Fairlane"'
