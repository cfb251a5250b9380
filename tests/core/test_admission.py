"""Admission by latency budget, and what is done when P0 waits too long."""

from dataclasses import replace
from math import ceil

import pytest

from scheduler.core.decisions import Kind, Notice, Reason, Scale, Throttle
from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, URGENT, Scene, card

# A measured model: each request holds its slot for a second.
SERVICE = SECOND


def measured(*cards: str, slots: int = 4, policy: Policy | None = None) -> Scene:
    """A fleet whose model is known to hold a slot for a second, full of P1 just begun."""
    scene = Scene(*(card(name, slots) for name in cards or ("c",)), policy=policy)
    for number in range(80):
        scene.arrive(f"known-{number}")
        scene.now += SERVICE
        scene.finish(f"known-{number}")
    for number in range(slots * len(cards or ("c",))):
        scene.arrive(f"held-{number}")
    return scene


def kinds(scene: Scene) -> list[Kind]:
    return [item.kind for item in scene.log if isinstance(item, Notice)]


def scales(scene: Scene) -> list[Scale]:
    return [item for item in scene.log if isinstance(item, Scale)]


# Latency budgets.


def test_who_would_wait_longer_than_it_may_is_refused_at_once() -> None:
    scene = measured()
    # Four slots come free a second: behind eight the least wait is two seconds.
    for number in range(8):
        scene.arrive(f"w{number}", budget=60 * SECOND)
    scene.arrive("short", budget=1900 * MS)
    scene.arrive("long", budget=2100 * MS)
    refusal = scene.refused["short"]
    assert refusal.reason is Reason.LATENCY_BUDGET
    assert refusal.retry_after == pytest.approx(100 * MS, rel=0.2)
    assert scene.refused.keys() == {"short"}
    assert "long" in scene.waiting()


def test_what_another_business_has_queued_refuses_nobody_whose_turn_comes_before_it() -> None:
    scene = measured()
    for number in range(200):
        scene.arrive(f"flood-{number}", business="flood")
    # 200 wait, four a second end: but one of its own is next but one.
    scene.arrive("first", business="calm", budget=2 * SECOND)
    scene.arrive("second", business="calm", budget=2 * SECOND)
    assert not scene.refused
    for number in range(4):
        scene.finish(f"held-{number}")
    assert {"first", "second"} & set(scene.running)
    # Behind twenty of its own it has to wait for as many of the others.
    for number in range(20):
        scene.arrive(f"own-{number}", business="calm")
    scene.wait(SECOND)
    scene.arrive("last", business="calm", budget=4 * SECOND)
    assert scene.refused.keys() == {"last"}


def test_where_levels_are_strict_only_those_above_it_come_before_it() -> None:
    scene = measured()
    for number in range(40):
        scene.arrive(f"lower-{number}", 0, level=2)
    scene.arrive("urgent", 0, level=0, budget=SECOND)
    scene.arrive("equal", 0, level=2, budget=SECOND)
    assert scene.refused.keys() == {"equal"}


def test_after_that_time_the_same_request_is_let_in() -> None:
    scene = measured()
    for number in range(8):
        scene.arrive(f"w{number}", budget=60 * SECOND)
    scene.arrive("short", budget=1500 * MS)
    wait = scene.refused["short"].retry_after
    scene.now += SERVICE
    assert wait < SERVICE
    scene.finish("held-0", "held-1", "held-2", "held-3")
    scene.arrive("again", budget=1500 * MS)
    assert "again" not in scene.refused


def test_a_model_that_was_never_measured_refuses_nobody() -> None:
    scene = Scene(card("c", 1))
    for number in range(20):
        scene.arrive(f"r{number}", budget=MS)
    assert not scene.refused


def test_urgent_work_that_may_stop_other_work_is_let_in() -> None:
    scene = Scene(card("c", 4))
    for number in range(80):
        scene.arrive(f"known-{number}")
        scene.now += 60 * SECOND
        scene.finish(f"known-{number}")
    for number in range(4):
        scene.arrive(f"low-{number}", 2, resume=Resume.CONTINUE)
    for number in range(6):
        scene.arrive(f"p0-{number}", 0, budget=SECOND)
    assert not scene.refused


