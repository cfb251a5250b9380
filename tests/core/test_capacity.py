"""A replica's slots and KV cache by our own count, from the moment of dispatch."""

from dataclasses import replace

import pytest

from scheduler.core.decisions import Dispatch
from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, Scene, card

# Size does not count in the order, so that the large one is at the head by its arrival.
PLAIN = replace(Policy(), order=replace(Policy().order, expected_service=0.0))
READINGS: list[tuple[float | None, float | None, int | None]] = [
    (0.0, 0.0, 0),
    (1.0, 1.0, 50),
    (None, None, None),
]


@pytest.mark.parametrize("reading", READINGS)
def test_eight_slots_never_see_a_ninth_request(
    reading: tuple[float | None, float | None, int | None],
) -> None:
    """C05: whatever the engine's lagging figures say, before, between and after."""
    scene = Scene(card("c", 8))
    scene.measure("c", *reading)
    for number in range(200):
        scene.arrive(f"n{number}", 2)
        if number % 20 == 0:
            scene.measure("c", *reading)
            scene.tick()
    assert len(scene.on("c")) == 8
    scene.wait(50 * MS)
    scene.arrive("urgent", 0)
    assert len(scene.on("c")) == 8
    scene.wait(SECOND)
    scene.measure("c", *reading)
    scene.finish("n0")
    assert len(scene.on("c")) == 8
    assert scene.started[-1] == "urgent"
    for _ in range(100):
        scene.wait(SECOND)
        scene.measure("c", *reading)
        scene.finish(scene.on("c")[0])
        assert len(scene.on("c")) == 8


def test_our_own_count_outlives_the_engines_idleness() -> None:
    """A burst between two readings sees the slots that it has taken itself."""
    scene = Scene(card("a", 4), card("b", 4))
    scene.measure("a", 0.0, 0.0, 0)
    scene.measure("b", 0.9, 0.0, 0)
    for _ in range(8):
        scene.arrive()
    assert (len(scene.on("a")), len(scene.on("b"))) == (4, 4)


def test_more_slots_are_used_at_once_and_fewer_break_nothing() -> None:
    scene = Scene(card("c", 2))
    for name in "abcdef":
        scene.arrive(name)
    scene.add(*card("c", 4))
    assert scene.on("c") == ["a", "b", "c", "d"]
    scene.add(*card("c", 2))
    assert scene.on("c") == ["a", "b", "c", "d"]
    scene.finish("a", "b")
    assert scene.on("c") == ["c", "d"]
    scene.finish("c")
    assert scene.on("c") == ["d", "e"]


# KV cache.


def test_kv_full_with_slots_free_sends_nothing_more() -> None:
    scene = Scene(card("c", 8, kv=1000))
    scene.arrive("a", prompt=500, output=100)
    scene.arrive("b", prompt=300, output=100)
    scene.arrive("c", prompt=100, output=10)
    assert scene.on("c") == ["a", "b"]
    for _ in range(5):
        scene.measure("c", 0.1, 0.1, 0)
        scene.wait(SECOND)
        scene.tick()
    assert scene.on("c") == ["a", "b"]
    scene.finish("b", output=100)
    assert scene.on("c") == ["a", "c"]


def test_a_request_reserves_prompt_and_the_output_to_expect() -> None:
    scene = Scene(card("c", 8, kv=10_000))
    scene.arrive("first", prompt=100, output=400)
    assert scene.state.replicas["c"].kv_used == 500
    scene.wait(SECOND)
    scene.finish("first", output=40)
    assert scene.state.replicas["c"].kv_used == 0
    # The business's answers are short by experience, and one within its own limit anyway.
    scene.arrive("second", prompt=100, output=400)
    assert scene.state.replicas["c"].kv_used == 140
    scene.arrive("third", prompt=100, output=20)
    assert scene.state.replicas["c"].kv_used == 260


def test_work_without_tokens_needs_a_slot_alone() -> None:
    scene = Scene(card("c", 3, kv=100))
    scene.arrive("full", prompt=50, output=50)
    scene.arrive("image")
    assert scene.on("c") == ["full", "image"]
    assert scene.state.replicas["c"].kv_used == 100


