"""Businesses take turns by what their work costs: GPUs, and the parts of a card."""

from collections import Counter
from dataclasses import replace

from scheduler.core import events

from .scene import MS, SECOND, SHARED, Scene, card


def shares(scene: Scene, rounds: int, took: dict[str, int]) -> Counter[str]:
    """Starts by business while each request takes so long (ns), by business."""
    ends: list[tuple[int, str]] = []
    known: set[str] = set()
    count: Counter[str] = Counter()
    for _ in range(rounds):
        for name in list(scene.running):
            if name not in known:
                known.add(name)
                business = scene.state.requests[name].ticket.business
                count[business] += 1
                ends.append((scene.now + took[business], name))
        at, name = min(ends)
        ends.remove((at, name))
        scene.wait(max(0, at - scene.now))
        scene.finish(name)
    return count


def test_a_card_of_eight_gpus_counts_eight() -> None:
    facts, pool = card("large", 1, "big", "m")
    scene = Scene((replace(facts, gpus=8.0), pool), card("small", 1, "m"))
    for number in range(100):
        scene.arrive(f"b{number}", business="big", model="big")
        scene.arrive(f"s{number}", business="small", model="m")
    shares(scene, 20, {"big": SECOND, "small": SECOND})
    used = {name: sum(scene.state.tenants[name].used.values()) for name in ("big", "small")}
    large = [d for d in scene.done if d.startswith("b")]
    assert used["big"] >= 7.5 * SECOND * len(large)


def test_use_of_cards_that_others_cannot_use_takes_nothing_from_them() -> None:
    """One business has had a pool of its own model for long. In another pool it stands where all
    others do."""
    other = replace(SHARED, name="other")
    scene = Scene(card("a", 1, "x", pool=other), card("b", 1, "y"))
    for number in range(30):
        scene.arrive(f"x{number}", business="both", model="x")
        scene.wait(SECOND)
        scene.finish(f"x{number}")
    scene.arrive("held", business="rival", model="y")
    for number in range(6):
        scene.arrive(f"r{number}", business="rival", model="y")
        scene.arrive(f"b{number}", business="both", model="y")
    scene.wait(SECOND)
    scene.finish("held")
    order = scene.drain()
    assert [name[0] for name in order[:6]].count("b") >= 3


def test_a_prompt_that_has_the_card_to_itself_costs_more_than_a_slot() -> None:
    """Both hold a slot for ten seconds: one while a long prompt is computed, which nobody else
    can use the card for, the other while its answer is written beside fifteen others."""
    scene = Scene(card("a", 16))
    scene.arrive("prompt", business="reads", prompt=60_000, output=10)
    scene.wait(10 * SECOND)
    scene.see("prompt")
    scene.finish("prompt", output=10)
    scene.arrive("answer", business="writes", prompt=10, output=1000)
    # A newcomer begins with what others have had.
    before = sum(scene.state.tenants["writes"].used.values())
    scene.wait(MS)
    scene.see("answer")
    scene.wait(10 * SECOND)
    scene.finish("answer", output=1000)
    reads = sum(scene.state.tenants["reads"].used.values())
    writes = sum(scene.state.tenants["writes"].used.values()) - before
    assert reads > 10 * writes


def test_models_of_a_business_take_turns_by_what_they_cost() -> None:
    scene = Scene(card("a", 1, "long", "short"))
    scene.arrive("held", model="short")
    for number in range(40):
        scene.arrive(f"l{number}", model="long", prompt=10, output=2000)
        scene.arrive(f"s{number}", model="short", prompt=10, output=100)
    for name in ("held",):
        scene.finish(name)
    order: list[str] = []
    while len(order) < 30:
        (name,) = scene.running
        order.append(name[0])
        scene.wait(MS)
        scene.see(name)
        scene.wait((2000 if name[0] == "l" else 100) * 10 * MS)
        scene.step(events.Finished(name, 1, 10, 2000 if name[0] == "l" else 100))
        del scene.running[name]
    # Twenty short ones cost as much as a long one.
    assert order.count("l") <= 6
