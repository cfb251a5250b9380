"""The bound of throughput."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.simulation.lp import maximise, throughput_bound
from scheduler.simulation.scenario_file import load

from .small import FIXED, scenario


def test_a_textbook_programme() -> None:
    # 3x + 5y where x <= 4, 2y <= 12, 3x + 2y <= 18.
    found = maximise([3, 5], [[1, 0], [0, 2], [3, 2]], [4, 12, 18])
    assert found.value == pytest.approx(36)
    assert found.point == pytest.approx((2, 6))
    assert found.prices == pytest.approx((0, 1.5, 1))


def test_a_programme_on_which_naive_pivoting_cycles() -> None:
    rows: list[list[float]] = [[0.5, -5.5, -2.5, 9], [0.5, -1.5, -0.5, 1], [1, 0, 0, 0]]
    assert maximise([10, -57, -9, -24], rows, [0, 0, 1]).value == pytest.approx(1)


def test_a_programme_without_limit() -> None:
    with pytest.raises(ValueError, match="no limit"):
        maximise([1, 0], [[-1, 1]], [5])


NUMBERS = st.integers(1, 20)


@given(
    gains=st.lists(NUMBERS, min_size=3, max_size=3),
    rows=st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=4),
    data=st.data(),
)
def test_prices_prove_the_value(
    gains: list[int], rows: list[list[int]], data: st.DataObject
) -> None:
    size = len(rows)
    bounds = data.draw(st.lists(st.integers(0, 50), min_size=size, max_size=size))
    found = maximise(gains, rows, bounds)
    for row, bound in zip(rows, bounds, strict=True):
        assert sum(a * x for a, x in zip(row, found.point, strict=True)) <= bound + 1e-6
    # Weak duality: prices that cover every gain bound the value from above.
    assert all(price >= -1e-9 for price in found.prices)
    for place, gain in enumerate(gains):
        covered = sum(price * row[place] for price, row in zip(found.prices, rows, strict=True))
        assert covered >= gain - 1e-6
    dual = sum(price * bound for price, bound in zip(found.prices, bounds, strict=True))
    assert dual == pytest.approx(found.value, abs=1e-6)


def test_the_bound_of_the_shared_cluster() -> None:
    assert throughput_bound(load("ramp-to-peak")) == pytest.approx(5159, abs=1)


def test_what_no_card_can_serve_is_no_part_of_the_bound() -> None:
    edges = [{"name": "edge-1", "hardware": "edge", "pool": "all"}]
    stream = {**FIXED["arrivals"][0], "rate_qps": [[0, 50]]}  # type: ignore[index]
    beside = {"cluster.replicas": edges, "arrivals": [stream, {**stream, "model": "speech"}]}
    assert throughput_bound(scenario(FIXED, beside)) == pytest.approx(5)
    alone = {**beside, "arrivals": [{**stream, "model": "speech"}]}
    assert throughput_bound(scenario(FIXED, alone)) == 0


def test_the_bound_of_one_model_is_its_slots() -> None:
    # Two slots of 100 ms and one of 200 ms.
    assert throughput_bound(scenario(FIXED)) == pytest.approx(25)
