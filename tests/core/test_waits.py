"""What a request has waited counts in all, whatever became of it between."""

from dataclasses import replace

from scheduler.core import events
from scheduler.core.decisions import Reason
from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, URGENT, Scene, card


def timed(lane: int, seconds: float, **more: object) -> Policy:
    """The lane's queue time is so long."""
    queues = Policy().queues
    name = f"P{lane}"
    rules = replace(getattr(queues, name), queue_timeout_ms=round(seconds * 1000), **more)
    return replace(Policy(), queues=replace(queues, **{name: rules}))


def test_a_slot_that_was_lost_begins_no_new_wait() -> None:
    scene = Scene(card("a", 1), card("b", 1), policy=timed(1, 10))
    scene.arrive("x")
    scene.arrive("y")
    scene.arrive("late")
    scene.wait(8 * SECOND)
    scene.finish("x")
    assert "late" in scene.running
    scene.wait(SECOND)
    scene.fail("late", events.Fault.UNREACHABLE)
    assert "late" in scene.waiting()
    # It has waited for eight of its ten seconds, and the one on the lost replica.
    scene.wait(900 * MS)
    assert "late" in scene.waiting()
    scene.wait(200 * MS)
    assert scene.refused["late"].reason is Reason.QUEUE_TIMEOUT


def test_what_a_pause_adds_counts_to_what_was_waited_before_it() -> None:
    scene = Scene(card("a", 1), policy=timed(2, 60))
    scene.arrive("first", 1)
    scene.arrive("low", 2, prompt=100, output=4000, resume=Resume.CONTINUE)
    scene.wait(50 * SECOND)
    scene.finish("first")
    scene.wait(10 * SECOND)
    scene.arrive("urgent", 0)
    scene.stop("low", 300)
    assert scene.waiting() == ["low"]
    # 50 s before it began; what it worked does not count.
    scene.wait(9 * SECOND)
    assert scene.waiting() == ["low"]
    scene.wait(2 * SECOND)
    assert scene.refused["low"].reason is Reason.QUEUE_TIMEOUT


def test_one_that_started_at_once_has_all_its_time_when_it_is_paused() -> None:
    scene = Scene(card("a", 1), policy=timed(2, 60))
    scene.arrive("low", 2, prompt=100, output=4000, resume=Resume.CONTINUE)
    scene.wait(80 * SECOND)
    scene.arrive("urgent", 0)
    scene.stop("low", 300)
    scene.wait(59 * SECOND)
    assert scene.waiting() == ["low"]
    scene.wait(2 * SECOND)
    assert "low" in scene.refused


def test_the_guard_counts_a_paused_one_from_its_arrival() -> None:
    scene = Scene(card("a", 1))
    scene.arrive("low", 2, prompt=100, output=8000, resume=Resume.CONTINUE)
    scene.wait(80 * SECOND)
    scene.arrive("urgent", 0)
    scene.stop("low", 300)
    scene.wait(15 * SECOND)
    scene.arrive("next", 1)
    # It came 95 s ago, and has the slot before what is only more urgent.
    scene.finish("urgent")
    assert "low" in scene.running


def test_a_busy_replica_bounces_nobody_past_its_time_limit() -> None:
    scene = Scene(card("a", 1), policy=timed(0, 30))
    scene.arrive("urgent", 0, budget=10 * SECOND)
    attempts, began = 0, scene.now
    while "urgent" not in scene.refused:
        assert scene.now - began < 40 * SECOND
        if "urgent" in scene.running:
            attempts += 1
            scene.fail("urgent", events.Fault.BUSY)
        scene.wait(50 * MS)
    assert attempts > 3
    assert scene.refused["urgent"].reason is Reason.QUEUE_TIMEOUT


def test_nobody_moves_down_to_a_lane_that_nobody_serves() -> None:
    scene = Scene(card("a", 1, pool=URGENT), policy=timed(0, 1, on_timeout="move_down"))
    scene.arrive("runs", 0)
    scene.arrive("waits", 0)
    scene.wait(2 * SECOND)
    assert scene.refused["waits"].reason is Reason.QUEUE_TIMEOUT


def test_who_moves_down_may_wait_there_for_as_long_as_that_lane_says() -> None:
    scene = Scene(card("a", 1), policy=timed(0, 1, on_timeout="move_down"))
    scene.arrive("runs", 0)
    scene.arrive("waits", 0)
    scene.wait(2 * SECOND)
    assert scene.state.requests["waits"].lane == 1
    scene.finish("runs")
    assert "waits" in scene.running
