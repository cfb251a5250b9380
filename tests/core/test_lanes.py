"""The order inside and between lanes in mode strict."""

from dataclasses import replace
from itertools import permutations

import pytest

from scheduler.core.policy import Bands, Order, Policy

from .scene import MS, SECOND, Scene, card


def full(*, slots: int = 1, policy: Policy | None = None) -> Scene:
    """A card whose slots are taken by P1 work of somebody else."""
    scene = Scene(card("c", slots), policy=policy)
    for number in range(slots):
        scene.arrive(f"held-{number}", 1, business="other")
    return scene


def ordered(**weights: float) -> Policy:
    return replace(Policy(), order=replace(Order(), **weights))


@pytest.mark.parametrize("order", list(permutations([0, 1, 2])))
def test_lanes_are_served_by_urgency_whatever_came_first(order: tuple[int, ...]) -> None:
    scene = full()
    for lane in order:
        scene.arrive(f"p{lane}", lane)
        scene.wait(MS)
    assert scene.drain() == ["p0", "p1", "p2"]


def test_a_lower_lane_waits_as_long_as_a_higher_one_comes() -> None:
    scene = full()
    scene.arrive("low", 2)
    for number in range(20):
        scene.arrive(f"urgent-{number}", 0)
        scene.wait(SECOND)
        scene.finish(next(iter(scene.running)))
        assert scene.on("c") == [f"urgent-{number}"]
    assert scene.drain() == ["low"]


@pytest.mark.parametrize("levels", list(permutations([0, 1, 2])))
def test_p0_is_served_strictly_by_level(levels: tuple[int, ...]) -> None:
    scene = full()
    for level in levels:
        for number in range(2):
            scene.arrive(f"level-{level}-{number}", 0, level=level)
            # Much longer than a level counts in the key of a single band.
            scene.wait(3 * SECOND)
    assert scene.drain(MS) == [f"level-{level}-{number}" for level in range(3) for number in (0, 1)]


def test_a_single_band_lets_arrival_outweigh_level() -> None:
    scene = full()
    scene.arrive("old", 1, level=6)
    scene.wait(4 * SECOND)
    scene.arrive("new", 1, level=3)
    assert scene.drain() == ["old", "new"]


def test_a_single_band_lets_level_outweigh_a_little_waiting() -> None:
    scene = full()
    scene.arrive("old", 1, level=6)
    scene.wait(2 * SECOND)
    scene.arrive("new", 1, level=3)
    assert scene.drain() == ["new", "old"]


def test_bands_are_the_policys() -> None:
    scene = full(policy=replace(Policy(), bands=Bands(P0="single", P1="by_level")))
    scene.arrive("level-6", 1, level=6)
    scene.arrive("level-2", 0, level=2)
    scene.wait(10 * SECOND)
    scene.arrive("level-3", 1, level=3)
    scene.arrive("level-0", 0, level=0)
    assert scene.drain(MS) == ["level-2", "level-0", "level-3", "level-6"]


def test_an_earlier_deadline_goes_first() -> None:
    scene = full()
    scene.arrive("later", budget=9 * SECOND)
    scene.wait(SECOND)
    scene.arrive("sooner", budget=3 * SECOND)
    assert scene.drain(MS) == ["sooner", "later"]


def test_shorter_work_goes_first_where_the_policy_says_so() -> None:
    for weight, first in ((0.2, "short"), (0.0, "long")):
        scene = full(policy=ordered(expected_service=weight))
        scene.arrive("long", prompt=100, output=400)
        scene.wait(SECOND)
        scene.arrive("short", prompt=100, output=10)
        assert scene.drain(MS)[0] == first


def test_time_reorders_nothing() -> None:
    def order(wait: int) -> list[str]:
        scene = full()
        scene.arrive("a", level=6, budget=30 * SECOND)
        scene.wait(SECOND)
        scene.arrive("b", level=4, prompt=1000, output=4000)
        scene.wait(SECOND)
        scene.arrive("c", level=3, budget=20 * SECOND)
        scene.wait(SECOND)
        scene.arrive("d", level=3)
        scene.wait(wait)
        return scene.drain(MS)

    assert order(0) == order(60 * SECOND)


def test_keys_stay_when_estimates_change() -> None:
    scene = Scene(card("c", 1))
    scene.arrive("learned", business="shop", prompt=100, output=4000)
    scene.arrive("long", business="shop", prompt=100, output=4000)
    scene.arrive("short", business="shop", prompt=100, output=4000)
    before = {name: found.key for name, found in scene.state.requests.items()}
    scene.wait(SECOND)
    scene.finish("learned", output=3)
    for name, found in scene.state.requests.items():
        assert found.key == before[name]


def test_equal_keys_go_by_arrival() -> None:
    scene = full(slots=3)
    names = [f"n{number}" for number in range(12)]
    for name in names:
        scene.arrive(name)
    assert scene.drain() == names


def test_a_request_starts_at_once_where_a_slot_is_free() -> None:
    scene = Scene(card("c", 2))
    scene.arrive("a", 2)
    scene.arrive("b", 2)
    scene.arrive("late", 2)
    assert scene.started == ["a", "b"]
    assert scene.waiting() == ["late"]
    assert scene.state.requests["late"].dispatched == 0
    scene.wait(SECOND)
    scene.finish("a")
    assert scene.running["late"].waited == SECOND
    assert scene.running["b"].waited == 0
