"""What may run and wait at once: limits of businesses, depth of lanes, time in the queue."""

from dataclasses import replace

import pytest

from scheduler.core.decisions import Reason
from scheduler.core.policy import Policy

from .scene import MS, SECOND, Scene, card


def lane_rules(lane: int, **fields: object) -> Policy:
    """The default policy but for these fields of a lane's queue."""
    queues = Policy().queues
    changed = {("P0", "P1", "P2")[lane]: replace(Policy().queue(lane), **fields)}  # type: ignore[arg-type]
    return replace(Policy(), queues=replace(queues, **changed))  # type: ignore[arg-type]


# Limits of a business.


def test_a_business_at_its_limit_waits_beside_free_slots() -> None:
    scene = Scene(card("c", 4))
    scene.limit(running=2)
    for name in "abcd":
        scene.arrive(name)
    assert scene.on("c") == ["a", "b"]
    scene.finish("a")
    assert scene.on("c") == ["b", "c"]
    scene.cancel("b")
    assert scene.on("c") == ["c", "d"]


def test_it_hides_nobody_behind_it() -> None:
    scene = Scene(card("c", 1))
    scene.limit(running=1)
    scene.arrive("held")
    scene.arrive("parked")
    scene.arrive("other", business="other")
    scene.finish("held")
    # Its own next goes first, being older; then the other's, although it is parked again.
    assert scene.running.keys() == {"parked"}
    scene.add(*card("c", 2))
    assert scene.running.keys() == {"parked", "other"}


def test_its_limit_counts_over_lanes_and_models() -> None:
    scene = Scene(card("c", 4, "a", "b"))
    scene.limit(running=2)
    scene.arrive("one", 0, model="a")
    scene.arrive("two", 2, model="b")
    scene.arrive("three", 1, model="a")
    scene.arrive("four", 2, model="a")
    assert scene.waiting() == ["three", "four"]
    scene.finish("two")
    assert scene.running.keys() == {"one", "three"}


def test_what_its_limit_held_back_starts_on_whichever_replica_has_room() -> None:
    scene = Scene(card("one", 1, "a"), card("two", 1, "b"))
    scene.limit(running=1)
    scene.arrive("first", model="a")
    scene.arrive("second", model="b")
    assert scene.waiting() == ["second"]
    scene.finish("first")
    assert scene.on("two") == ["second"]


def test_a_raised_limit_starts_what_it_held_back() -> None:
    scene = Scene(card("c", 4))
    scene.limit(running=1)
    for name in "abcd":
        scene.arrive(name)
    scene.limit(running=3)
    assert scene.on("c") == ["a", "b", "c"]
    scene.forget("shop")
    assert scene.on("c") == ["a", "b", "c", "d"]


def test_a_lowered_limit_breaks_nothing_that_runs() -> None:
    scene = Scene(card("c", 4))
    for name in "abcdef":
        scene.arrive(name)
    scene.limit(running=2)
    assert scene.on("c") == ["a", "b", "c", "d"]
    scene.finish("a", "b")
    assert scene.on("c") == ["c", "d"]
    scene.finish("c")
    assert scene.on("c") == ["d", "e"]


def test_a_limit_of_none_at_all_refuses_at_once() -> None:
    scene = Scene(card("c", 4))
    scene.limit(running=0)
    scene.arrive("a")
    assert scene.refused["a"].reason is Reason.CONCURRENCY_EXCEEDED


def test_a_suspended_business_is_refused_at_once() -> None:
    scene = Scene(card("c", 4))
    scene.limit(suspended=True)
    scene.arrive("a")
    assert scene.refused["a"].reason is Reason.TENANT_SUSPENDED
    scene.arrive("b", business="other")
    assert scene.on("c") == ["b"]


def test_above_its_queue_limit_it_is_refused() -> None:
    scene = Scene(card("c", 4))
    scene.limit(running=1, queued=2)
    for name in "abcd":
        scene.arrive(name)
    assert scene.waiting() == ["b", "c"]
    assert scene.refused["d"].reason is Reason.CONCURRENCY_EXCEEDED
    scene.finish("a")
    scene.arrive("e")
    assert scene.waiting() == ["c", "e"]


