"""The owners' pages, and the API's resources of the same things."""

from datetime import timedelta

from metering.models import Membership
from metering.services.alert_targets import add_target
from metering.services.credentials import issue_credential
from metering.services.grades import request_grade
from metering.services.keys import create_key
from metering.services.quotas import request_quota

from ..conftest import People, person  # noqa: TID252 - the tests' own people
from .kinds import OPERATIONS, OWNERS, api_list, api_of_alpha, api_write, page, page_to_change


def objects(people: People) -> dict[str, object]:
    """One of each thing that alpha can have."""
    key, _secret = create_key(people.alpha, "app", actor=people.owner)
    credential, _token = issue_credential(
        people.alpha, actor=people.owner, lifetime=timedelta(hours=1)
    )
    request_grade(people.alpha, "vip", actor=people.owner)
    request_quota(people.alpha, {"running": 5}, actor=people.owner)
    target, _secret = add_target(people.alpha, "mail", "books@alpha.example", actor=None)
    guest = Membership.objects.create(user=person("guest"), business=people.alpha)
    return {
        "key": key.pk,
        "key_prefix": key.prefix,
        "jti": str(credential.jti),
        "short": str(credential.jti)[:8],
        "member": guest.pk,
        "alert_target": target.pk,
    }


ALPHA = {"business": "alpha"}
NARROW = {"grade": "basic", "ceiling": "P2", "hours": 0}
LIMITS = {"initial-running": "", "running": "0", **ALPHA}

RIGHTS = [
    page("overview", "/", OWNERS, hidden="alpha").but(operator=302, finance=302, admin=302),
    page("keys", "/keys/", OWNERS, hidden="{key_prefix}"),
    page_to_change("keys", "/keys/", {**ALPHA, "name": "new", "days": 0}),
    page_to_change("key-rotate", "/keys/{key}/rotate/"),
    page_to_change("key-revoke", "/keys/{key}/revoke/"),
    page_to_change("key-rotate", "/keys/{key}/rotate/", {"hours": 0}),
    page_to_change("key-revoke", "/keys/{key}/revoke/", {"sure": 1}, granted=302),
    page("credentials", "/credentials/", OWNERS, hidden="{short}"),
    page_to_change(
        "credentials",
        "/credentials/",
        {**ALPHA, "grade": "basic", "ceiling": "P1", "hours": 1},
    ),
    page_to_change("credential-narrow", "/credentials/{jti}/narrow/"),
    page_to_change("credential-narrow", "/credentials/{jti}/narrow/", NARROW),
    page_to_change("credential-revoke", "/credentials/{jti}/revoke/"),
    page_to_change("credential-revoke", "/credentials/{jti}/revoke/", {"sure": 1}, granted=302),
    # Another request is open, which the page says.
    page_to_change("grade-ask", "/credentials/grade/", {**ALPHA, "grade": "vip"}, granted=422),
    page_to_change("grade-withdraw", "/credentials/grade/withdraw/", ALPHA, granted=302),
    page("quotas", "/quotas/", OWNERS, hidden="alpha"),
    page_to_change("quotas", "/quotas/", LIMITS),
    page_to_change("quota-lighter", "/quotas/lighter/", ALPHA, granted=302),
    page_to_change("quota-withdraw", "/quotas/request/withdraw/", ALPHA, granted=302),
    page("alerts", "/quotas/alerts/", OWNERS, hidden="books@alpha.example"),
    page_to_change(
        "alerts",
        "/quotas/alerts/",
        {**ALPHA, "kind": "mail", "address": "more@alpha.example"},
        granted=302,
    ),
    page_to_change(
        "alert-remove", "/quotas/alerts/{alert_target}/remove/", {"sure": 1}, granted=302
    ),
    page("members", "/members/", OWNERS, hidden="guest"),
    page_to_change(
        "members", "/members/", {**ALPHA, "person": "outsider", "role": "member"}, granted=302
    ),
    page_to_change("member-change", "/members/{member}/change/", {"role": "owner"}, granted=302),
    page_to_change("member-remove", "/members/{member}/remove/"),
    page_to_change("member-remove", "/members/{member}/remove/", {"sure": 1}, granted=302),
    page("try", "/try/", OWNERS, hidden="alpha"),
    page_to_change("try-pass", "/try/pass/", ALPHA),
    api_list("api-keys-list", "/api/v1/keys/", OWNERS, hidden="{key_prefix}"),
    api_write("api-keys-list", "/api/v1/keys/", {**ALPHA, "name": "new"}, granted=201),
    api_of_alpha("api-keys-detail", "/api/v1/keys/{key}/", OWNERS),
    api_write("api-keys-rotate", "/api/v1/keys/{key}/rotate/", {"overlap_s": 0}, granted=201),
    api_write("api-keys-revoke", "/api/v1/keys/{key}/revoke/", {}),
    api_list("api-credentials-list", "/api/v1/credentials/", OWNERS | OPERATIONS, hidden="{short}"),
    api_write(
        "api-credentials-list",
        "/api/v1/credentials/",
        {**ALPHA, "lifetime_s": 60},
        roles=OWNERS | OPERATIONS,
        granted=201,
    ),
    api_of_alpha("api-credentials-detail", "/api/v1/credentials/{jti}/", OWNERS | OPERATIONS),
    api_write(
        "api-credentials-narrow",
        "/api/v1/credentials/{jti}/narrow/",
        {"ceiling": "P2"},
        roles=OWNERS | OPERATIONS,
        granted=201,
    ),
    api_write(
        "api-credentials-revoke",
        "/api/v1/credentials/{jti}/revoke/",
        {},
        roles=OWNERS | OPERATIONS,
    ),
    api_list("api-quotas-list", "/api/v1/quotas/", OWNERS | OPERATIONS, hidden="alpha"),
    api_of_alpha("api-quotas-detail", "/api/v1/quotas/alpha/", OWNERS | OPERATIONS),
    # Operations come first; what is as it was is no change, which an owner may "make", too.
    api_write(
        "api-quotas-detail",
        "/api/v1/quotas/alpha/",
        {"running": 3},
        roles=OWNERS | OPERATIONS,
        method="patch",
    ),
    api_write(
        "api-quotas-request",
        "/api/v1/quotas/alpha/request/",
        {"limits": {"queued": 3}},
        roles=OWNERS | OPERATIONS,
    ).but(owner=400, operator=400, admin=400),
]
