"""The cluster of a scenario: hardware, models, pools, replicas."""

import re

from metering.core.facts import LANES
from scheduler.core.fleet import ModelFacts, PoolFacts
from scheduler.core.policy import Problem
from scheduler.plain_data import Node

from .reading_tools import MOST, TEXT, finish, items, keys
from .scenario import Hardware, Model, ReplicaSpec

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
NAME_ALLOWED = "letters, digits and . _ : / @ + -, beginning with a letter or digit"
WEIGHTS = ("light", "medium", "heavy")
REALTIME = ("high", "medium", "low")
MOST_SLOTS = 100_000


def read_cluster(
    node: Node, remarks: list[Problem]
) -> tuple[dict[str, Model], list[ReplicaSpec], int]:
    """Models by name, replicas, and the number of idle cards."""
    models = {name: _model(name, item, remarks) for name, item in _named(node, "models")}
    hardware = {
        name: _hardware(name, item, models, remarks) for name, item in _named(node, "hardware")
    }
    pools = {pool.name: pool for pool in (_pool(item, remarks) for item in items(node, "pools"))}
    replicas: list[ReplicaSpec] = []
    for item in items(node, "replicas"):
        kind = hardware.get(item.needed_choice("hardware", list(hardware)))
        pool = pools.get(item.needed_choice("pool", list(pools)))
        name = item.needed("name", NAME, NAME_ALLOWED)
        hot = item.choice("path", "hot", ("hot", "cold")) == "hot"
        if any(replica.name == name for replica in replicas):
            item.note("name", "stands there twice")
        if kind is not None and pool is not None:
            replicas.append(ReplicaSpec(name, kind, pool, _held(kind, models), hot=hot))
        finish(item, remarks)
    if not replicas:
        node.note("replicas", "must name at least one")
    idle = node.whole("idle_cards", 0, 0, MOST_SLOTS)
    finish(node, remarks)
    return models, replicas, idle


def _named(node: Node, key: str) -> list[tuple[str, Node]]:
    inner = node.child(key)
    if inner is None:
        node.note(key, "is missing: must be a mapping by name")
        return []
    return [(name, inner.child(name) or Node({}, "", [])) for name in keys(node, key)]


def _model(name: str, node: Node, remarks: list[Problem]) -> Model:
    generative = node.choice("kind", "fixed", ("fixed", "generative")) == "generative"
    found = Model(
        facts=ModelFacts(
            name=name,
            weight=node.choice("weight", "medium", WEIGHTS),
            task=node.text("task", "chat", TEXT, "a text"),
            realtime=node.choice("realtime", None, REALTIME),
            offline=node.flag("offline", default=False),
            generative=generative,
        ),
        cv=node.number("cv", 0.0, 0, 100),
        memory_gb=node.number("memory_gb", 0.0, 0, MOST),
        load_s=node.number("load_s", 0.0, 0, MOST),
    )
    finish(node, remarks)
    return found


def _hardware(name: str, node: Node, models: dict[str, Model], remarks: list[Problem]) -> Hardware:
    service: dict[str, float] = {}
    times = node.child("service_ms")
    if times is not None:
        for model in keys(node, "service_ms"):
            service[model] = times.number(model, 1.0, 1e-6, MOST)
            if model not in models or models[model].facts.generative:
                times.note(model, "is no fixed model of cluster.models")
    step = node.child("step_ms")
    base = per_running = 0.0
    if step is not None:
        base = step.number("base", 0.0, 0, MOST)
        per_running = step.number("per_running", 0.0, 0, MOST)
        if not base + per_running:
            step.note("base", "a step can't take no time")
        finish(step, remarks)
    found = Hardware(
        name=name,
        slots=node.whole("slots", 1, 1, MOST_SLOTS),
        gpus=node.number("gpus", 1.0, 0, MOST),
        memory_gb=node.number("memory_gb", MOST, 0, MOST),
        service_ms=service,
        prefill_tokens_per_s=node.number("prefill_tokens_per_s", 0.0, 0, MOST),
        step_base_ms=base,
        step_per_running_ms=per_running,
        kv_tokens=node.whole("kv_tokens", None, 1, 2**62),
    )
    finish(node, remarks)
    return found


def _pool(node: Node, remarks: list[Problem]) -> PoolFacts:
    lanes = node.names("lanes", LANES, re.compile("P[0-2]"), "one of P0, P1, P2")
    found = PoolFacts(
        name=node.needed("name", NAME, NAME_ALLOWED),
        dedicated=node.choice("kind", "elastic", ("dedicated", "elastic")) == "dedicated",
        lanes=frozenset(LANES.index(lane) for lane in lanes),
    )
    finish(node, remarks)
    return found


def _held(kind: Hardware, models: dict[str, Model]) -> tuple[str, ...]:
    """Models that the hardware can serve and that fit its memory, the smallest first."""
    held, room = [], kind.memory_gb
    for name in kind.able(models.values()):
        if models[name].memory_gb <= room:
            held.append(name)
            room -= models[name].memory_gb
    return tuple(held)
