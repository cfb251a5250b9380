"""The rows behind the entries of a fleet document; for services/fleet.py alone."""

from dataclasses import asdict

from metering.models import Business, Quota
from scheduler.fleet_diff import FleetPlan
from scheduler.fleet_document import BusinessSpec, ModelSpec, PoolSpec, QuotaSpec, ReplicaSpec
from scheduler.models import ModelDeployment, Pool, Replica


def write(planned: FleetPlan) -> None:
    """Carry the plan out in the caller's transaction, which holds the lock and has checked it.

    Pools come before the replicas in them, and go after them.
    """
    for pool in planned.pools.write:
        _write_pool(pool)
    for model in planned.models.write:
        _write_model(model)
    pools = {row.name: row for row in Pool.objects.all()}
    for replica in planned.replicas.write:
        _write_replica(replica, pools[replica.pool])
    for business in planned.businesses.write:
        _write_business(business)
    Replica.objects.filter(name__in=planned.replicas.delete).delete()
    Pool.objects.filter(name__in=planned.pools.delete).delete()
    ModelDeployment.objects.filter(name__in=planned.models.delete).delete()
    Business.objects.filter(name__in=planned.businesses.delete).delete()


def _write_pool(spec: PoolSpec) -> None:
    Pool.objects.update_or_create(
        name=spec.name, defaults={"kind": spec.kind, "lanes": list(spec.lanes)}
    )


def _write_model(spec: ModelSpec) -> None:
    ModelDeployment.objects.update_or_create(
        name=spec.name,
        defaults={
            "weight": spec.weight,
            "task": spec.task,
            "realtime": spec.realtime or "",
            "offline": spec.offline,
            "kind": spec.kind,
            "lighter_of": spec.lighter_of or "",
        },
    )


def _write_replica(spec: ReplicaSpec, pool: Pool) -> None:
    Replica.objects.update_or_create(
        name=spec.name,
        defaults={
            "url": spec.url,
            "engine": spec.engine,
            "pool": pool,
            "slots": spec.slots,
            "gpus": spec.gpus,
            "kv_tokens": spec.kv_tokens,
            "models": dict(spec.models),
            "service_class": spec.service_class,
            "least_level": spec.levels[0],
            "most_level": spec.levels[1],
            "path": spec.path,
            "engine_priority": spec.engine_priority,
            "token_file": spec.token_file or "",
            "metrics_url": spec.metrics_url or "",
            "dcgm_url": spec.dcgm_url or "",
            "kv_events_url": spec.kv_events_url or "",
        },
    )


def _write_business(spec: BusinessSpec) -> None:
    row, _ = Business.objects.update_or_create(
        name=spec.name,
        defaults={
            "tags": list(spec.tags),
            "grade": spec.grade,
            "ceiling": spec.ceiling,
            "realtime": spec.realtime or "",
            "offline": spec.offline,
            "billing_sla": spec.billing_sla,
            "degrade": spec.degrade,
            "weight": spec.weight,
            "models": None if spec.models is None else list(spec.models),
            "latency_budget_ms": spec.latency_budget_ms,
        },
    )
    _write_quota(row, Quota.Kind.LIMIT, spec.quota)
    if spec.envelope is None:
        Quota.objects.filter(business=row, kind=Quota.Kind.ENVELOPE).delete()
    else:
        _write_quota(row, Quota.Kind.ENVELOPE, spec.envelope)


def _write_quota(business: Business, kind: Quota.Kind, spec: QuotaSpec) -> None:
    Quota.objects.update_or_create(business=business, kind=kind, defaults=asdict(spec))