def test_one_in_so_many_comes_in_to_see_whether_it_is_true() -> None:
    scene = measured()
    for number in range(8):
        scene.arrive(f"w{number}", budget=600 * SECOND)
    for number in range(3):
        scene.arrive(f"short-{number}", budget=MS)
    assert len(scene.refused) == 3
    policy = Policy()
    often = replace(policy, admission=replace(policy.admission, probe_every=2))
    scene.rules(often)
    for number in range(3, 5):
        scene.arrive(f"short-{number}", budget=MS)
    assert len(scene.refused) == 4


def test_what_was_measured_long_ago_does_not_lock_anybody_out() -> None:
    """An estimate ten times too high is right again within a minute at ten requests a second."""
    scene = measured()
    for means in (scene.state.estimates.service, scene.state.estimates.models):
        for mean in means.values():
            mean.value *= 10
    scene.finish(*[f"held-{number}" for number in range(4)])
    served, began = 0, scene.now
    ends: list[tuple[int, str]] = []
    while scene.now - began < 60 * SECOND:
        for at, name in [end for end in ends if end[0] <= scene.now]:
            scene.finish(name)
            ends.remove((at, name))
        name = f"r{scene.now}"
        scene.arrive(name, budget=2 * SECOND)
        known = {end[1] for end in ends}
        ends += [(scene.now + SERVICE, each) for each in scene.running if each not in known]
        served = len(scene.done)
        scene.now += 250 * MS
    assert served > 200
    assert scene.state.estimates.models["m"].value == pytest.approx(SERVICE, rel=0.35)


def test_a_policy_may_leave_it_to_the_queue() -> None:
    policy = Policy()
    scene = measured(
        policy=replace(policy, admission=replace(policy.admission, latency_budget=False))
    )
    for number in range(30):
        scene.arrive(f"w{number}", budget=MS)
    assert not scene.refused


# Backpressure.


def pressed() -> Scene:
    """P0 has waited for longer than it should, behind P1 that cannot be stopped."""
    scene = measured()
    scene.arrive("urgent", 0)
    scene.wait(2500 * MS)
    assert Kind.PRESSED in kinds(scene)
    return scene


def test_where_p0_waits_too_long_new_p2_is_turned_away() -> None:
    scene = pressed()
    scene.arrive("low", 2)
    assert scene.refused["low"].reason is Reason.BACKPRESSURE
    assert scene.refused["low"].retry_after >= SECOND
    scene.arrive("middle", 1)
    assert "middle" in scene.waiting()


def test_it_ends_when_p0_waits_no_longer() -> None:
    scene = pressed()
    scene.finish("held-0")
    scene.wait(200 * MS)
    assert kinds(scene)[-1] is Kind.RELIEVED
    scene.arrive("low", 2)
    assert "low" in scene.waiting()


def test_between_the_two_thresholds_it_stays_as_it_is() -> None:
    scene = measured()
    scene.arrive("urgent", 0)
    scene.wait(1500 * MS)
    assert not kinds(scene)
    scene = pressed()
    scene.finish("held-0")
    # The next urgent one has waited for less than sets it off, but for more than ends it.
    scene.arrive("later", 0, arrived=scene.now - 1500 * MS)
    scene.wait(200 * MS)
    assert Kind.RELIEVED not in kinds(scene)


def test_p0_that_its_own_limit_holds_back_is_no_reason() -> None:
    scene = measured(slots=1)
    scene.finish("held-0")
    scene.limit("greedy", running=1)
    for number in range(5):
        scene.arrive(f"g{number}", 0, business="greedy")
    scene.wait(10 * SECOND)
    assert Kind.PRESSED not in kinds(scene)


def throttles(scene: Scene) -> list[tuple[float, float]]:
    return [(item.share, item.least) for item in scene.log if isinstance(item, Throttle)]


def test_p2s_rates_are_halved_each_interval_down_to_the_floor() -> None:
    scene = pressed()
    assert throttles(scene) == [(0.5, 0.1)]
    scene.wait(5 * SECOND)
    assert throttles(scene)[1:] == [(0.25, 0.1)]
    scene.wait(10 * SECOND)
    assert throttles(scene)[2:] == [(0.125, 0.1), (0.1, 0.1)]
    shown = [item for item in scene.log if isinstance(item, Notice)]
    assert [n.value for n in shown if n.kind is Kind.THROTTLED] == [50, 25, 12, 10]


