"""Workloads: the same for everybody, and as the scenario says."""

from itertools import pairwise
from math import sqrt
from statistics import fmean, pstdev

import pytest

from scheduler.simulation.rates import arrival_times, due, peak_minute
from scheduler.simulation.scenario import SECOND
from scheduler.simulation.scenario_file import load
from scheduler.simulation.workload import COLUMNS, Workload

from .small import FIXED, GENERATIVE, scenario

RAMP = {"duration_s": 100, "arrivals.0.rate_qps": [[0, 0], [40, 200], [60, 200], [60, 50]]}


def test_seed_and_scenario_fix_every_request() -> None:
    found = scenario(FIXED, RAMP)
    first, again, other = Workload(found), Workload(found), Workload(found, 8)
    for column in COLUMNS:
        assert getattr(first, column) == getattr(again, column)
    assert first.arrived != other.arrived


def test_a_shorter_run_meets_the_same_requests() -> None:
    whole = Workload(scenario(FIXED, RAMP))
    part = Workload(scenario(FIXED, RAMP).cut(50))
    count = len(part)
    assert 0 < count < len(whole)
    for column in COLUMNS:
        assert getattr(whole, column)[:count] == getattr(part, column)


def test_arrivals_follow_a_rate_that_is_linear_in_pieces() -> None:
    workload = Workload(scenario(FIXED, RAMP))
    for begin, end, expected in ((0, 20, 1000), (20, 40, 3000), (40, 60, 4000), (60, 100, 2000)):
        count = sum(begin <= at / SECOND < end for at in workload.arrived)
        assert abs(count - expected) < 5 * sqrt(expected)
    assert list(workload.arrived) == sorted(workload.arrived)


def test_the_inverse_of_a_linear_rate_is_exact() -> None:
    # Cumulated: t² / 2 up to 4 s, then 8 + 4·(t - 4).
    points = ((0.0, 0.0), (4.0, 4.0))
    assert list(arrival_times(points, 6.0, [2.0, 6.0, 4.0, 100.0])) == pytest.approx([2, 4, 5])
    assert due(points, 0.0, 4.0) == pytest.approx(8)
    assert due(points, 3.0, 5.0) == pytest.approx(3.5 + 4)


@pytest.mark.parametrize(("process", "cv"), [("poisson", 1.0), ("gamma", 3.0), ("gamma", 0.3)])
def test_gaps_have_the_spread_of_their_process(process: str, cv: float) -> None:
    rate = {"duration_s": 400, "arrivals.0.rate_qps": [[0, 50]]}
    workload = Workload(
        scenario(FIXED, {**rate, "arrivals.0.process": process, "arrivals.0.cv": cv})
    )
    gaps = [after - before for before, after in pairwise(workload.arrived)]
    assert fmean(gaps) == pytest.approx(SECOND / 50, rel=0.1)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(cv, rel=0.1)


def test_service_times_have_their_mean_and_spread() -> None:
    many = {"duration_s": 400, "arrivals.0.rate_qps": [[0, 100]]}
    workload = Workload(scenario(FIXED, {**many, "cluster.models.detector.cv": 0.5}))
    assert fmean(workload.factor) == pytest.approx(1, rel=0.02)
    assert pstdev(workload.factor) == pytest.approx(0.5, rel=0.05)
    assert set(Workload(scenario(FIXED)).factor) == {1.0}


def test_levels_and_businesses_have_their_shares() -> None:
    shares = {"shop": 3, "lab": 1}
    businesses = [{"name": "shop"}, {"name": "lab"}]
    many = {"duration_s": 400, "arrivals.0.rate_qps": [[0, 100]], "businesses": businesses}
    workload = Workload(scenario(FIXED, {**many, "arrivals.0.businesses": shares}))
    count = len(workload)
    assert workload.business.count(0) / count == pytest.approx(0.75, rel=0.03)
    for level in range(10):
        assert workload.level.count(level) / count == pytest.approx(0.1, rel=0.1)
    assert workload.lane.count(0) == sum(workload.level.count(level) for level in (0, 1, 2))


def test_tokens_are_cut_at_what_was_asked_for() -> None:
    changes = {
        "arrivals.0.burst": [{"at_s": 1, "count": 20_000}],
        "arrivals.0.prompt_tokens.cv": 0.6,
        "arrivals.0.output_tokens": {"lognormal_mean": 50, "cv": 0.7},
    }
    workload = Workload(scenario(GENERATIVE, changes))
    assert set(workload.arrived) == {SECOND}
    assert fmean(workload.prompt) == pytest.approx(100, rel=0.03)
    assert max(workload.output) == 100
    assert min(workload.output) >= 1


def test_the_classifier_gives_the_levels_that_nobody_claims() -> None:
    workload = Workload(load("incident-eval-fills-cards").cut(60))
    lanes = dict(zip(workload.business, workload.lane, strict=True))
    names = workload.businesses
    assert {names[index]: lane for index, lane in lanes.items()} == {
        "risk-audit": 0,
        "live-service": 0,
        "doc-qa": 1,
        "offline-eval": 2,
    }


def test_the_busiest_minute_is_found() -> None:
    streams = load("ramp-to-peak").arrivals
    assert peak_minute([(stream, 1.0) for stream in streams], 0.0, 560.0) == (180, 240)
    assert peak_minute([(stream, 1.0) for stream in streams], 480.0, 481.0) == (480, 481)
