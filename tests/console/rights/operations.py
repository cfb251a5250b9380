"""The operators' pages."""

from dataclasses import replace

from scheduler.core.policy import Policy
from scheduler.models import Pool, Replica
from scheduler.services.policy import import_policy, save_version
from scheduler.services.what_if import ask_what_if
from tests.console.conftest import People

from .kinds import OPERATIONS, PERSONS, Right, api_write, page


def change(name: str, path: str, data: dict[str, object], granted: int) -> Right:
    """A change that operators make, answered with ``granted``."""
    status = {person: granted if person in OPERATIONS else 403 for person in PERSONS}
    return Right(name, path, {**status, "stranger": 302}, method="post", data=data)


RIGHTS = [
    page("live", "/ops/live/", OPERATIONS),
    page("policy", "/ops/policy/", OPERATIONS),
    page("policy-edit", "/ops/policy/edit/{draft}/", OPERATIONS),
    page("policy-version", "/ops/policy/{draft}/", OPERATIONS),
    page("policy-export", "/ops/policy/{draft}/export/", OPERATIONS),
    page("what-if", "/ops/what-if/{run}/", OPERATIONS),
    # What is wrong with these stands on the page that comes back.
    change("policy-edit", "/ops/policy/edit/{draft}/", {"seen": "x"}, 422),
    change("policy-import", "/ops/policy/import/", {}, 422),
    change("policy-activate", "/ops/policy/{draft}/activate/", {"reason": ""}, 422),
    change("policy-what-if", "/ops/policy/{draft}/what-if/", {"traffic": "none"}, 422),
    change("policy-canary", "/ops/policy/{draft}/canary/", {"reason": ""}, 422),
    change("canary-end", "/ops/canary/0/end/", {}, 404),
    page("fleet", "/ops/fleet/", OPERATIONS),
    page("replica-new", "/ops/fleet/replicas/new/", OPERATIONS),
    page("replica", "/ops/fleet/replicas/{replica}/", OPERATIONS),
    page("pool-new", "/ops/fleet/pools/new/", OPERATIONS),
    page("pool", "/ops/fleet/pools/{pool}/", OPERATIONS),
    change("replica-new", "/ops/fleet/replicas/new/", {"name": ""}, 422),
    change("replica", "/ops/fleet/replicas/{replica}/", {"slots": "none"}, 422),
    change("pool-new", "/ops/fleet/pools/new/", {"name": ""}, 422),
    change("pool", "/ops/fleet/pools/{pool}/", {"lanes": "P7"}, 422),
    change("replica-step", "/ops/fleet/replicas/{replica}/drain/", {}, 302),
    change("pool-remove", "/ops/fleet/pools/{pool}/remove/", {}, 302),
    page("businesses", "/ops/businesses/", OPERATIONS),
    page("business", "/ops/businesses/alpha/", OPERATIONS),
    change("business-change", "/ops/businesses/alpha/profile/", {"grade": "none"}, 422),
    change("business-suspend", "/ops/businesses/alpha/suspend/", {"reason": ""}, 422),
    change("quota-decide", "/ops/businesses/requests/0/", {}, 404),
    change("grade-decide", "/ops/businesses/grades/0/", {}, 404),
    api_write(
        "api-policies-list",
        "/api/v1/policies/",
        {"document": {"scheduler": {"tick_ms": 30}}, "reason": "try"},
        roles=OPERATIONS,
        granted=201,
    ),
    api_write(
        "api-policies-activate",
        "/api/v1/policies/{draft}/activate/",
        {"reason": "try"},
        roles=OPERATIONS,
    ),
    page("decisions", "/ops/decisions/", OPERATIONS),
    page("audit", "/audit/", OPERATIONS),
]


def objects(people: People) -> dict[str, object]:
    """An active policy, a draft, and a run of it that nobody has begun."""
    import_policy(Policy(), active=True, author=people.operator, reason="first")
    draft = save_version(replace(Policy(), tick_ms=21), author=people.operator, reason="second")
    run = ask_what_if(draft, actor=people.operator, scenario="replica-loss")
    pool = Pool.objects.create(name="pool", lanes=["P1"])
    replica = Replica.objects.create(
        name="card", url="http://127.0.0.1:1", engine="vllm", pool=pool, models={"m": "m"}
    )
    return {"draft": draft.version, "run": run.pk, "pool": pool.pk, "replica": replica.pk}