def test_it_may_run_but_not_wait() -> None:
    scene = Scene(card("c", 1))
    scene.limit(queued=0)
    scene.arrive("a")
    scene.arrive("b")
    assert scene.on("c") == ["a"]
    assert scene.refused["b"].reason is Reason.QUEUE_FULL


def test_a_refused_request_has_taken_nothing() -> None:
    scene = Scene(card("c", 1))
    scene.limit(running=1, queued=1)
    for name in "abcdef":
        scene.arrive(name)
    scene.finish("a", "b")
    tenant = scene.state.tenants["shop"]
    assert (tenant.running, tenant.queued, tenant.active) == (0, 0, [0, 0, 0])
    assert not scene.state.requests
    scene.arrive("g")
    assert scene.on("c") == ["g"]


# Depth and time of lanes.


@pytest.mark.parametrize("lane", [0, 1, 2])
def test_a_lane_is_as_deep_as_its_policy_says(lane: int) -> None:
    scene = Scene(card("c", 1), policy=lane_rules(lane, max_queue=3))
    scene.arrive("held", lane, business="other")
    for number in range(5):
        scene.arrive(f"n{number}", lane)
    assert scene.waiting() == ["n0", "n1", "n2"]
    assert {found.reason for found in scene.refused.values()} == {Reason.QUEUE_FULL}
    scene.arrive("elsewhere", (lane + 1) % 3)
    assert "elsewhere" in scene.waiting()
    scene.cancel("elsewhere")
    scene.finish("held")
    scene.arrive("again", lane)
    assert "again" in scene.waiting()


def test_a_full_lane_lets_start_what_needs_no_queue() -> None:
    scene = Scene(card("a", 1, "a"), card("b", 1, "b"), policy=lane_rules(1, max_queue=1))
    for number in range(3):
        scene.arrive(f"a{number}", model="a")
    assert list(scene.refused) == ["a2"]
    scene.arrive("b0", model="b")
    assert scene.where("b0") == "b"


def test_after_its_time_in_the_queue_a_request_is_refused() -> None:
    scene = Scene(card("c", 1), policy=lane_rules(1, queue_timeout_ms=500))
    scene.arrive("held")
    scene.arrive("early")
    scene.wait(200 * MS)
    scene.arrive("late")
    scene.wait(299 * MS)
    assert not scene.refused
    scene.wait(MS)
    assert scene.refused["early"].reason is Reason.QUEUE_TIMEOUT
    assert scene.waiting() == ["late"]
    scene.finish("held")
    scene.wait(SECOND)
    assert list(scene.refused) == ["early"]
    assert scene.on("c") == ["late"]


def test_or_it_moves_down_and_keeps_its_arrival() -> None:
    scene = Scene(card("c", 1), policy=lane_rules(0, queue_timeout_ms=500, on_timeout="move_down"))
    scene.arrive("held", 0, business="other")
    scene.arrive("old", 0)
    scene.wait(400 * MS)
    scene.arrive("p1", 1)
    scene.wait(300 * MS)
    assert not scene.refused
    assert scene.state.requests["old"].lane == 1
    scene.arrive("p0", 0)
    assert scene.drain(MS) == ["p0", "old", "p1"]
    assert scene.state.lane_queued == [0, 0, 0]


def test_what_moved_down_has_the_lower_lanes_time_and_limits() -> None:
    policy = lane_rules(0, queue_timeout_ms=500, on_timeout="move_down")
    p1 = replace(policy.queues.P1, queue_timeout_ms=2000)
    scene = Scene(card("c", 1), policy=replace(policy, queues=replace(policy.queues, P1=p1)))
    scene.arrive("held", 0)
    scene.arrive("old", 0)
    scene.wait(1999 * MS)
    assert not scene.refused
    scene.wait(MS)
    assert scene.refused["old"].reason is Reason.QUEUE_TIMEOUT


