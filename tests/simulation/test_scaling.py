"""What scaling costs and brings, and how faults are felt: figures of whole runs."""

import json
from pathlib import Path

import pytest

from scheduler.simulation.__main__ import main
from scheduler.simulation.costs import REASONS
from scheduler.simulation.fairlane import OUTCOMES
from scheduler.simulation.figures import figures
from scheduler.simulation.least import Least, least_cards, with_cards
from scheduler.simulation.report import Report, document, show
from scheduler.simulation.runner import Task, run_one
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.scenario_file import load
from scheduler.simulation.scheduling import Cluster, Outcome
from scheduler.simulation.shared_queue import Fifo
from scheduler.simulation.workload import Workload
from scheduler.simulation.world import World

from .small import FIXED, GENERATIVE, Scripted, bursts, changed, scenario

# A day takes its time on a busy machine.
pytestmark = pytest.mark.timeout(300)

# Whole cards that the working day needs, as `make simulate SCENARIO=working-day` finds.
LEAST = 6


def three_cards(load: float, **more: object) -> Scenario:
    """Three cards and an idle one, a minute of so many P0 requests of 100 ms per second."""
    hardware = {"slots": 2, "memory_gb": 80, "service_ms": {"detector": 100, "speech": 300}}
    return scenario(
        FIXED,
        {
            "duration_s": 60,
            "cluster.hardware": {"big": hardware},
            "cluster.replicas": [
                {"name": f"big-{number}", "hardware": "big", "pool": "all"} for number in (1, 2, 3)
            ],
            "cluster.idle_cards": 1,
            "arrivals.0.level": "uniform 0-2",
            "arrivals.0.latency_budget_ms": 2000,
            "arrivals.0.rate_qps": [[0, load], [60, load]],
            **more,
        },
    )


def test_in_a_working_day_scaling_costs_little_more_than_the_least_cards() -> None:
    day = load("working-day")
    run = run_one(Task(day, day.seed, "fairlane")).figures
    assert run["cards"]["card_seconds"] <= 1.15 * LEAST * run["cards"]["seconds"]
    assert run["lanes"]["P0"]["budget_met_ratio"] == run["lanes"]["P1"]["budget_met_ratio"] == 1
    assert run["lanes"]["P2"]["success_ratio"] == 1
    assert run["cards"]["given_back"] > 0
    assert run["cards"]["started"] > 0


@pytest.mark.parametrize("lane", [1, 2])
def test_idle_cards_are_used_for_p1_and_p2_as_in_the_running_system(lane: int) -> None:
    """One card at rest, seven idle ones, and for a minute eight times what that one can do. (The
    same with real processes: tests/scaling/test_by_load.py.)"""
    one = three_cards(
        0,
        **{
            "duration_s": 400,
            "cluster.replicas": [{"name": "big-1", "hardware": "big", "pool": "all"}],
            "cluster.idle_cards": 7,
            "cluster.models.detector.load_s": 5,
            "cluster.models.speech.load_s": 5,
            "arrivals.0.level": ("uniform 4-4", "uniform 8-8")[lane - 1],
            "arrivals.0.latency_budget_ms": 60_000,
            "arrivals.0.rate_qps": [[0, 160], [60, 160], [60.001, 0.2], [400, 0.2]],
            "queue_timeout_s": {"P0": 30, "P1": 120, "P2": 3600},
        },
    )
    run = run_one(Task(one, 7, "fairlane")).figures
    # P2 has time, and all of its cards are not needed for that.
    assert run["cards"]["most"] == 8 if lane == 1 else run["cards"]["most"] > 4
    # One was there from the start, and one is left.
    assert run["cards"]["started"] == run["cards"]["given_back"] == run["cards"]["most"] - 1
    assert run["lanes"][f"P{lane}"]["timeouts"] == 0


def test_cards_that_have_enough_to_prefill_ask_for_more_however_many_slots_are_free() -> None:
    """Two prompts a second of two seconds each, and answers of next to nothing: work for four cards
    in a few slots of each."""
    prompts = scenario(
        GENERATIVE,
        {
            "duration_s": 600,
            "cluster.hardware.card.slots": 64,
            "cluster.hardware.card.kv_tokens": 1_000_000,
            "cluster.models.chat.load_s": 5,
            "cluster.idle_cards": 7,
            "arrivals.0.level": "uniform 4-4",
            "arrivals.0.latency_budget_ms": 60_000,
            "arrivals.0.prompt_tokens": {"lognormal_mean": 2000, "cv": 0},
            "arrivals.0.rate_qps": [[0, 2], [600, 2]],
            "queue_timeout_s": {"P0": 30, "P1": 120, "P2": 3600},
        },
    )
    run = run_one(Task(prompts, 7, "fairlane")).figures
    # With slots alone for a measure there would be four cards on average, and 29 s.
    mean, wait = run["cards"]["mean"], run["lanes"]["P1"]["wait_p99_ms"]
    assert mean is not None
    assert 5 < mean < 7
    assert run["lanes"]["P1"]["success_ratio"] == 1
    assert wait is not None
    assert wait < 15_000


@pytest.mark.parametrize(("load", "cards"), [(10, 1), (30, 2), (50, 3), (70, 4)])
def test_the_least_cards_are_found(load: float, cards: int) -> None:
    found = least_cards(three_cards(load), 7)
    assert found.cards == cards
    assert len(found.tried) <= 3


def test_where_all_cards_are_too_few_none_are_found() -> None:
    found = least_cards(three_cards(200), 7)
    assert found.cards is None
    assert max(found.tried) == 4