def test_a_request_longer_than_the_cache_runs_alone() -> None:
    """The engine judges what is too long; it is not left waiting for ever."""
    scene = Scene(card("c", 4, kv=1000))
    scene.arrive("small", prompt=10, output=10)
    scene.arrive("huge", prompt=5000, output=500)
    assert scene.on("c") == ["small"]
    scene.finish("small", output=10)
    assert scene.on("c") == ["huge"]
    assert scene.state.replicas["c"].kv_used == 1000


def test_a_large_one_at_the_head_is_not_starved_by_small_ones() -> None:
    scene = Scene(card("c", 8, kv=1000), policy=PLAIN)
    for number in range(8):
        scene.arrive(f"small-{number}", prompt=100, output=20)
    scene.arrive("large", prompt=700, output=200)
    for number in range(8, 40):
        scene.arrive(f"small-{number}", prompt=100, output=20)
    held = len(scene.on("c"))
    assert "large" not in scene.running
    for _ in range(held):
        scene.wait(SECOND)
        scene.finish(scene.on("c")[0], output=20)
        scene.arrive(prompt=100, output=20)
        if "large" in scene.running:
            break
    assert "large" in scene.running
    assert scene.state.replicas["c"].kv_used <= 1000


def test_a_small_one_that_arrives_does_not_pass_the_large_one_at_the_head() -> None:
    scene = Scene(card("c", 8, kv=1000), policy=PLAIN)
    scene.arrive("held", prompt=400, output=100)
    scene.arrive("large", prompt=700, output=200)
    scene.arrive("small", prompt=10, output=10)
    assert scene.on("c") == ["held"]
    scene.finish("held", output=100)
    assert scene.on("c") == ["large", "small"]


def test_a_large_one_of_a_lower_lane_holds_up_no_higher_lane() -> None:
    scene = Scene(card("c", 8, kv=1000), policy=PLAIN)
    scene.arrive("held", 2, prompt=400, output=100)
    scene.arrive("large", 2, prompt=700, output=200)
    scene.arrive("urgent", 0, prompt=100, output=100)
    assert scene.on("c") == ["held", "urgent"]


def test_a_large_one_takes_another_replica_with_room() -> None:
    scene = Scene(card("small", 4, kv=500), card("big", 4, kv=2000))
    scene.arrive("large", prompt=900, output=100)
    assert scene.where("large") == "big"
    scene.arrive("next", prompt=1500, output=100)
    assert scene.waiting() == ["next"]
    scene.arrive("tiny", prompt=10, output=10)
    assert scene.waiting() in (["next"], ["next", "tiny"])
    scene.finish("large", output=100)
    assert scene.where("next") == "big"


def test_the_replica_kept_for_a_large_one_is_let_go_when_it_leaves() -> None:
    scene = Scene(card("c", 8, kv=1000), policy=PLAIN)
    scene.arrive("held", prompt=400, output=100)
    scene.arrive("large", prompt=700, output=200)
    scene.arrive("small", prompt=10, output=10)
    out = scene.cancel("large")
    assert [d.request for d in out if isinstance(d, Dispatch)] == ["small"]
    assert not scene.state.queues.aside


def test_counts_come_back_to_nothing() -> None:
    scene = Scene(card("c", 2, kv=1000))
    scene.arrive("a", 2, prompt=100, output=100, resume=Resume.CONTINUE)
    scene.arrive("b", 2, prompt=100, output=100)
    scene.fail("a")
    scene.cancel("b")
    replica = scene.state.replicas["c"]
    for name in list(scene.running):
        scene.finish(name)
    assert (replica.running, replica.kv_used, dict(replica.holds)) == (0, 0, {})
    pool = replica.use
    assert (pool.running, pool.promoted) == ([0, 0, 0], 0)


def test_answers_that_turn_out_short_make_room_at_once() -> None:
    """What waits for KV cache is expected to need less from now on, and fits."""
    scene = Scene(card("small", 4, kv=900), card("other", 1))
    scene.arrive("a", prompt=100, output=400)
    scene.arrive("b", prompt=100, output=400)
    scene.arrive("c", prompt=100, output=400)
    assert len(scene.on("small")) == len(scene.on("other")) == 1
    waiting = scene.waiting()
    scene.arrive("held", 0)
    assert scene.where("held") == "small"
    scene.finish(scene.on("other")[0], output=100)
    assert not set(waiting) & set(scene.waiting())