def test_a_model_that_nobody_serves_is_refused_at_once() -> None:
    scene = Scene(card("c", 1), card("low", 1, "deep", levels=(7, 9)))
    scene.arrive("a", model="unknown")
    scene.arrive("b", 1, model="deep")
    assert {name: found.reason for name, found in scene.refused.items()} == {
        "a": Reason.NO_CAPACITY,
        "b": Reason.NO_CAPACITY,
    }
    scene.arrive("c", 2, model="deep")
    assert scene.where("c") == "low"


def test_the_wait_told_is_the_queue_over_the_slots() -> None:
    scene = Scene(card("c", 2), policy=lane_rules(1, max_queue=10))
    for number in range(13):
        scene.arrive(f"n{number}")
    service = scene.state.service
    assert scene.refused["n12"].retry_after == 10 * service // 2


def test_while_a_lane_is_full_every_business_has_an_even_part_of_it_for_each_model() -> None:
    scene = Scene(card("c", 1, "m", "n"), policy=lane_rules(2, max_queue=90))
    scene.arrive("held", 1)
    for number in range(200):
        scene.arrive(f"flood{number}", 2, business="loud")
    assert len(scene.refused) == 110
    for number in range(60):
        scene.arrive(f"other{number}", 2, business="calm")
        scene.arrive(f"model{number}", 2, business="loud", model="n")
    # Of three that share the lane each may have a third of its ninety places.
    for kind in ("other", "model"):
        let_in = [name for name in scene.waiting() if name.startswith(kind)]
        assert len(let_in) == 30


def test_a_lane_is_as_deep_in_tokens_as_its_policy_says() -> None:
    scene = Scene(card("c", 1), policy=lane_rules(1, max_queue_tokens=10_000))
    scene.arrive("held", 1)
    for number in range(5):
        scene.arrive(f"n{number}", 1, prompt=3_000, output=100)
    assert scene.waiting() == ["n0", "n1", "n2"]
    assert {found.reason for found in scene.refused.values()} == {Reason.QUEUE_FULL}
    scene.arrive("small", 1, prompt=100, output=100)
    assert "small" in scene.waiting()


def tokens_of(scene: Scene, business: str) -> int:
    """Prompt and output tokens that its waiting requests ask for."""
    tickets = [scene.state.requests[name].ticket for name in scene.waiting()]
    return sum(each.prompt + each.output for each in tickets if each.business == business)


def test_exactly_as_many_tokens_as_the_lane_has_may_wait() -> None:
    scene = Scene(card("c", 1), policy=lane_rules(1, max_queue_tokens=9_000))
    scene.arrive("held", 1)
    for number in range(4):
        scene.arrive(f"n{number}", 1, prompt=2_900, output=100)
    assert scene.waiting() == ["n0", "n1", "n2"]


def test_few_large_requests_take_no_more_of_a_lane_that_is_full_than_many_small_ones() -> None:
    """It is full in tokens: by tokens everybody has a part of it, however few requests ask."""
    scene = Scene(card("c", 1), policy=lane_rules(1, max_queue_tokens=90_000))
    scene.arrive("held", 1)
    for number in range(400):
        scene.arrive(f"small{number}", 1, business="many", prompt=200, output=100)
    assert tokens_of(scene, "many") == 90_000
    for number in range(40):
        scene.arrive(f"large{number}", 1, business="few", prompt=29_900, output=100)
    # An even part is 45,000, into which one of them goes.
    assert tokens_of(scene, "few") == 30_000


def test_many_small_requests_have_their_part_beside_few_large_ones() -> None:
    scene = Scene(card("c", 1), policy=lane_rules(1, max_queue_tokens=90_000))
    scene.arrive("held", 1)
    for number in range(10):
        scene.arrive(f"large{number}", 1, business="few", prompt=29_900, output=100)
    assert tokens_of(scene, "few") == 90_000
    for number in range(400):
        scene.arrive(f"small{number}", 1, business="many", prompt=200, output=100)
    assert tokens_of(scene, "many") == 45_000
