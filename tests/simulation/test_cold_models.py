"""A model that no replica holds: P0 has an idle card load it, and waits for that."""

import json
from pathlib import Path

import pytest

from scheduler.simulation.__main__ import main
from scheduler.simulation.figures import RunFigures
from scheduler.simulation.runner import Task, run_one
from scheduler.simulation.schedulers import SCHEDULERS
from scheduler.simulation.workload import Workload

from .small import FIXED, Document, changed, scenario

LOAD_S = 8


def cold(level: str, **more: object) -> Document:
    """The card holds the detector; speech would fit alone, and an idle card is there. Speech
    is asked for twice a second from the tenth second on."""
    card = {"slots": 2, "memory_gb": 5, "service_ms": {"detector": 100, "speech": 300}}
    stream = {
        "model": "speech",
        "businesses": {"shop": 1},
        "level": level,
        "latency_budget_ms": 60_000,
        "rate_qps": [[0, 0], [9.99, 0], [10, 2], [60, 2]],
    }
    return changed(
        FIXED,
        {
            "duration_s": 60,
            "cluster.hardware": {"big": card},
            "cluster.replicas": [{"name": "big-1", "hardware": "big", "pool": "all"}],
            "cluster.models.speech.load_s": LOAD_S,
            "cluster.idle_cards": 1,
            "arrivals": [FIXED["arrivals"][0], stream],  # type: ignore[index]
            "arrivals.0.rate_qps": [[0, 1], [60, 1]],
            "queue_timeout_s.P0": 10,
            **more,
        },
    )


def figures(document: Document, scheduler: str = "fairlane") -> RunFigures:
    found = scenario(document)
    return run_one(Task(found, found.seed, scheduler)).figures


def test_p0_starts_a_card_for_its_model_and_waits_for_it() -> None:
    run = figures(cold("uniform 0-2"))
    assert run["lanes"]["P0"]["success_ratio"] == 1
    assert run["cards"]["started"] == 1
    assert run["cards"]["most"] == 2
    # Those of the first seconds have waited for the load, and nobody for longer.
    slowest = run["models"]["speech"]["p0_p99_ms"]
    assert slowest is not None
    assert 0.7 * LOAD_S * 1000 < slowest < (LOAD_S + 5) * 1000


def test_p1_starts_nothing() -> None:
    document = cold("uniform 4-4")
    run = figures(document)
    assert run["cards"]["started"] == 0
    speech = sum(model == 1 for model in Workload(scenario(document)).model)
    assert run["refusals"] == {"no_capacity": speech}


def test_with_cold_starts_off_it_is_refused() -> None:
    off = {"scheduler": {"cold_start": {"enabled": False}}}
    run = figures(cold("uniform 0-2", policy=off))
    assert run["cards"]["started"] == 0
    assert run["refusals"]["no_capacity"] > 0


def test_what_loads_for_too_long_is_given_up() -> None:
    hasty = {"scheduler": {"cold_start": {"wait_s": 3}}}
    run = figures(cold("uniform 0-2", policy=hasty))
    assert run["refusals"]["no_capacity"] > 0
    assert run["lanes"]["P0"]["success_ratio"] != 1


@pytest.mark.parametrize("scheduler", [name for name in SCHEDULERS if name != "fairlane"])
def test_the_plainer_schedulers_never_serve_it(scheduler: str) -> None:
    document = cold("uniform 0-2")
    run = figures(document, scheduler)
    speech = sum(model == 1 for model in Workload(scenario(document)).model)
    assert sum(run["refusals"].values()) == speech
    assert run["cards"]["started"] == 0
    assert run["unfinished"] == 0


def test_the_command_takes_such_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "cold.json"
    path.write_text(json.dumps(cold("uniform 0-2")), encoding="utf-8")
    assert main(["--scenario", str(path), "--out", str(tmp_path), "--processes", "1"]) == 0
