"""Businesses take turns by what their work costs: GPUs, and the parts of a card."""

from collections import Counter
from dataclasses import replace

import pytest

from scheduler.core.policy import Policy

from .scene import MS, SECOND, SHARED, Scene, card

PATIENT = replace(
    Policy(),
    queues=replace(Policy().queues, P1=replace(Policy().queues.P1, queue_timeout_ms=10**9)),
)


def turns(scene: Scene, seconds: int, took: dict[str, int]) -> Counter[tuple[str, str]]:
    """Starts by business and replica while an attempt takes so long (ns), by model."""
    ends: list[tuple[int, int, str]] = []
    count: Counter[tuple[str, str]] = Counter()
    seen = len(scene.started)
    pending = list(scene.running)
    until = scene.now + seconds * SECOND
    while True:
        for name in pending:
            ticket = scene.state.requests[name].ticket
            count[ticket.business, scene.where(name)] += 1
            ends.append((scene.now + took[ticket.model], len(ends), name))
        seen = len(scene.started)
        if not ends or min(ends)[0] > until:
            return count
        at, order, name = min(ends)
        ends.remove((at, order, name))
        scene.wait(at - scene.now)
        scene.finish(name)
        pending = scene.started[seen:]


def test_a_card_of_eight_gpus_counts_eight() -> None:
    """One business has a card of eight GPUs for a second out of eight, and both want a card of one
    GPU: that is for the other alone."""
    facts, pool = card("eight", 1, "large")
    scene = Scene((replace(facts, gpus=8.0), pool), card("one", 1, "m"), policy=PATIENT)
    count: Counter[str] = Counter()
    for number in range(400):
        scene.arrive(f"w{number}", business="wide")
        scene.arrive(f"n{number}", business="narrow")
    for number in range(30):
        scene.arrive(f"large{number}", business="wide", model="large")
        for second in range(8):
            (name,) = scene.on("one")
            count[name[0]] += 1
            scene.wait(SECOND)
            if not second:
                scene.finish(f"large{number}")
            scene.finish(name)
    # If it counted one, it would have seven turns to nine.
    assert count["n"] >= 0.9 * count.total()


def test_use_of_cards_that_others_cannot_use_takes_nothing_from_them() -> None:
    """One business keeps a pool of its own model busy. In another pool, which has no model in
    common with that, it has its turns as if it did not."""
    other = replace(SHARED, name="other")
    scene = Scene(card("a", 4, "x", pool=other), card("b", 1, "y"), policy=PATIENT)
    for number in range(300):
        scene.arrive(f"x{number}", business="both", model="x")
        scene.arrive(f"r{number}", business="rival", model="y")
        scene.arrive(f"b{number}", business="both", model="y")
    count = turns(scene, 60, {"x": SECOND, "y": SECOND})
    assert count["both", "a"] > 200
    assert 0.4 <= count["both", "b"] / (count["both", "b"] + count["rival", "b"]) <= 0.6


def test_but_use_of_cards_to_which_work_can_move_counts() -> None:
    """The same, but a third model is served by both pools: they are one market, and the business
    that has most of it leaves the rest to the other."""
    other = replace(SHARED, name="other")
    scene = Scene(card("a", 4, "x", "m", pool=other), card("b", 1, "m", "y"), policy=PATIENT)
    for number in range(300):
        scene.arrive(f"x{number}", business="both", model="x")
        scene.arrive(f"r{number}", business="rival", model="y")
        scene.arrive(f"b{number}", business="both", model="y")
    count = turns(scene, 60, {"x": SECOND, "y": SECOND})
    assert count["both", "a"] > 200
    assert count["rival", "b"] > 20 * count["both", "b"]


@pytest.mark.parametrize("reads", [True, False])
def test_a_prompt_that_has_the_card_to_itself_costs_more_than_a_slot(reads: bool) -> None:
    """Both hold a slot for ten seconds: one while a long prompt is computed, which nobody else
    can use the card for, the other while its answer is written beside fifteen others. The turns
    are then the other's; two that only write have them one by one."""
    scene = Scene(card("a", 16), policy=PATIENT)
    for number in range(14):
        scene.arrive(f"held{number}", business="third")
    scene.arrive("first", business="reads", prompt=60_000, output=10)
    scene.arrive("second", business="writes", prompt=10, output=1000)
    for number in range(60):
        scene.arrive(f"r{number}", business="reads", prompt=10, output=100)
        scene.arrive(f"w{number}", business="writes", prompt=10, output=100)
    scene.wait(MS)
    scene.see("second")
    if not reads:
        scene.see("first")
    scene.wait(10 * SECOND)
    if reads:
        scene.see("first")
    before = len(scene.started)
    scene.finish("first", output=10)
    scene.finish("second", output=1000)
    while len(scene.started) < before + 40:
        both = [name for name in scene.running if not name.startswith("held")]
        scene.wait(MS)
        for name in both:
            scene.see(name)
        scene.wait(SECOND)
        for name in both:
            scene.finish(name, output=100)
    writes = [name[0] for name in scene.started[before:]].count("w")
    assert writes >= 36 if reads else 15 <= writes <= 25


def test_models_of_a_business_take_turns_by_what_they_cost() -> None:
    scene = Scene(card("a", 1, "long", "short"), policy=PATIENT)
    scene.arrive("held", model="short")
    for number in range(40):
        scene.arrive(f"l{number}", model="long", prompt=10, output=2000)
        scene.arrive(f"s{number}", model="short", prompt=10, output=100)
    scene.finish("held")
    order: list[str] = []
    while len(order) < 30:
        (name,) = scene.running
        order.append(name[0])
        tokens = 2000 if name[0] == "l" else 100
        scene.wait(MS)
        scene.see(name)
        scene.wait(tokens * 10 * MS)
        scene.finish(name, output=tokens)
    # Twenty short ones cost as much as a long one.
    assert 1 <= order.count("l") <= 6
