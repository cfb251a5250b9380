"""Figures, on records made by hand."""

import pytest

from scheduler.simulation.figures import RunFigures, figures
from scheduler.simulation.measures import best_window, growth, percentile
from scheduler.simulation.records import Records
from scheduler.simulation.scenario import SECOND
from scheduler.simulation.scheduling import Outcome
from scheduler.simulation.series import wait_series
from scheduler.simulation.workload import Workload

from .small import FIXED, scenario

MS = 1_000_000


def stream(level: int, *moments: float) -> dict[str, object]:
    return {
        "model": "detector",
        "businesses": {"shop": 1},
        "level": f"uniform {level}-{level}",
        "latency_budget_ms": {"0-2": 150, "3-6": 300},
        "rate_qps": [[5, 0], [10, 0]],
        "burst": [{"at_s": at, "count": 1} for at in moments],
    }


def made() -> tuple[Workload, Records]:
    """Four P0 requests in the first half, one in the second, and three of P2."""
    arrivals = [stream(1, 1, 1, 1, 1, 6), stream(8, 2, 2, 7)]
    workload = Workload(scenario(FIXED, {"arrivals": arrivals}))
    records = Records(len(workload))
    rows = [
        (Outcome.DONE, 100, 0),
        (Outcome.DONE, 150, 50),
        (Outcome.DONE, 151, 51),
        (Outcome.TIMEOUT, 1000, 1000),
        (Outcome.DONE, 200, 100),
        (Outcome.DONE, 5200, 5100),
        (Outcome.QUOTA, 0, 0),
        (Outcome.UNFINISHED, 0, 0),
    ]
    # In order of arrival: P0 at 1 s, P2 at 2 s, P0 at 6 s, P2 at 7 s.
    for index, row in enumerate((*rows[:4], *rows[5:7], rows[4], rows[7])):
        outcome, took, waited = row
        records.outcome[index] = outcome
        records.ended[index] = workload.arrived[index] + took * MS
        records.waited[index] = waited * MS
    records.busy = [SECOND * second // 2 for second in range(13)]
    records.ready = [3 * SECOND * second for second in range(13)]
    records.preempted.append(2 * SECOND)
    records.wasted = [(2 * SECOND, SECOND // 10), (6 * SECOND, SECOND // 5)]
    told = records.foretold[0]
    for error, service in ((10, 100), (30, 100), (90, 100)):
        told.service_errors.append(error * MS)
        told.known_errors.append(error * MS // 10)
        told.latency_errors.append(2 * error * MS)
        told.services += service * MS
        told.latencies += 2 * service * MS
    return workload, records


@pytest.fixture
def run() -> RunFigures:
    return figures(*made())


def test_latencies_are_of_completed_requests_beside_the_misses(run: RunFigures) -> None:
    # 100, 150, 151, 200 ms of five P0 requests; the third and last are late, one never came.
    assert run["p0_p50_ms"] == 150
    assert run["p0_p95_ms"] == run["p0_p99_ms"] == 200
    assert run["models"]["detector"] == {"p0_p95_ms": 200, "p0_p99_ms": 200}
    assert run["models"]["speech"] == {"p0_p95_ms": None, "p0_p99_ms": None}
    assert run["sla_miss_ratio"] == pytest.approx(3 / 5)
    assert run["p0_wait_p99_ms"] == 100


def test_the_predictor_is_judged_by_its_median_error_over_the_mean(run: RunFigures) -> None:
    told = run["predictor"]["P0"]
    assert told["service_error"] == pytest.approx(0.3)
    assert told["known_length_error"] == pytest.approx(0.03)
    assert told["latency_error"] == pytest.approx(0.3)
    assert run["predictor"]["P1"]["service_error"] is None


def test_success_starvation_and_timeouts(run: RunFigures) -> None:
    assert run["success_ratio"] == pytest.approx(5 / 8)
    assert run["starved_ratio"] == pytest.approx(1 / 3)
    assert run["timeouts"] == run["unfinished"] == 1
    assert run["lanes"]["P0"]["success_ratio"] == pytest.approx(4 / 5)
    assert run["lanes"]["P0"]["timeouts"] == 1
    assert run["lanes"]["P1"]["success_ratio"] is None
    assert run["lanes"]["P2"]["last_end_s"] == pytest.approx(7.2)
    shop = run["businesses"]["shop"]
    assert shop["sla_met_ratio"] == pytest.approx(3 / 8)
    assert shop["success_ratio"] == pytest.approx(5 / 8)
    assert shop["quota_refused_ratio"] == pytest.approx(1 / 8)


def test_slot_time(run: RunFigures) -> None:
    assert run["gpu_util_ratio"] == run["gpu_util_peak_ratio"] == pytest.approx(1 / 6)
    # Three within budget, P2 having none; six slot-seconds with those after the last arrival.
    assert run["yield_per_slot_s"] == pytest.approx(3 / 6)
    assert run["preemptions"] == 1
    assert run["wasted_ratio"] == pytest.approx(0.3 / 6)


def test_phases_are_cut_at_breakpoints(run: RunFigures) -> None:
    spans = [(phase["from_s"], phase["to_s"]) for phase in run["phases"]]
    # Rates change at 5 s; a minute after each burst is beyond the end.
    assert spans == [(0, 1), (1, 2), (2, 5), (5, 6), (6, 7), (7, 10)]
    second, third = run["phases"][1], run["phases"][2]
    assert second["sla_miss_ratio"] == pytest.approx(2 / 4)
    assert second["peak_throughput_qps"] == 3
    assert second["preemptions"] == 0
    assert third["starved_ratio"] == pytest.approx(1 / 2)
    assert third["preemptions"] == 1
    assert third["wasted_ratio"] == pytest.approx(0.1 / 1.5)
    assert run["phases"][0]["success_ratio"] is None


def test_throughput_is_of_the_best_ten_seconds() -> None:
    assert best_window([0, 0, *([5] * 10), 0]) == 5
    assert best_window([0] * 15 + [20]) == 2
    assert best_window([6, 0]) == 3
    assert best_window([]) == 0


def test_percentiles_are_values_that_were_measured() -> None:
    values = [value * MS for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert percentile([7 * MS], 0.5) == 7
    assert percentile([], 0.5) is None


def test_growth_of_a_total_is_even_within_a_second() -> None:
    assert growth([0, 10, 30], 0, 2) == 30
    assert growth([0, 10, 30], 0.5, 1.5) == 15
    assert growth([0, 10, 30], 1, 99) == 20


def test_waits_over_time_leave_out_whom_the_quota_refused() -> None:
    urgent, middle, low = wait_series(*made())
    assert [wait for _, wait in urgent] == [1000, 100]
    assert not middle
    assert [wait for _, wait in low] == [5100, 0]