def test_they_come_back_step_by_step_and_no_sooner() -> None:
    scene = pressed()
    scene.finish("held-0")
    scene.wait(200 * MS)
    # It is known that it falls no further, and only later that it rises.
    assert throttles(scene)[1:] == [(0.5, 0.5)]
    scene.wait(60 * SECOND)
    shares = [share for share, _ in throttles(scene)[2:]]
    assert shares == [0.6, 0.7, 0.8, 0.9, 1.0]
    assert kinds(scene)[-1] is Kind.THROTTLED
    assert scene.state.pressure.share == 1.0


def test_a_policy_that_does_not_throttle_slows_nothing_and_one_that_stops_gives_all_back() -> None:
    policy = Policy()
    without = replace(policy, backpressure=replace(policy.backpressure, action=("scale_gpu",)))
    scene = measured(policy=without)
    scene.arrive("urgent", 0)
    scene.wait(10 * SECOND)
    assert not throttles(scene)
    scene = pressed()
    scene.rules(without)
    scene.wait(SECOND)
    assert throttles(scene)[-1] == (1.0, 1.0)


def test_the_floor_is_never_nothing() -> None:
    policy = Policy()
    pressure = policy.backpressure
    low = replace(pressure, throttle=replace(pressure.throttle, floor=0.0))
    scene = measured(policy=replace(policy, backpressure=low))
    scene.arrive("urgent", 0)
    scene.wait(29 * SECOND)
    assert throttles(scene)[0] == (0.5, 0.01)
    assert min(share for share, _ in throttles(scene)) >= 0.01


# Scaling.


def test_the_cards_asked_for_are_those_of_the_formula() -> None:
    scene = measured("a", "b", slots=4)
    backlog = 120
    for number in range(backlog):
        scene.arrive(f"p0-{number}", 0)
    scene.wait(200 * MS)
    scale = Policy().backpressure.scale
    short = ceil(backlog * 1.0 / (4 * scale.drain_s) * (1 + scale.headroom))
    (asked,) = scales(scene)
    assert (asked.pool, asked.ready, asked.desired) == ("shared", 2, 2 + short)


def test_not_more_than_the_policy_allows_and_never_for_a_dedicated_pool() -> None:
    policy = Policy()
    pressure = policy.backpressure
    capped = replace(
        policy, backpressure=replace(pressure, scale=replace(pressure.scale, max_cards=3))
    )
    scene = measured("a", "b", slots=1, policy=capped)
    scene.add(*card("u", 1, pool=URGENT))
    for number in range(200):
        scene.arrive(f"p0-{number}", 0)
    scene.wait(200 * MS)
    (asked,) = scales(scene)
    assert (asked.pool, asked.desired) == ("shared", 3)


def test_cards_are_given_back_after_a_calm_time() -> None:
    scene = measured("a", slots=4)
    for number in range(60):
        scene.arrive(f"p0-{number}", 0)
    scene.wait(200 * MS)
    (asked,) = scales(scene)
    for name in "bcd"[: asked.desired - 1]:
        scene.add(*card(name, 4))
    while scene.running:
        scene.finish(*scene.running)
    scene.wait(299 * SECOND)
    assert len(scales(scene)) == 1
    scene.wait(2 * SECOND)
    assert scales(scene)[-1] == Scale("shared", asked.desired, 1)


def test_cards_that_do_not_help_are_not_asked_for_again() -> None:
    scene = measured("a", slots=4)
    asked = 0
    for second in range(300):
        scene.arrive(f"p0-{second}", 0)
        scene.wait(SECOND)
        while asked < len(scales(scene)):
            # They come, but hold another model: P0 waits on.
            for number in range(len(scene.state.replicas), scales(scene)[asked].desired):
                scene.add(*card(f"more-{number}", 4, "other"))
            asked += 1
    assert kinds(scene).count(Kind.NO_HELP) == 1
    given_up = max(at for at, item in enumerate(scene.log) if item in scales(scene))
    notice = next(
        at
        for at, item in enumerate(scene.log)
        if isinstance(item, Notice) and item.kind is Kind.NO_HELP
    )
    assert given_up < notice
