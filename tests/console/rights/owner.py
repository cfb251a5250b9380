"""The owners' pages, and the API's resources of the same things."""

from metering.services.keys import create_key

from ..conftest import People  # noqa: TID252 - the tests' own people
from .kinds import OWNERS, api_list, api_of_alpha, api_write, page, page_to_change


def objects(people: People) -> dict[str, object]:
    """A key of alpha."""
    key, _secret = create_key(people.alpha, "app", actor=people.owner)
    return {"key": key.pk, "key_prefix": key.prefix}


RIGHTS = [
    page("overview", "/", OWNERS, hidden="alpha").but(operator=302, finance=302, admin=302),
    page("keys", "/keys/", OWNERS, hidden="{key_prefix}"),
    page_to_change("keys", "/keys/", {"business": "alpha", "name": "new", "days": 0}),
    page_to_change("key-rotate", "/keys/{key}/rotate/"),
    page_to_change("key-revoke", "/keys/{key}/revoke/"),
    page_to_change("key-rotate", "/keys/{key}/rotate/", {"hours": 0}),
    page_to_change("key-revoke", "/keys/{key}/revoke/", {"sure": 1}, granted=302),
    api_list("api-keys-list", "/api/v1/keys/", OWNERS, hidden="{key_prefix}"),
    api_write("api-keys-list", "/api/v1/keys/", {"business": "alpha", "name": "new"}, granted=201),
    api_of_alpha("api-keys-detail", "/api/v1/keys/{key}/", OWNERS),
    api_write("api-keys-rotate", "/api/v1/keys/{key}/rotate/", {"overlap_s": 0}, granted=201),
    api_write("api-keys-revoke", "/api/v1/keys/{key}/revoke/", {}),
]
