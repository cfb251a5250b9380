"""Single sign-on with the company's OpenID Connect provider, where there is one."""

from urllib.parse import urlsplit

from console.config.env import stop

from .base import ENV

OIDC_ISSUER = ENV.text("OIDC_ISSUER").rstrip("/")
OIDC_CLIENT_ID = ENV.text("OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = ENV.secret("OIDC_CLIENT_SECRET")
# What the button says: "Sign in with ...".
OIDC_NAME = ENV.text("OIDC_NAME", "SSO")
OIDC_GROUPS_CLAIM = ENV.text("OIDC_GROUPS_CLAIM", "groups")
ROLES = ("owner", "operator", "finance", "admin")
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def roles(pairs: list[str]) -> dict[str, str]:
    """Roles by group of the provider, from texts such as ``ops-team=operator``."""
    found = {}
    for pair in pairs:
        group, _, role = pair.rpartition("=")
        if not group or role not in ROLES:
            raise stop("OIDC_ROLES", f"{pair!r} is not GROUP={'|'.join(ROLES)}")
        found[group] = role
    return found


OIDC_ROLES = roles(ENV.names("OIDC_ROLES"))

if OIDC_ISSUER:
    _parts = urlsplit(OIDC_ISSUER)
    if _parts.scheme != "https" and _parts.hostname not in LOOPBACK:
        raise stop("OIDC_ISSUER", "must be an https address")
    if not OIDC_CLIENT_ID:
        raise stop("OIDC_CLIENT_ID", "is needed with OIDC_ISSUER")
