"""The fleet file: strict in, the same out."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.fleet_document import (
    BusinessSpec,
    FleetDocument,
    ModelSpec,
    PoolSpec,
    QuotaSpec,
    ReplicaSpec,
)
from scheduler.fleet_file import FleetError, dump_fleet, parse_fleet

# The example of the contract, as it stands there.
EXAMPLE = """\
pools:
  - {name: gpu-p0, kind: dedicated, lanes: [P0]}
  - {name: gpu-elastic, kind: elastic, lanes: [P0, P1, P2]}
models:
  - {name: chat, weight: medium, task: chat, realtime: medium}
replicas:
  - {name: card-1, url: "http://10.0.0.1:8000", engine: vllm, pool: gpu-elastic, slots: 8, gpus: 1, models: {chat: org/Model-7B}}
businesses:
  - {name: risk-audit, grade: vip, ceiling: P0, realtime: high, billing_sla: true, quota: {running: 64}}
  - {name: offline-eval, grade: basic, ceiling: P2, offline: true}
"""  # noqa: E501

FULL = FleetDocument(
    pools=(PoolSpec("gpu-p0", "dedicated", ("P0",)), PoolSpec("gpu-elastic")),
    models=(
        ModelSpec("chat"),
        ModelSpec("chat-s", "light", "chat", "high", True, "generative", "chat"),
        ModelSpec("ocr", kind="fixed", task="vision"),
    ),
    replicas=(
        ReplicaSpec(
            name="card-1",
            url="http://10.0.0.1:8000",
            engine="sglang",
            pool="gpu-p0",
            slots=16,
            gpus=0.5,
            kv_tokens=100_000,
            models={"chat": "org/Model-7B", "chat-s": "/models/chat s.gguf"},
            service_class="high",
            levels=(0, 2),
            path="cold",
            engine_priority=True,
            token_file="/run/secrets/card-1",
            metrics_url="http://10.0.0.1:8001/metrics",
            dcgm_url="http://10.0.0.1:9400/metrics",
            kv_events_url="tcp://10.0.0.1:5557",
        ),
    ),
    businesses=(
        BusinessSpec("plain"),
        BusinessSpec(
            name="risk-audit",
            tags=("risk", "007", "null"),
            grade="vip",
            ceiling="P0",
            realtime="high",
            offline=False,
            billing_sla=True,
            degrade=True,
            weight=2.5,
            models=("chat",),
            quota=QuotaSpec(0.5, 10, 600_000, 64, 0, 0.333, Decimal("1234.56")),
            envelope=QuotaSpec(),
            latency_budget_ms=2500,
        ),
        BusinessSpec(
            "blocked", models=(), quota=QuotaSpec(gpu_share=0.0, monthly_budget=Decimal(0))
        ),
    ),
)


def problems(text: str) -> list[str]:
    with pytest.raises(FleetError) as refused:
        parse_fleet(text)
    return [f"{problem.path}: {problem.message}" for problem in refused.value.problems]


def test_the_example_reads() -> None:
    document = parse_fleet(EXAMPLE)
    assert document.pools == (PoolSpec("gpu-p0", "dedicated", ("P0",)), PoolSpec("gpu-elastic"))
    assert document.models == (ModelSpec("chat", realtime="medium"),)
    assert document.businesses is not None
    assert document.businesses[0].quota == QuotaSpec(running=64)
    assert document.businesses[0].envelope is None
    assert document.businesses[1] == BusinessSpec("offline-eval", ceiling="P2", offline=True)


def test_every_field_reads_back_as_it_was_written() -> None:
    assert parse_fleet(dump_fleet(FULL)) == FULL


def test_defaults_are_not_written() -> None:
    assert dump_fleet(FleetDocument(pools=(PoolSpec("a"),), models=())) == (
        "pools:\n- {name: a}\nmodels: []\n"
    )


@given(
    st.builds(
        QuotaSpec,
        requests_per_s=st.none() | st.floats(0, 1e9),
        burst=st.none() | st.integers(0, 2**31 - 1),
        tokens_per_min=st.none() | st.integers(0, 2**63 - 1),
        running=st.none() | st.integers(0, 2**31 - 1),
        queued=st.none() | st.integers(0, 2**31 - 1),
        gpu_share=st.none() | st.integers(0, 10**9).map(lambda part: part / 10**9),
        monthly_budget=st.none()
        | st.decimals(0, 10**13, places=6, allow_nan=False, allow_infinity=False),
    )
)
def test_any_quota_reads_back_the_same(quota: QuotaSpec) -> None:
    document = FleetDocument(businesses=(BusinessSpec("a", quota=quota, envelope=quota),))
    assert parse_fleet(dump_fleet(document)) == document


def test_parts_that_are_not_there_are_not_empty_ones() -> None:
    assert parse_fleet("") == FleetDocument()
    assert parse_fleet("pools: []") == FleetDocument(pools=())
    assert parse_fleet("pools: []").models is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a", ": must be a mapping; got"),
        ("pool: []", "pool: unknown key; did you mean pools? allowed are pools, models"),
        ("pools: {}", "pools: must be a list; got {}"),
        ("pools: [x]", "pools[0]: must be a mapping; got x"),
        ("pools: [{kind: elastic}]", "pools[0].name: is missing"),
        ("pools: [{name: Gpu}]", "pools[0].name: must be lower-case"),
        ("pools: [{name: -a}]", "pools[0].name: must be lower-case"),
        ("pools: [{name: 7}]", "pools[0].name: must be lower-case"),
        ("pools: [{name: a, lanes: []}]", "pools[0].lanes: must name at least one lane"),
        ("pools: [{name: a, lanes: [P3]}]", "pools[0].lanes: must be a list, each item one of P0"),
        ("pools: [{name: a, lanes: [P0, P0]}]", "pools[0].lanes: must be a list with nothing"),
        ("pools: [{name: a, kind: shared}]", "pools[0].kind: must be one of dedicated, elastic"),
        ("pools: [{name: a, kind: null}]", "pools[0].kind: must be one of dedicated, elastic; got"),
        (
            "pools: [{name: a, kind: elastic, knd: x}]",
            "pools[0].knd: unknown key; did you mean kind",
        ),
        ("pools: [{name: a}, {name: a}]", "pools[1].name: pools[0] has the name a already"),
        ("pools: [{name: a, name: b}]", "pools[0].name: the key stands twice"),
        ("models: [{name: 'a b'}]", "models[0].name: must be letters"),
        ("models: [{name: a, offline: yes}]", "models[0].offline: must be true or false; got yes"),
        ("replicas: [{name: a, pool: p, engine: vllm}]", "replicas[0].url: is missing"),
        ("replicas: [{name: a, url: x, pool: p}]", "replicas[0].engine: is missing"),
        (
            "replicas: [{name: a, url: x, pool: p, engine: vllm, slots: 0}]",
            "replicas[0].slots: must be a whole number of at least 1",
        ),
        (
            "replicas: [{name: a, url: x, pool: p, engine: vllm, slots: true}]",
            "replicas[0].slots: must be a whole number",
        ),
        (
            "replicas: [{name: a, url: x, pool: p, engine: vllm, gpus: -1}]",
            "replicas[0].gpus: must be a number of at least 0",
        ),
        (
            "replicas: [{name: a, url: x, pool: p, engine: vllm, levels: [3, 2]}]",
            "replicas[0].levels: must be a pair of levels",
        ),
        (
            "replicas: [{name: a, url: x, pool: p, engine: vllm, levels: [false, true]}]",
            "replicas[0].levels: must be a pair of levels",
        ),
        (
            "replicas: [{name: a, url: x, pool: p, engine: vllm, models: [chat]}]",
            "replicas[0].models: must be a mapping",
        ),
        (
            "replicas: [{name: a, url: x, pool: p, engine: vllm, models: {chat: 3}}]",
            "replicas[0].models.chat: must be a text",
        ),
        (
            "replicas: [{name: a, url: x, pool: p, engine: vllm, models: {chat: null}}]",
            "replicas[0].models.chat: must be a text",
        ),
        ("businesses: [{name: a, quota: 3}]", "businesses[0].quota: must be a mapping; got 3"),
        (
            "businesses: [{name: a, quota: {running: -1}}]",
            "businesses[0].quota.running: must be a whole number of at least 0 and at most",
        ),
        (
            "businesses: [{name: a, quota: {runing: 1}}]",
            "businesses[0].quota.runing: unknown key; did you mean running?",
        ),
        (
            "businesses: [{name: a, envelope: {gpu_share: 0.25}}]",
            'businesses[0].envelope.gpu_share: must be a percentage such as "25%"',
        ),
        (
            "businesses: [{name: a, quota: {gpu_share: 101%}}]",
            "businesses[0].quota.gpu_share: must be a percentage",
        ),
        (
            "businesses: [{name: a, quota: {monthly_budget: -0.01}}]",
            "businesses[0].quota.monthly_budget: must be an amount of at least 0",
        ),
        (
            "businesses: [{name: a, quota: {monthly_budget: '0.0000001'}}]",
            "businesses[0].quota.monthly_budget: must be an amount",
        ),
        (
            "businesses: [{name: a, quota: {monthly_budget: NaN}}]",
            "businesses[0].quota.monthly_budget: must be an amount",
        ),
        (
            "businesses: [{name: a, weight: 0}]",
            "businesses[0].weight: must be a number of at least",
        ),
        (
            "businesses: [{name: a, tags: [x, x]}]",
            "businesses[0].tags: must be a list with nothing",
        ),
        (
            "businesses: [{name: a, latency_budget_ms: 0}]",
            "businesses[0].latency_budget_ms: must be",
        ),
        ("pools: [&x {name: a}]", "pools[0]: anchors and aliases are not allowed"),
        ("pools: [", ": not valid YAML"),
    ],
)
def test_what_is_wrong_is_told_with_its_path(text: str, problem: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_blank_is_unlimited_and_zero_is_blocked() -> None:
    text = "businesses: [{name: a, quota: {running: , queued: 0, gpu_share: 0, burst: null}}]"
    document = parse_fleet(text)
    assert document.businesses is not None
    assert document.businesses[0].quota == QuotaSpec(queued=0, gpu_share=0.0)


def test_all_problems_are_told_at_once_with_their_lines() -> None:
    text = EXAMPLE.replace("slots: 8", "slots: none").replace("grade: basic", "grade: gold")
    with pytest.raises(FleetError) as refused:
        parse_fleet(text)
    assert [(problem.path, problem.line) for problem in refused.value.problems] == [
        ("replicas[0].slots", 7),
        ("businesses[1].grade", 10),
    ]
    assert str(refused.value).count("\n") == 1
