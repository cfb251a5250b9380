"""The fleet in Postgres in the form of the fleet file."""

from collections.abc import Mapping

from metering.models import Business, Quota
from scheduler.fleet_document import (
    BusinessSpec,
    FleetDocument,
    ModelSpec,
    PoolSpec,
    QuotaSpec,
    ReplicaSpec,
)
from scheduler.models import ModelDeployment, Pool, Replica

Quotas = Mapping[tuple[int, str], Quota]


def load_document() -> FleetDocument:
    """Everything that a fleet file can say about what there is, each part in order of names.

    Five queries; the caller's transaction decides whether they see one moment.
    """
    quotas = {(row.business_id, row.kind): row for row in Quota.objects.all()}
    return FleetDocument(
        pools=tuple(_pool(row) for row in Pool.objects.order_by("name")),
        models=tuple(_model(row) for row in ModelDeployment.objects.order_by("name")),
        replicas=tuple(
            _replica(row) for row in Replica.objects.select_related("pool").order_by("name")
        ),
        businesses=tuple(_business(row, quotas) for row in Business.objects.order_by("name")),
    )


def _pool(row: Pool) -> PoolSpec:
    return PoolSpec(row.name, row.kind, tuple(sorted(row.lanes)))


def _model(row: ModelDeployment) -> ModelSpec:
    return ModelSpec(
        name=row.name,
        weight=row.weight,
        task=row.task,
        realtime=row.realtime or None,
        offline=row.offline,
        kind=row.kind,
        lighter_of=row.lighter_of or None,
    )


def _replica(row: Replica) -> ReplicaSpec:
    return ReplicaSpec(
        name=row.name,
        url=row.url,
        engine=row.engine,
        pool=row.pool.name,
        slots=row.slots,
        gpus=row.gpus,
        kv_tokens=row.kv_tokens,
        models=dict(row.models),
        service_class=row.service_class,
        levels=(row.least_level, row.most_level),
        path=row.path,
        engine_priority=row.engine_priority,
        token_file=row.token_file or None,
        metrics_url=row.metrics_url or None,
        dcgm_url=row.dcgm_url or None,
        kv_events_url=row.kv_events_url or None,
    )


def _business(row: Business, quotas: Quotas) -> BusinessSpec:
    envelope = quotas.get((row.pk, Quota.Kind.ENVELOPE))
    return BusinessSpec(
        name=row.name,
        tags=tuple(row.tags),
        grade=row.grade,
        ceiling=row.ceiling,
        realtime=row.realtime or None,
        offline=row.offline,
        billing_sla=row.billing_sla,
        degrade=row.degrade,
        weight=row.weight,
        models=None if row.models is None else tuple(row.models),
        quota=_quota(quotas.get((row.pk, Quota.Kind.LIMIT))),
        envelope=None if envelope is None else _quota(envelope),
        latency_budget_ms=row.latency_budget_ms,
    )


def _quota(row: Quota | None) -> QuotaSpec:
    if row is None:
        return QuotaSpec()
    return QuotaSpec(
        requests_per_s=row.requests_per_s,
        burst=row.burst,
        tokens_per_min=row.tokens_per_min,
        running=row.running,
        queued=row.queued,
        gpu_share=row.gpu_share,
        monthly_budget=row.monthly_budget,
    )
