"""How long a stop takes is learnt for each replica by itself."""

import pytest

from scheduler.core.replica import STOPPING_PRIOR

from .scene import MS, SECOND, Scene, card
from .test_preempt import low, stops


def two() -> Scene:
    """Two equal cards of one slot, a low request on each."""
    scene = Scene(card("a"), card("b"))
    low(scene, "first")
    low(scene, "second")
    scene.wait(4 * SECOND)
    return scene


@pytest.mark.parametrize("slow", ["a", "b"])
def test_a_slot_is_taken_where_stopping_is_quick(slow: str) -> None:
    scene = two()
    for _ in range(20):
        scene.state.replicas[slow].note_stop(2 * SECOND)
    (found,) = stops(scene.arrive("urgent", 0))
    assert found.replica != slow


def test_a_slow_stop_counts_where_it_was_seen_alone() -> None:
    scene = two()
    scene.arrive("urgent", 0)
    victim = scene.stopped()[0]
    slow = scene.where(victim)
    scene.wait(4 * SECOND)
    scene.stop(victim)
    learnt = {name: replica.stopping for name, replica in scene.state.replicas.items()}
    assert learnt.pop(slow) == STOPPING_PRIOR + (4 * SECOND - STOPPING_PRIOR) // 8
    assert list(learnt.values()) == [STOPPING_PRIOR]


def test_a_new_process_is_not_judged_by_the_old_one() -> None:
    scene = two()
    scene.arrive("urgent", 0)
    victim = scene.stopped()[0]
    name = scene.where(victim)
    scene.wait(900 * MS)
    scene.stop(victim)
    assert scene.state.replicas[name].stopping > STOPPING_PRIOR
    scene.restart(name)
    assert scene.state.replicas[name].stopping == STOPPING_PRIOR
