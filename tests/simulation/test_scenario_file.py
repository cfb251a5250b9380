"""Scenario files: what is read, what is refused and where."""

import json
from pathlib import Path

import pytest

from scheduler.simulation.scenario_file import ScenarioError, built_in, load, parse

from .small import FIXED, TALK, TALKS, Document, changed, scenario

ROOT = Path(__file__).resolve().parents[2]
COPIES = ROOT / "scheduler" / "simulation" / "scenarios"


def test_the_project_has_its_own_scenarios() -> None:
    assert built_in() == [
        "even-cards",
        "incident-eval-fills-cards",
        "multi-turn-chat",
        "ramp-to-peak",
        "replica-loss",
        "tenant-contention",
        "urgent-burst",
        "working-day",
    ]
    for name in built_in():
        found = load(name)
        assert found.name == name
        assert not found.remarks


def test_copies_are_those_they_were_made_of() -> None:
    """Beside the project there may be the folder that the copies come from."""
    for original in (ROOT.parent / "shared" / "scenarios").glob("*.json"):
        assert (COPIES / original.name).read_bytes() == original.read_bytes(), original.name


def test_a_file_is_read_whole() -> None:
    found = load(str(COPIES / "ramp-to-peak.json"))
    by_name = {spec.name: spec for spec in found.replicas}
    assert by_name["a100-1"].models == ("detector", "speech", "summary")
    # Nothing says how long a summary takes on this card, so it can't serve any.
    assert by_name["orin-1"].models == ("detector", "speech")
    assert by_name["a100-1"].pool.dedicated
    assert found.policy.queue(0).queue_timeout_ms == 1000
    assert found.starved_after_s == 5
    assert found.cuts() == [0, 60, 180, 480, 481, 560]
    assert found.arrivals[0].budgets == (100,) * 3 + (300,) * 4 + (5000,) * 3


def test_models_that_do_not_fit_the_memory_are_not_held() -> None:
    specs = scenario(FIXED).replicas
    assert [spec.models for spec in specs] == [("detector", "speech"), ("detector",)]


def test_a_policy_of_its_own_comes_before_the_timeouts() -> None:
    policy = {"scheduler": {"queues": {"P0": {"queue_timeout_ms": 2500}}}}
    found = scenario(FIXED, {"policy": policy}).policy
    assert [found.queue(lane).queue_timeout_ms for lane in range(3)] == [2500, 5000, 30000]


def test_budgets_are_measured_to_completion_unless_the_policy_says_otherwise() -> None:
    changes: list[Document] = [{}, {"policy": None}, {"policy": {}}]
    for change in changes:
        found = scenario(FIXED, change).policy
        assert [found.queue(lane).budget_on for lane in range(2)] == ["completion"] * 2
    own = {"scheduler": {"queues": {"P1": {"budget_on": "first_token", "max_queue": 7}}}}
    found = scenario(FIXED, {"policy": own}).policy
    assert [found.queue(lane).budget_on for lane in range(2)] == ["completion", "first_token"]
    assert found.queue(1).max_queue == 7


@pytest.mark.parametrize("name", built_in())
def test_every_scenario_of_the_project_is_judged_as_its_figures_are(name: str) -> None:
    policy = load(name).policy
    assert {policy.queue(lane).budget_on for lane in range(2)} == {"completion"}


def test_a_stream_that_no_card_can_serve_is_remarked_on() -> None:
    # 4 GB of speech fit no card of 2.
    edges = [{"name": "edge-1", "hardware": "edge", "pool": "all"}]
    speech = {**FIXED["arrivals"][0], "model": "speech"}  # type: ignore[index]
    changes = {"cluster.replicas": edges, "arrivals": [*FIXED["arrivals"], speech]}  # type: ignore[misc]
    found = scenario(FIXED, changes)
    (remark,) = found.remarks
    assert remark.startswith("arrivals[1].model: no replica holds speech, and no idle card could")
    assert len(found.arrivals) == 2


