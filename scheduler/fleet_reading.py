"""Each kind of entry of the fleet file: which keys it has and what they may hold."""

import re

from metering.models import Grade, Lane, Realtime
from metering.models.business import NAME_PATTERN
from scheduler.fleet_document import BusinessSpec, ModelSpec, PoolSpec, QuotaSpec, ReplicaSpec
from scheduler.models import ModelDeployment, Pool, Replica
from scheduler.plain_data import Node

SHORT = re.compile(NAME_PATTERN)
SHORT_ALLOWED = "lower-case letters, digits and hyphens, at most 63, not at the edges"
LONG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
LONG_ALLOWED = "letters, digits and . _ : / @ + -, at most 200, beginning with a letter or digit"
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,62}")
TAG_ALLOWED = "letters, digits and . _ : / @ + -, at most 63, beginning with a letter or digit"
TASK = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
TASK_ALLOWED = "lower-case letters, digits, _ and -, at most 40"
TEXT = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,500}")
TEXT_ALLOWED = "a text of at most 500 printable characters"
LANE = re.compile("|".join(Lane.values))
LANE_ALLOWED = f"one of {', '.join(Lane.values)}"

MOST_INT = 2**31 - 1
MOST_BIG = 2**63 - 1
MOST_RATE = 1e9
MOST_WEIGHT = 1e6
MOST_SLOTS = 100_000
MOST_LEVEL = 9

# What an entry says when it is silent.
_POOL = PoolSpec("")
_MODEL = ModelSpec("")
_REPLICA = ReplicaSpec("", "", "", "")
_BUSINESS = BusinessSpec("")


def read_pool(node: Node) -> PoolSpec:
    """One entry of ``pools``."""
    lanes = node.names("lanes", _POOL.lanes, LANE, LANE_ALLOWED)
    if not lanes:
        node.note("lanes", "must name at least one lane")
    return PoolSpec(
        name=node.needed("name", SHORT, SHORT_ALLOWED),
        kind=node.choice("kind", _POOL.kind, Pool.Kind.values),
        lanes=tuple(sorted(lanes)),
    )


def read_model(node: Node) -> ModelSpec:
    """One entry of ``models``."""
    return ModelSpec(
        name=node.needed("name", LONG, LONG_ALLOWED),
        weight=node.choice("weight", _MODEL.weight, ModelDeployment.Weight.values),
        task=node.text("task", _MODEL.task, TASK, TASK_ALLOWED),
        realtime=node.choice("realtime", _MODEL.realtime, Realtime.values),
        offline=node.flag("offline", default=_MODEL.offline),
        kind=node.choice("kind", _MODEL.kind, ModelDeployment.Kind.values),
        lighter_of=node.text("lighter_of", _MODEL.lighter_of, LONG, LONG_ALLOWED),
    )


def read_replica(node: Node) -> ReplicaSpec:
    """One entry of ``replicas``. Where its addresses lead is checked when it is applied."""
    return ReplicaSpec(
        name=node.needed("name", LONG, LONG_ALLOWED),
        url=node.needed("url", TEXT, TEXT_ALLOWED),
        engine=node.needed_choice("engine", Replica.Engine.values),
        pool=node.needed("pool", SHORT, SHORT_ALLOWED),
        slots=node.whole("slots", _REPLICA.slots, 1, MOST_SLOTS),
        gpus=node.number("gpus", _REPLICA.gpus, 0, MOST_SLOTS),
        kv_tokens=node.whole("kv_tokens", _REPLICA.kv_tokens, 1, MOST_BIG),
        models=_served(node),
        service_class=node.choice(
            "service_class", _REPLICA.service_class, Replica.ServiceClass.values
        ),
        levels=_levels(node),
        path=node.choice("path", _REPLICA.path, Replica.Path.values),
        engine_priority=node.flag("engine_priority", default=_REPLICA.engine_priority),
        token_file=node.text("token_file", _REPLICA.token_file, TEXT, TEXT_ALLOWED),
        metrics_url=node.text("metrics_url", _REPLICA.metrics_url, TEXT, TEXT_ALLOWED),
        dcgm_url=node.text("dcgm_url", _REPLICA.dcgm_url, TEXT, TEXT_ALLOWED),
        kv_events_url=node.text("kv_events_url", _REPLICA.kv_events_url, TEXT, TEXT_ALLOWED),
    )


def read_business(node: Node) -> BusinessSpec:
    """One entry of ``businesses``."""
    quota = node.child("quota")
    envelope = node.child("envelope")
    return BusinessSpec(
        name=node.needed("name", SHORT, SHORT_ALLOWED),
        tags=node.names("tags", _BUSINESS.tags, TAG, TAG_ALLOWED),
        grade=node.choice("grade", _BUSINESS.grade, Grade.values),
        ceiling=node.choice("ceiling", _BUSINESS.ceiling, Lane.values),
        realtime=node.choice("realtime", _BUSINESS.realtime, Realtime.values),
        offline=node.flag("offline", default=_BUSINESS.offline),
        billing_sla=node.flag("billing_sla", default=_BUSINESS.billing_sla),
        degrade=node.flag("degrade", default=_BUSINESS.degrade),
        weight=node.number("weight", _BUSINESS.weight, 0.001, MOST_WEIGHT),
        models=node.names("models", _BUSINESS.models, LONG, LONG_ALLOWED),
        quota=QuotaSpec() if quota is None else _quota(quota),
        envelope=None if envelope is None else _quota(envelope),
        latency_budget_ms=node.whole("latency_budget_ms", None, 1, MOST_INT),
    )


def _quota(node: Node) -> QuotaSpec:
    quota = QuotaSpec(
        requests_per_s=node.number("requests_per_s", None, 0, MOST_RATE),
        burst=node.whole("burst", None, 0, MOST_INT),
        tokens_per_min=node.whole("tokens_per_min", None, 0, MOST_BIG),
        running=node.whole("running", None, 0, MOST_INT),
        queued=node.whole("queued", None, 0, MOST_INT),
        gpu_share=node.share("gpu_share"),
        monthly_budget=node.money("monthly_budget"),
    )
    node.close()
    return quota


def _served(node: Node) -> dict[str, str]:
    """Public names with the server's own."""
    names = node.child("models")
    if names is None:
        return {}
    found = {}
    for public in names.present():
        if not LONG.fullmatch(public):
            names.note(public, f"the name must be {LONG_ALLOWED}")
        found[public] = names.text(public, "", TEXT, TEXT_ALLOWED)
    return found


def _levels(node: Node) -> tuple[int, int]:
    """A pair of levels, the least first."""
    value = node.plain("levels")
    if value is None and not node.has("levels"):
        return _REPLICA.levels
    match value:
        case [int(least), int(most)] if 0 <= least <= most <= MOST_LEVEL and bool not in {
            type(least),
            type(most),
        }:
            return least, most
    node.refuse("levels", "a pair of levels such as [0, 9]", value)
    return _REPLICA.levels
