"""Room that is made by stopping work goes to whom it was made for, and nobody waits for who
does not stop."""

from dataclasses import replace

from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume

from .scene import SECOND, Scene, card


def low(scene: Scene, name: str, model: str = "m", output: int = 8000) -> None:
    scene.arrive(name, 2, model=model, prompt=100, output=output, resume=Resume.CONTINUE)


def test_one_for_whom_nobody_can_be_stopped_hides_no_other() -> None:
    """A more urgent request of a model whose cards run nothing that may be stopped comes first."""
    scene = Scene(card("a", 1, "x"), card("b", 1, "y"))
    scene.arrive("held", 0, model="x")
    low(scene, "low", "y")
    scene.wait(2 * SECOND)
    scene.arrive("stuck", 0, level=0, model="x")
    scene.arrive("urgent", 0, level=2, model="y")
    scene.wait(SECOND)
    assert scene.stopped() == ["low"]


def test_a_victim_that_does_not_stop_is_passed_over() -> None:
    scene = Scene(card("a", 3))
    for number in range(3):
        low(scene, f"low-{number}")
    scene.wait(2 * SECOND)
    scene.arrive("urgent", 0)
    (deaf,) = scene.stopped()
    scene.wait(10 * SECOND)
    others = [name for name in scene.stopped() if name != deaf]
    assert others
    scene.stop(others[0], 100)
    assert "urgent" in scene.running


def test_a_slot_made_for_p0_goes_to_it_and_not_to_an_overdue_p2() -> None:
    scene = Scene(card("a", 2))
    low(scene, "low-0")
    low(scene, "low-1")
    low(scene, "overdue")
    scene.wait(89 * SECOND)
    scene.arrive("urgent", 0)
    (victim,) = scene.stopped()
    scene.wait(2 * SECOND - 1)
    scene.stop(victim, 1000)
    assert "urgent" in scene.running
    assert len(scene.stopped()) == 1


def test_requests_of_one_level_start_in_their_order_whosever_victim_stops_first() -> None:
    scene = Scene(card("a", 4))
    for number in range(4):
        low(scene, f"low-{number}")
    scene.wait(2 * SECOND)
    for number in range(2):
        scene.arrive(f"u{number}", 0)
    first, second = scene.stopped()
    scene.stop(second, 100)
    assert "u0" in scene.running
    scene.stop(first, 100)
    assert "u1" in scene.running


def test_what_a_stop_costs_is_known_by_model() -> None:
    """Detection is done in 20 ms everywhere; chat takes half a minute. A mean of both would make
    it look as if a slot for chat came free in no time."""
    scene = Scene(card("a", 2, "chat"), card("b", 8, "detector"))
    for number in range(200):
        scene.arrive(f"d{number}", 1, model="detector")
        scene.wait(SECOND // 50)
        scene.finish(f"d{number}")
    for number in range(2):
        low(scene, f"low-{number}", "chat", output=3000)
    scene.wait(2 * SECOND)
    scene.arrive("urgent", 0, model="chat", prompt=10, output=10)
    scene.wait(SECOND // 10)
    assert len(scene.stopped()) == 1


def test_p0_has_what_comes_free_first_be_it_made_for_p1() -> None:
    queues = Policy().queues
    policy = replace(Policy(), queues=replace(queues, P1=replace(queues.P1, preempt=True)))
    scene = Scene(card("a"), card("b"), policy=policy)
    for name in ("low-0", "low-1"):
        scene.arrive(name, 2, prompt=100, output=3000, resume=Resume.RESTART)
    scene.arrive("p0", 0)
    scene.arrive("p1", 1)
    of_p0, of_p1 = scene.stopped()
    scene.stop(of_p1)
    assert scene.running.keys() & {"p0", "p1"} == {"p0"}
    scene.stop(of_p0)
    assert {"p0", "p1"} <= scene.running.keys()