def test_unknown_keys_are_remarked_on() -> None:
    found = scenario(FIXED, {"brusts": [], "cluster.hardware.big.colour": "red"})
    assert [remark.partition(":")[0] for remark in found.remarks] == [
        "cluster.hardware.big.colour",
        "brusts",
    ]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"duration_s": "long"}, "duration_s"),
        ({"cluster.hardware.big.slots": 0}, "cluster.hardware.big.slots"),
        ({"cluster.hardware.big.service_ms.detector": -1}, "cluster.hardware.big.service_ms"),
        ({"cluster.hardware.big.service_ms.poet": 5}, "cluster.hardware.big.service_ms.poet"),
        ({"cluster.models.speech.kind": "magic"}, "cluster.models.speech.kind"),
        ({"cluster.replicas.1.hardware": "abacus"}, "cluster.replicas[1].hardware"),
        ({"cluster.replicas.1.name": "big-1"}, "cluster.replicas[1].name"),
        ({"arrivals.0.model": "poet"}, "arrivals[0].model"),
        ({"arrivals.0.level": "high"}, "arrivals[0].level"),
        ({"arrivals.0.level": "uniform 5-2"}, "arrivals[0].level"),
        ({"arrivals.0.rate_qps": [[5, 1], [0, 1]]}, "arrivals[0].rate_qps"),
        ({"arrivals.0.businesses": {"nobody": 1}}, "arrivals[0].businesses.nobody"),
        ({"arrivals.0.latency_budget_ms": {"0-2": -1}}, "arrivals[0].latency_budget_ms"),
        ({"faults": [{"replica": "big-9"}]}, "faults[0].replica"),
        ({"policy": {"scheduler": {"mode": "odd"}}}, "policy.scheduler.mode"),
        ({"policy": {"scheduler": 5}}, "policy.scheduler"),
        ({"policy": {"scheduler": {"queues": []}}}, "policy.scheduler.queues"),
        ({"policy": {"scheduler": {"queues": {"P0": "fast"}}}}, "policy.scheduler.queues.P0"),
        ({"policy": ["strict"]}, "policy"),
        ({"businesses.0.quota": {"burst": -5}}, "businesses[0].quota.burst"),
        ({"arrivals.0.conversations": TALKS}, "arrivals[0].conversations"),
    ],
)
def test_what_cannot_work_is_refused_with_its_path(changes: dict[str, object], path: str) -> None:
    refused(FIXED, changes, path)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"rate_qps": [[0, 1]]}, "rate_qps"),
        ({"burst": [{"at_s": 1, "count": 1}]}, "burst"),
        ({"process": "poisson"}, "process"),
        ({"prompt_tokens": {"lognormal_mean": 5}}, "prompt_tokens"),
        ({"conversations.begin_s": [5, 1]}, "conversations.begin_s"),
        ({"conversations.begin_s": 5}, "conversations.begin_s"),
        ({"conversations.turns": None}, "conversations.turns"),
        ({"conversations.think_s.lognormal_mean": 0}, "conversations.think_s.lognormal_mean"),
        ({"conversations.system_tokens": -1}, "conversations.system_tokens"),
        ({"conversations.count": 1.5}, "conversations.count"),
        ({"conversations.user_tokens": None}, "conversations.user_tokens"),
        ({"output_tokens": None}, "output_tokens"),
    ],
)
def test_conversations_that_cannot_be_are_refused(changes: dict[str, object], path: str) -> None:
    refused(TALK, {f"arrivals.0.{key}": to for key, to in changes.items()}, f"arrivals[0].{path}")


def refused(base: Document, changes: dict[str, object], path: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(json.dumps(changed(base, changes)), "mine.json")
    assert any(problem.path.startswith(path) for problem in caught.value.problems)
    assert str(caught.value).startswith("mine.json: ")


def test_a_file_that_is_not_there_names_the_built_in_ones() -> None:
    with pytest.raises(ScenarioError, match="ramp-to-peak"):
        load("no-such-scenario")


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(ScenarioError, match="JSON"):
        parse("{")
