"""Scenarios of odd shapes: nobody to serve a stream, nothing to do, one slot, all at once."""

import json
from pathlib import Path

import pytest

from scheduler.simulation.__main__ import main
from scheduler.simulation.figures import RunFigures
from scheduler.simulation.runner import Task, run_one
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.schedulers import SCHEDULERS
from scheduler.simulation.workload import Workload

from .small import FIXED, GENERATIVE, Document, changed, scenario

EVERY = pytest.mark.parametrize("scheduler", list(SCHEDULERS))
EDGE = {"name": "edge-1", "hardware": "edge", "pool": "all"}
STREAM = {
    "model": "detector",
    "businesses": {"shop": 1},
    "level": "uniform 0-9",
    "rate_qps": [[0, 3], [10, 3]],
}
# The one card is too small for speech, which is asked for in every lane.
UNSERVED: Document = changed(
    FIXED, {"cluster.replicas": [EDGE], "arrivals": [STREAM, {**STREAM, "model": "speech"}]}
)


def run(found: Scenario, scheduler: str) -> RunFigures:
    return run_one(Task(found, found.seed, scheduler)).figures


def arrived(found: Scenario, model: str) -> int:
    workload = Workload(found)
    place = workload.models.index(model)
    return sum(index == place for index in workload.model)


@EVERY
def test_what_nobody_can_serve_is_refused_at_once_and_counts_as_failed(scheduler: str) -> None:
    found = scenario(UNSERVED)
    figures = run(found, scheduler)
    speech, detector = arrived(found, "speech"), arrived(found, "detector")
    assert figures["refusals"]["no_capacity"] == speech > 0
    assert sum(figures["refusals"].values()) == speech + figures["timeouts"]
    success = (detector - figures["timeouts"]) / (speech + detector)
    assert figures["success_ratio"] == pytest.approx(success)
    assert figures["sla_miss_ratio"] is not None
    assert figures["sla_miss_ratio"] > 0.3
    assert figures["unfinished"] == 0
    # Nobody waits for what will not come.
    assert all(lane["timeouts"] == 0 for lane in list(figures["lanes"].values())[1:])


@EVERY
def test_a_cluster_that_can_serve_nothing_refuses_everything(scheduler: str) -> None:
    bare = {"edge": {"slots": 1, "memory_gb": 1}}
    found = scenario(UNSERVED, {"cluster.hardware": bare})
    figures = run(found, scheduler)
    assert figures["refusals"] == {"no_capacity": len(Workload(found))}
    assert figures["success_ratio"] == 0
    assert figures["peak_throughput_qps"] == 0


@EVERY
@pytest.mark.parametrize("base", [FIXED, GENERATIVE])
def test_a_scenario_without_requests(scheduler: str, base: Document) -> None:
    for arrivals in ([], [{**base["arrivals"][0], "rate_qps": [], "burst": []}]):  # type: ignore[index]
        figures = run(scenario(base, {"arrivals": arrivals}), scheduler)
        assert figures["success_ratio"] is None
        assert figures["refusals"] == {}


@EVERY
def test_one_slot_and_all_at_once(scheduler: str) -> None:
    changes: Document = {
        "cluster.hardware.card.slots": 1,
        "arrivals.0.burst": [{"at_s": 0, "count": 40}, {"at_s": 0, "count": 1}],
        "arrivals.0.output_tokens": {"lognormal_mean": 20, "cv": 2},
        "queue_timeout_s": {"P2": 600},
    }
    figures = run(scenario(GENERATIVE, changes), scheduler)
    assert figures["success_ratio"] == 1
    assert figures["unfinished"] == 0


@EVERY
def test_more_tokens_than_a_card_can_hold(scheduler: str) -> None:
    """An engine cuts what is too long; here it has the card to itself."""
    changes: Document = {
        "cluster.hardware.card.kv_tokens": 50,
        "arrivals.0.burst": [{"at_s": 1, "count": 5}],
        "queue_timeout_s": {"P2": 600},
    }
    figures = run(scenario(GENERATIVE, changes), scheduler)
    assert figures["success_ratio"] == 1


@EVERY
def test_the_only_replica_is_lost_for_good(scheduler: str) -> None:
    fault = {"replica": "edge-1", "down_at_s": 4}
    found = scenario(FIXED, {"cluster.replicas": [EDGE], "faults": [fault]})
    figures = run(found, scheduler)
    assert figures["success_ratio"] is not None
    assert 0 < figures["success_ratio"] < 1
    assert figures["unfinished"] == 0


def test_the_command_says_what_nobody_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "unserved.json"
    path.write_text(json.dumps({**UNSERVED, "brusts": []}), encoding="utf-8")
    assert main(["--scenario", str(path), "--out", str(tmp_path), "--processes", "1"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("small: brusts: unknown key")
    assert told[0].endswith("(ignored)")
    assert len(told) == 2
    assert told[1].startswith("small: arrivals[1].model: no replica holds speech")
    found = json.loads((tmp_path / "small.json").read_text(encoding="utf-8"))
    assert found["throughput_bound_qps"] == pytest.approx(5)