def test_cards_beyond_the_fixed_ones_are_the_idle_ones_at_rest() -> None:
    fault = {"replica": "big-3", "down_at_s": 2, "up_at_s": 5}
    found = three_cards(1, faults=[fault])
    assert [spec.name for spec in with_cards(found, 4).replicas] == [
        "big-1",
        "big-2",
        "big-3",
        "idle-1",
    ]
    assert with_cards(found, 4).idle_cards == 0
    assert with_cards(found, 4).faults
    assert not with_cards(found, 2).faults


def test_card_seconds_of_a_scheduler_that_does_not_scale() -> None:
    found = three_cards(1, faults=[{"replica": "big-3", "down_at_s": 2.5, "up_at_s": 12.5}])
    run = run_one(Task(found, 7, "fifo")).figures
    seconds = run["cards"]["seconds"]
    assert run["cards"]["card_seconds"] == 3 * seconds - 10
    assert (run["cards"]["least"], run["cards"]["most"]) == (2, 3)
    assert run["cards"]["started"] == run["cards"]["given_back"] == 0


def test_every_refusal_of_the_core_has_its_name() -> None:
    for reason, outcome in OUTCOMES.items():
        assert REASONS[outcome] == reason.value
    assert set(REASONS) == set(Outcome) - {Outcome.UNFINISHED, Outcome.DONE}


def test_refusals_are_told_by_reason() -> None:
    class Refusing(Scripted):
        """Refuses some, each for a reason of its own."""

        def arrived(self, request: int) -> None:
            """See Scheduler."""
            reasons = [Outcome.BACKPRESSURE, Outcome.NO_CAPACITY, Outcome.BACKPRESSURE]
            if request < len(reasons):
                self.cluster.refuse(request, reasons[request])
            else:
                super().arrived(request)

    changes: dict[str, object] = {
        "arrivals.0.rate_qps": [],
        "arrivals.0.burst": bursts(1, 2, 3, 4, 4.001),
        "businesses.0.quota": {"requests_per_s": 1, "burst": 1},
    }
    workload = Workload(scenario(FIXED, changes))
    run = figures(workload, World(workload, Refusing).run())
    assert run["refusals"] == {"rate_limit_requests": 1, "no_capacity": 1, "backpressure": 2}


def test_the_core_s_own_refusals_are_among_them() -> None:
    full = three_cards(120, policy={"scheduler": {"queues": {"P0": {"max_queue": 5}}}})
    run = run_one(Task(full, 7, "fairlane")).figures
    assert run["refusals"]["queue_full"] > 0
    assert sum(run["refusals"].values()) == round(
        (1 - (run["success_ratio"] or 0)) * len(Workload(full, 7))
    )


class Slowed(Fifo):
    """Fifo that starts nothing for some time after the fault."""

    UNTIL_S = 27

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._held: list[int] = []

    def arrived(self, request: int) -> None:
        """See Scheduler."""
        second = self.cluster.now / 1e9
        if 20 <= second < self.UNTIL_S:
            self._held.append(request)
            return
        held, self._held = self._held, []
        for one in [*held, request]:
            super().arrived(one)


def test_time_to_recover_is_until_p0_waits_as_before() -> None:
    fault = {"replica": "big-3", "down_at_s": 20, "up_at_s": 40}
    workload = Workload(three_cards(5, faults=[fault]), 7)
    down, up = figures(workload, World(workload, Slowed).run())["recovery"]
    assert (down["at_s"], down["event"]) == (20, "down")
    assert down["wait_before_ms"] == 0
    # Those held back came within the seven seconds after it; what they left behind is worked
    # off within another.
    assert down["after_s"] is not None
    assert 7 <= down["after_s"] <= 8
    assert (up["at_s"], up["event"], up["after_s"]) == (40, "up", 0)


def test_whoever_is_lost_has_not_recovered() -> None:
    faults = [
        {"replica": f"big-{number}", "down_at_s": 20, "up_at_s": 1000} for number in (1, 2, 3)
    ]
    run = run_one(Task(three_cards(5, faults=faults), 7, "fifo")).figures
    assert [moment["after_s"] for moment in run["recovery"]] == [None]


def test_no_faults_no_recovery() -> None:
    assert run_one(Task(three_cards(1), 7, "fifo")).figures["recovery"] == []


def test_a_report_shows_cards_refusals_and_recovery() -> None:
    fault = {"replica": "big-3", "down_at_s": 20, "up_at_s": 40}
    found = three_cards(70, faults=[fault], **{"queue_timeout_s.P0": 0.2})
    run = run_one(Task(found, 7, "fifo"))
    least = Least(3, {2: (0.9, None), 3: (1.0, None)})
    report = Report(found, 7, 1.0, {"fairlane": run}, least)
    text = show(report)
    whole = 3 * run.figures["cards"]["seconds"]
    assert f"3 cards are the least, {whole:,} card-seconds" in text
    for line in ("card-seconds", "refused: queue_timeout", "recovers from down at 20 s, s"):
        assert f"\n{line}" in text
    told = document(report)["least_cards"]
    assert isinstance(told, dict)
    assert told["cards"] == 3
    none = Report(found, 7, 1.0, {"fairlane": run}, Least(None, {4: (0.5, 0.5)}))
    assert "not even all cards" in show(none)


def test_the_search_is_made_where_scaling_is_part_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.json"
    scaled = changed(GENERATIVE, {"cluster.idle_cards": 1, "arrivals.0.burst": bursts(1, 2)})
    path.write_text(json.dumps(scaled), encoding="utf-8")
    common = ["--scenario", str(path), "--only", "fairlane", "--out", str(tmp_path)]
    assert main([*common, "--processes", "1"]) == 0
    assert "1 cards are the least" in capsys.readouterr().out
    assert '"least_cards"' in (tmp_path / "words.json").read_text(encoding="utf-8")
    assert main([*common, "--processes", "1", "--no-search"]) == 0
    assert "are the least" not in capsys.readouterr().out
