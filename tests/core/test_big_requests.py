"""Requests that need much KV cache: one replica is kept for one, and the others go on."""

from scheduler.core import events

from .scene import SECOND, Scene, card


def crowded() -> Scene:
    """Eight replicas whose KV caches are four fifths full."""
    scene = Scene(*(card(f"r{number}", 16, kv=200_000) for number in range(8)))
    for number in range(32):
        scene.arrive(f"run{number}", 1, prompt=40_000, output=500)
    assert len(scene.running) == 32
    return scene


def test_one_replica_is_kept_for_it_and_not_all() -> None:
    scene = crowded()
    scene.arrive("large", 1, prompt=60_000, output=500, business="docs")
    for number in range(200):
        scene.arrive(f"small{number}", 1, business=f"b{number % 20}", prompt=500, output=100)
    for number in range(5):
        scene.arrive(f"urgent{number}", 0, prompt=500, output=100, business="vip")
    assert "large" in scene.waiting()
    assert {f"urgent{number}" for number in range(5)} <= scene.running.keys()
    # Seven of eight replicas have twelve slots each for small ones.
    assert sum(name.startswith("small") for name in scene.running) >= 7 * 11


def test_it_starts_as_soon_as_the_replica_kept_for_it_has_room() -> None:
    scene = crowded()
    scene.arrive("large", 1, prompt=60_000, output=500, business="docs")
    for number in range(300):
        scene.arrive(f"small{number}", 1, business=f"b{number % 20}", prompt=500, output=100)
    ended = 0
    while "large" not in scene.running:
        scene.wait(SECOND)
        scene.finish(next(name for name in scene.running if name.startswith("run")))
        ended += 1
    # Whatever ends first: no more than what all eight replicas had of long ones less seven.
    assert ended <= 25


def test_two_at_once_are_served_one_after_the_other() -> None:
    scene = Scene(card("a", 8, kv=10_000), card("b", 8, kv=10_000))
    for name in ("x", "y"):
        scene.arrive(name, 1, prompt=8_000, output=1_000)
    for name in ("big-1", "big-2"):
        scene.arrive(name, 1, prompt=8_000, output=1_000)
    scene.arrive("small", 1, prompt=100, output=100)
    # One replica is kept, the other has room for small ones.
    assert "small" in scene.running
    scene.finish("x", "y")
    assert {"big-1", "big-2"} <= scene.running.keys()


def test_an_overdue_one_that_does_not_fit_holds_up_no_p0() -> None:
    scene = Scene(*(card(f"r{number}", 16, kv=200_000) for number in range(4)))
    for number in range(16):
        scene.arrive(f"run{number}", 1, prompt=40_000, output=500)
    scene.arrive("bulk", 2, prompt=60_000, output=500)
    scene.wait(91 * SECOND)
    for number in range(40):
        scene.arrive(f"urgent{number}", 0, level=0, prompt=500, output=100, business="vip")
    assert "bulk" in scene.waiting()
    assert sum(name.startswith("urgent") for name in scene.running) == 40


def test_an_overdue_one_has_the_next_room_before_lower_work() -> None:
    scene = Scene(card("a", 4, kv=10_000))
    scene.arrive("run", 1, prompt=8_000, output=1_000)
    scene.arrive("bulk", 2, prompt=5_000, output=500)
    scene.wait(91 * SECOND)
    scene.arrive("p1", 1, prompt=600, output=200)
    assert scene.waiting() == ["bulk", "p1"]
    scene.finish("run", output=100)
    assert "bulk" in scene.running


def test_levels_that_are_no_order_hide_nobody_behind_a_large_one() -> None:
    """P2's levels are weighed, not served one before the next: all of it waits for the large one on
    the card that is kept for that, and none elsewhere."""
    scene = Scene(card("a", 16, kv=10_000), card("b", 16, kv=10_000))
    for name in ("x", "y"):
        scene.arrive(name, 1, prompt=6_000, output=1_000)
    scene.arrive("large", 2, level=8, prompt=6_000, output=1_000, business="docs")
    scene.step(events.Tick())
    for number in range(6):
        scene.arrive(f"less-{number}", 2, level=9, prompt=300, output=100, business=f"b{number}")
        scene.arrive(f"more-{number}", 2, level=7, prompt=300, output=100, business=f"c{number}")
    kept = scene.state.queues.aside["large"].replica
    (other,) = {"a", "b"} - {kept}
    # Whoever's turn it is: where nothing is kept there is no room left for one of them.
    assert not scene.state.replicas[other].fits(400)
    assert len(scene.on(kept)) == 1
    scene.finish("x" if "x" in scene.on(kept) else "y")
    assert "large" in scene.on(kept)


def test_reservations_grow_with_the_tokens_seen() -> None:
    """Answers of a business have been short; this one is not."""
    scene = Scene(card("a", 8, kv=10_000))
    for number in range(40):
        scene.arrive(f"known{number}", 1, prompt=100, output=0)
        scene.wait(SECOND)
        scene.finish(f"known{number}", output=50)
    scene.arrive("long", 1, prompt=100, output=0)
    before = scene.state.replicas["a"].kv_used
    assert before < 300
    for tokens in range(100, 5_000, 100):
        scene.step(events.Progress("long", 1, tokens))
        assert scene.state.replicas["a"].kv_used >= tokens + 100
    scene.arrive("next", 1, prompt=6_000, output=100)
    assert scene.waiting() == ["next"]
    scene.finish("long", output=5_000)
    assert scene.state.replicas["a"].kv_used == scene.state.requests["next"].kv


def test_no_reservation_is_larger_than_the_cache() -> None:
    scene = Scene(card("a", 8, kv=1_000))
    scene.arrive("endless", 1, prompt=500, output=0)
    for tokens in range(100, 3_000, 100):
        scene.step(events.Progress("endless", 1, tokens))
        assert scene.state.replicas["a"].kv_used <= 1_000
    scene.finish("endless", output=3_000)
    assert scene.state.replicas["a"].kv_used == 0
