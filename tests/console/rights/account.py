"""Signing in and out, language, choice of business, the API's own pages."""

from datetime import timedelta

from console.services.tokens import create_token

from ..conftest import People  # noqa: TID252 - the tests' own people
from .kinds import EVERYBODY, PERSONS, Right, page


def objects(people: People) -> dict[str, object]:
    """A token of the owner's own, which even a colleague does not see."""
    scopes = ["keys:read"]
    row, _secret = create_token(
        people.owner, "mine", scopes=scopes, allowed=scopes, lifetime=timedelta(hours=1)
    )
    return {"token": row.pk}


NO_BUSINESS = {"operator": 403, "finance": 403, "admin": 403, "stranger": 302}

RIGHTS = [
    Right("login", "/accounts/login/", {**dict.fromkeys(EVERYBODY, 302), "stranger": 200}),
    # Without a provider there is no such page; with one, see the tests of signing on.
    Right("sign-on", "/accounts/sign-on/", dict.fromkeys(PERSONS, 404)),
    Right("sign-on-return", "/accounts/sign-on/return/", dict.fromkeys(PERSONS, 404)),
    Right("logout", "/accounts/logout/", dict.fromkeys(PERSONS, 405)),
    Right("set-language", "/accounts/language/", dict.fromkeys(PERSONS, 405)),
    Right("script-texts", "/accounts/texts.js", dict.fromkeys(PERSONS, 200)),
    Right(
        "choose-business",
        "/accounts/business/",
        {**NO_BUSINESS, "owner": 302, "colleague": 302, "outsider": 404},
        method="post",
        data={"business": "alpha"},
    ),
    Right("admin-sign-in", "/admin/login/", {**dict.fromkeys(EVERYBODY, 403), "stranger": 302}),
    Right("admin", "/admin/", {**dict.fromkeys(EVERYBODY, 302), "admin": 200, "stranger": 302}),
    Right("favicon", "/favicon.ico", dict.fromkeys(PERSONS, 302)),
    page("tokens", "/accounts/tokens/", EVERYBODY),
    Right(
        "token-revoke",
        "/accounts/tokens/{token}/revoke/",
        {**dict.fromkeys(EVERYBODY, 404), "owner": 302, "stranger": 302},
        method="post",
        data={"sure": 1},
    ),
    page("api-docs", "/api/docs/", EVERYBODY),
    Right("api-schema", "/api/v1/schema/", {**dict.fromkeys(EVERYBODY, 200), "stranger": 401}),
]
