"""The API's resources of the fleet and its record."""

from django.db import connection
from django.utils import timezone

from metering.services import audit
from scheduler.decision_log.partitions import prepare
from scheduler.models import DecisionLog, ModelDeployment, PolicyVersion, Pool, Replica

from ..conftest import People  # noqa: TID252 - the tests' own people
from .kinds import EVERYBODY, OPERATIONS, Right, api_list


def objects(people: People) -> dict[str, object]:
    """One of each thing that a fleet has."""
    pool = Pool.objects.create(name="pool-1")
    Replica.objects.create(name="card-1", url="http://10.0.0.1", engine="vllm", pool=pool)
    ModelDeployment.objects.create(name="model-1.5")
    PolicyVersion.objects.create(version=7, document={})
    entry = audit.record("test", actor=people.owner, source="test")
    now = timezone.now()
    prepare(connection.connection, [now.date()])
    DecisionLog.objects.create(at=now, kind="refuse", request="r-1", business="alpha", lane=0)
    return {"entry": entry.pk, "decision": DecisionLog.objects.latest("at").pk}


def both(name: str, path: str, one: str) -> list[Right]:
    """The list of a resource that belongs to no business, and one thing of it."""
    return [
        api_list(f"api-{name}-list", path, OPERATIONS),
        api_list(f"api-{name}-detail", f"{path}{one}/", OPERATIONS),
    ]


RIGHTS = [
    *both("pools", "/api/v1/pools/", "pool-1"),
    *both("replicas", "/api/v1/replicas/", "card-1"),
    *both("policies", "/api/v1/policies/", "7"),
    *both("decisions", "/api/v1/decisions/", "{decision}"),
    *both("audit", "/api/v1/audit/", "{entry}"),
    api_list("api-models-list", "/api/v1/models/", EVERYBODY),
    api_list("api-models-detail", "/api/v1/models/model-1.5/", EVERYBODY),
    api_list("api-live-list", "/api/v1/live/", OPERATIONS),
]
