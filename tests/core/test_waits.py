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


def test_replicas_that_are_busy_in_turn_bounce_nobody_past_its_time_limit() -> None:
    """Each says no and has its pause while the other is asked."""
    scene = Scene(card("a", 1), card("b", 1), policy=timed(0, 30))
    scene.arrive("urgent", 0, budget=10 * SECOND)
    asked, began = set(), scene.now
    while "urgent" not in scene.refused:
        assert scene.now - began < 40 * SECOND
        if "urgent" in scene.running:
            asked.add(scene.where("urgent"))
            scene.fail("urgent", events.Fault.BUSY)
        scene.wait(50 * MS)
    assert asked == {"a", "b"}
    assert scene.refused["urgent"].reason is Reason.QUEUE_TIMEOUT
    assert scene.now - began >= 30 * SECOND


def test_a_busy_replica_takes_nothing_from_the_time_that_is_left() -> None:
    """One that was told off still has what it has not waited, and starts when there is room."""
    scene = Scene(card("a", 1), policy=timed(0, 30))
    scene.arrive("urgent", 0)
    for _ in range(3):
        scene.fail("urgent", events.Fault.BUSY)
        while "urgent" not in scene.running:
            scene.wait(50 * MS)
    assert not scene.refused
    scene.wait(60 * SECOND)
    scene.finish("urgent")
    assert scene.done == ["urgent"]


def test_what_was_waited_in_several_pauses_counts_together() -> None:
    scene = Scene(card("a", 1), card("b", 1), policy=timed(2, 60))
    scene.arrive("low", 2, prompt=100, output=8000, resume=Resume.CONTINUE)
    scene.arrive("long", 1)
    for number in range(2):
        scene.wait(20 * SECOND)
        scene.arrive(f"urgent-{number}", 0)
        assert scene.stopped() == ["low"] * (number + 1)
        scene.stop("low", 300 * (number + 1))
        scene.wait(25 * SECOND)
        scene.finish(f"urgent-{number}")
        assert "low" in scene.running
    scene.arrive("first", 1)
    # Two pauses of 25 s: it has ten seconds left for what it has to wait after a lost slot.
    scene.fail("low", events.Fault.UNREACHABLE)
    scene.wait(9 * SECOND)
    assert "low" in scene.waiting()
    scene.wait(2 * SECOND)
    assert scene.refused["low"].reason is Reason.QUEUE_TIMEOUT


def test_nobody_moves_down_to_where_its_level_is_not_served() -> None:
    """There is a replica for the next lane, but none that takes so urgent a level in it."""
    policy = timed(0, 1, on_timeout="move_down")
    scene = Scene(card("a", 1, pool=URGENT), card("b", 4, levels=(3, 9)), policy=policy)
    scene.arrive("runs", 0)
    scene.arrive("waits", 0)
    scene.wait(2 * SECOND)
    assert scene.refused["waits"].reason is Reason.QUEUE_TIMEOUT


def test_nobody_moves_down_to_a_lane_that_only_serves_other_models() -> None:
    policy = timed(0, 1, on_timeout="move_down")
    scene = Scene(card("a", 1, pool=URGENT), card("b", 4, "other"), policy=policy)
    scene.arrive("runs", 0)
    scene.arrive("waits", 0)
    scene.wait(2 * SECOND)
    assert scene.refused["waits"].reason is Reason.QUEUE_TIMEOUT
