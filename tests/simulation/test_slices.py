"""Thirty seconds of two scenarios: the core against the reference, on the same requests."""

from dataclasses import replace

import pytest

from scheduler.simulation.figures import RunFigures
from scheduler.simulation.rates import due
from scheduler.simulation.runner import Task, run_one
from scheduler.simulation.scenario import Arrivals, Burst, Scenario
from scheduler.simulation.scenario_file import load

SLICE_S = 30
MOMENT_S = 1e-3

# A slice of the peak takes its time on a busy machine.
pytestmark = pytest.mark.timeout(300)


def sliced(scenario: Scenario, begin: float) -> Scenario:
    """Half a minute from the middle of a scenario."""

    def moved(stream: Arrivals) -> Arrivals:
        first = (0.0, due(stream.rate, begin, begin + MOMENT_S) / MOMENT_S)
        later = tuple((at - begin, rate) for at, rate in stream.rate if at > begin)
        bursts = tuple(Burst(b.at_s - begin, b.count) for b in stream.bursts if b.at_s >= begin)
        return replace(stream, rate=(first, *later), bursts=bursts)

    arrivals = tuple(moved(stream) for stream in scenario.arrivals)
    return replace(scenario, duration_s=SLICE_S, arrivals=arrivals)


def both(scenario: Scenario) -> tuple[RunFigures, RunFigures]:
    """Figures under the core and under fixed-priority."""
    own, other = (
        run_one(Task(scenario, scenario.seed, name)).figures
        for name in ("fairlane", "fixed-priority")
    )
    return own, other


def number(value: float | None) -> float:
    assert value is not None
    return value


def test_at_the_peak() -> None:
    own, other = both(sliced(load("ramp-to-peak"), 185))
    assert number(own["p0_p95_ms"]) < 0.44 * number(other["p0_p95_ms"])
    assert number(own["sla_miss_ratio"]) < 0.13 * number(other["sla_miss_ratio"])
    assert own["peak_throughput_qps"] > 1.3 * other["peak_throughput_qps"]
    assert number(own["starved_ratio"]) < 0.21 * number(other["starved_ratio"])
    assert number(own["success_ratio"]) > 1.05 * number(other["success_ratio"])
    assert number(own["yield_per_slot_s"]) > 1.27 * number(other["yield_per_slot_s"])


def test_services_come_as_foretold() -> None:
    """Lengths of answers are drawn, so half of what is foretold cannot be nearer; with those
    known, what is left is the speed, which is measured well."""
    scenario = load("working-day").cut(240)
    told = run_one(Task(scenario, scenario.seed, "fairlane")).figures["predictor"]["P0"]
    assert number(told["service_error"]) < 0.2
    assert number(told["known_length_error"]) < 0.06
    assert number(told["latency_error"]) < 0.2


def test_when_an_evaluation_fills_the_cards() -> None:
    own, other = both(sliced(load("incident-eval-fills-cards"), 25))
    assert number(own["sla_miss_ratio"]) <= 0.005
    assert number(own["p0_wait_p99_ms"]) < 0.5 * number(other["p0_wait_p99_ms"])
    assert own["lanes"]["P2"]["success_ratio"] == 1
    assert own["unfinished"] == 0
