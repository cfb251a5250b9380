"""The fleet, as one snapshot for the core."""

from metering.core.facts import LANES
from metering.models import ChangeVersion
from scheduler.core.fleet import FleetSnapshot, ModelFacts, PoolFacts, ReplicaFacts
from scheduler.models import ModelDeployment, Pool, Replica


def load_fleet() -> FleetSnapshot:
    """Pools, models and replicas, in four queries.

    Read without a transaction: the version first, so that what follows is at least that new,
    and replicas before pools, so that no replica is of a pool still unknown. Raises
    django.db.Error when Postgres cannot be read.
    """
    version = (
        ChangeVersion.objects.filter(topic=ChangeVersion.Topic.FLEET)
        .values_list("version", flat=True)
        .first()
    )
    rows = list(Replica.objects.select_related("pool"))
    pools = {row.name: _pool(row) for row in Pool.objects.all()}
    models = {row.name: _model(row) for row in ModelDeployment.objects.all()}
    replicas = {row.name: _replica(row) for row in rows if row.pool.name in pools}
    return FleetSnapshot(version=version or 0, pools=pools, models=models, replicas=replicas)


def _pool(row: Pool) -> PoolFacts:
    return PoolFacts(
        name=row.name,
        dedicated=row.kind == Pool.Kind.DEDICATED,
        lanes=frozenset(LANES.index(lane) for lane in row.lanes),
    )


def _model(row: ModelDeployment) -> ModelFacts:
    return ModelFacts(
        name=row.name,
        weight=row.weight,
        task=row.task,
        realtime=row.realtime or None,
        offline=row.offline,
        generative=row.kind == ModelDeployment.Kind.GENERATIVE,
        lighter_of=row.lighter_of or None,
    )


def _replica(row: Replica) -> ReplicaFacts:
    return ReplicaFacts(
        name=row.name,
        url=row.url,
        engine=row.engine,
        pool=row.pool.name,
        slots=row.slots,
        gpus=row.gpus,
        kv_tokens=row.kv_tokens,
        models=dict(row.models),
        levels=(row.least_level, row.most_level),
        engine_priority=row.engine_priority,
        token_file=row.token_file,
        metrics_url=row.metrics_url,
        dcgm_url=row.dcgm_url,
        kv_events_url=row.kv_events_url,
        draining=row.draining,
        hot=row.path == Replica.Path.HOT,
    )
