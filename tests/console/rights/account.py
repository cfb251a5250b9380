"""Signing in and out, language, choice of business, the API's own pages."""

from .kinds import EVERYBODY, PERSONS, Right, page

NO_BUSINESS = {"operator": 403, "finance": 403, "admin": 403, "stranger": 302}

RIGHTS = [
    Right("login", "/accounts/login/", {**dict.fromkeys(EVERYBODY, 302), "stranger": 200}),
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
    page("api-docs", "/api/docs/", EVERYBODY),
    Right("api-schema", "/api/v1/schema/", {**dict.fromkeys(EVERYBODY, 200), "stranger": 401}),
]
