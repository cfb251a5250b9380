"""Between businesses: shares of slot time by weight, whatever each of them queues (C02)."""

from dataclasses import replace

import pytest

from scheduler.core.ticket import Ticket

from .clockwork import Clockwork
from .scene import MS, SECOND, START, Scene, card


def flood(scene: Scene, business: str, count: int, lane: int = 1, model: str = "m") -> None:
    for number in range(count):
        scene.arrive(f"{business}-{model}-{number}", lane, business=business, model=model)


def backlog(business: str, count: int) -> list[Ticket]:
    """Requests that all come at the start."""
    return [Ticket(f"{business}-{n}", business, "m", 1, 4, START) for n in range(count)]


def used(clock: Clockwork, business: str) -> int:
    """Slot time (ns) of a business's requests that have ended."""
    return sum(
        account.ended - account.started
        for account in clock.accounts.values()
        if account.ticket.business == business and account.ended and account.started
    )


def order(scene: Scene, count: int, ns: int = 100 * MS) -> list[str]:
    """Businesses in the order in which the next ``count`` requests start, one slot each time
    held for ``ns``."""
    begun = len(scene.started)
    while len(scene.started) < begun + count:
        scene.wait(ns)
        scene.finish(next(iter(scene.running)))
    return [name.split("-")[0] for name in scene.started[begun:]]


@pytest.mark.parametrize("lane", [0, 1, 2])
def test_one_call_passes_a_thousand_of_another_business(lane: int) -> None:
    scene = Scene(card("c", 4))
    flood(scene, "x", 1000, lane)
    scene.wait(SECOND)
    scene.arrive("y-0", lane, business="y")
    assert "y" in order(scene, 5)


def test_and_it_does_after_a_long_run_of_the_other_too() -> None:
    scene = Scene(card("c", 2))
    flood(scene, "x", 1000)
    order(scene, 300)
    scene.arrive("y-0", business="y")
    assert "y" in order(scene, 3)


def test_businesses_that_wait_share_evenly() -> None:
    scene = Scene(card("c", 1))
    for business in "xyz":
        flood(scene, business, 100)
    found = order(scene, 90)
    assert [found.count(business) for business in "xyz"] == [30, 30, 30]
    assert all(len(set(found[at : at + 3])) == 3 for at in range(30, 90, 3))


def test_weights_divide_slot_time() -> None:
    scene = Scene(card("c", 1))
    scene.limit("x", weight=3.0)
    scene.limit("y", weight=1.0)
    flood(scene, "x", 200)
    flood(scene, "y", 200)
    found = order(scene, 80)
    assert found.count("x") == pytest.approx(60, abs=2)


def test_shares_follow_slot_time_and_not_calls() -> None:
    """``long`` holds a slot five times as long, so it gets a fifth as many calls."""
    clock = Clockwork(
        Scene(card("c", 2)),
        lambda ticket, _: 500 * MS if ticket.business == "long" else 100 * MS,
    )
    waiting = [*backlog("long", 400), *backlog("short", 2000)]
    clock.run(waiting, START + 60 * SECOND)
    assert used(clock, "long") == pytest.approx(60 * SECOND, rel=0.05)
    assert used(clock, "short") == pytest.approx(60 * SECOND, rel=0.05)


def test_shares_follow_tokens_where_work_has_tokens() -> None:
    """Output as long as it comes, not as long as was asked for, decides."""

    def service(ticket: Ticket, _: str) -> int:
        return 10 * MS * (200 if ticket.business == "wordy" else 20)

    clock = Clockwork(Scene(card("c", 2)), service)
    waiting = [
        replace(ticket, prompt=50, output=1000)
        for ticket in (*backlog("wordy", 300), *backlog("terse", 3000))
    ]
    clock.run(waiting, START + 120 * SECOND)
    assert used(clock, "wordy") == pytest.approx(used(clock, "terse"), rel=0.1)


def test_a_business_back_from_idle_has_saved_nothing_up() -> None:
    scene = Scene(card("c", 1))
    flood(scene, "y", 1)
    flood(scene, "x", 200)
    order(scene, 100)
    flood(scene, "y", 100)
    assert order(scene, 40).count("y") == pytest.approx(20, abs=2)


def test_nor_has_it_to_pay_for_what_it_used_alone() -> None:
    scene = Scene(card("c", 1))
    flood(scene, "x", 200)
    order(scene, 100)
    flood(scene, "y", 100)
    assert order(scene, 40).count("x") == pytest.approx(20, abs=2)


def test_a_newcomer_starts_with_the_least_served_and_not_with_the_most() -> None:
    """Businesses of other models may be far ahead, where there is no one to share with."""
    scene = Scene(card("slow", 1, "a"), card("quick", 8, "b"))
    flood(scene, "behind", 300, model="a")
    flood(scene, "ahead", 1200, model="b")
    for _ in range(100):
        scene.wait(100 * MS)
        scene.finish(*scene.on("slow"), *scene.on("quick"))
    flood(scene, "new", 100, model="a")
    begun = len(scene.started)
    for _ in range(20):
        scene.wait(100 * MS)
        scene.finish(*scene.on("slow"))
    found = [name.split("-")[0] for name in scene.started[begun:]]
    assert found.count("new") == pytest.approx(10, abs=2)


def test_lanes_count_apart() -> None:
    """What a business has used of one lane does not set it back in another."""
    scene = Scene(card("c", 1))
    flood(scene, "x", 50, lane=0)
    order(scene, 49)
    flood(scene, "y", 40, lane=1)
    flood(scene, "x", 40, lane=1)
    assert order(scene, 40).count("x") == pytest.approx(20, abs=2)


def test_a_business_does_not_pay_for_work_that_is_lost() -> None:
    """Two replicas fail its first attempts: it is served no later for that."""
    scene = Scene(card("c1", 1), card("c2", 1))
    scene.arrive("x-lost", business="x")
    scene.arrive("held", business="z")
    flood(scene, "x", 20)
    flood(scene, "y", 20)
    scene.wait(5 * SECOND)
    scene.fail("x-lost")
    scene.finish("held")
    assert order(scene, 20).count("x") >= 9


def test_models_of_a_business_take_turns() -> None:
    scene = Scene(card("c", 1, "a", "b", "c"))
    for model in "abc":
        flood(scene, "x", 30, model=model)
    begun = len(scene.started)
    order(scene, 60)
    models = [name.split("-")[1] for name in scene.started[begun:]]
    assert all(len(set(models[at : at + 3])) == 3 for at in range(len(models) - 2))


def test_a_long_queue_for_one_model_does_not_hide_a_call_for_another() -> None:
    scene = Scene(card("c", 1, "a", "b"))
    flood(scene, "x", 500, model="a")
    scene.arrive("x-b-0", business="x", model="b")
    assert "x-b-0" in {scene.started[-1] for _ in range(3) if order(scene, 1)}
