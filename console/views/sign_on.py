"""To the company's OpenID Connect provider and back."""

import logging
from functools import lru_cache
from typing import Any

from authlib.integrations.django_client import OAuth, OAuthError
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from joserfc.errors import JoseError
from requests import RequestException

from console.navigation import local
from console.refusals import translated
from console.services.sign_on import SignOnError, person_of
from metering.services import audit

log = logging.getLogger(__name__)

TIMEOUT_S = 10
NEXT = "sign_on_next"
BACKEND = "django.contrib.auth.backends.ModelBackend"
# Its answers may lack what a provider always says: then they are none.
NOT_AN_ANSWER = (OAuthError, JoseError, RequestException, KeyError, ValueError, RuntimeError)


@lru_cache(maxsize=4)
def _client(issuer: str, client: str, secret: str) -> Any:
    return OAuth().register(
        "provider",
        server_metadata_url=f"{issuer}/.well-known/openid-configuration",
        client_id=client,
        client_secret=secret,
        client_kwargs={
            "scope": "openid email profile",
            "code_challenge_method": "S256",
            "default_timeout": TIMEOUT_S,
        },
    )


def _provider() -> Any:
    if not settings.OIDC_ISSUER:
        raise Http404
    return _client(settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET)


@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """Send the person to the provider."""
    provider = _provider()
    request.session[NEXT] = local(request, request.GET.get("next", ""))
    try:
        answer = provider.authorize_redirect(request, request.build_absolute_uri(_return()))
    except NOT_AN_ANSWER as error:
        return _failed(request, error)
    assert isinstance(answer, HttpResponse)
    return answer


@require_safe
def finish(request: HttpRequest) -> HttpResponse:
    """Take the provider's word for who it is, and let them in."""
    provider = _provider()
    issuer = {"essential": True, "value": settings.OIDC_ISSUER}
    try:
        token = provider.authorize_access_token(request, claims_options={"iss": issuer})
        claims = token["userinfo"]
        user = person_of(claims)
    except SignOnError as refusal:
        log.warning("sign-on refused: %s", refusal)
        messages.error(request, translated(str(refusal)))
        return redirect("login")
    except NOT_AN_ANSWER as error:
        return _failed(request, error)
    back = request.session.pop(NEXT, "")
    audit.record("user.sign_in", actor=user, source="sign-on", target=user.get_username())
    login(request, user, backend=BACKEND)
    return redirect(back or settings.LOGIN_REDIRECT_URL)


def _return() -> str:
    return reverse("sign-on-return")


def _failed(request: HttpRequest, error: Exception) -> HttpResponse:
    log.warning("sign-on failed: %s: %s", type(error).__name__, error)
    messages.error(request, _("Sign-on did not work. Try again, or sign in with a password."))
    return redirect("login")
