"""Admission by latency budget."""

from dataclasses import replace

import pytest

from scheduler.core.decisions import Reason
from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, Scene, card

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


def test_a_policy_may_leave_it_to_the_queue() -> None:
    policy = Policy()
    scene = measured(
        policy=replace(policy, admission=replace(policy.admission, latency_budget=False))
    )
    for number in range(30):
        scene.arrive(f"w{number}", budget=MS)
    assert not scene.refused


def test_refusals_take_nothing_from_what_was_measured() -> None:
    """At ten times what can be served whoever is let in is in time, all the while."""
    scene = measured()
    scene.finish(*[f"held-{number}" for number in range(4)])
    late = count = 0
    ends: list[tuple[int, str]] = []
    due: dict[str, int] = {}
    for number in range(4_000):
        while ends and ends[0][0] <= scene.now:
            at, name = ends.pop(0)
            scene.finish(name)
            late += at > due[name]
        name = f"n{number}"
        scene.arrive(name, budget=4 * SERVICE)
        due[name] = scene.now + 5 * SERVICE
        known = {end[1] for end in ends}
        ends += [(scene.now + SERVICE, each) for each in scene.running if each not in known]
        ends.sort()
        scene.wait(25 * MS)
        count += 1
    served = len(scene.done)
    assert served > 0.8 * 4 * (count * 25 * MS) / SERVICE
    assert late <= served / 50


def test_victims_of_another_model_shorten_no_wait() -> None:
    scene = measured()
    scene.add(*card("other", 1, "n"))
    scene.arrive("low", 2, model="n", prompt=100, output=8000, resume=Resume.CONTINUE)
    for number in range(60):
        scene.arrive(f"p{number}", 0, budget=SERVICE)
    assert Reason.LATENCY_BUDGET in {found.reason for found in scene.refused.values()}


def test_a_higher_quantile_refuses_sooner() -> None:
    """Services vary: half of them take a tenth of the others' time."""

    def let_in(quantile: float) -> int:
        queues = Policy().queues
        rules = replace(
            Policy(),
            admission=replace(Policy().admission, quantile=quantile),
            queues=replace(queues, P1=replace(queues.P1, budget_on="completion")),
        )
        scene = Scene(card("c", 1), policy=rules)
        for number in range(40):
            scene.arrive(f"known{number}")
            scene.wait(SECOND if number % 2 else SECOND // 10)
            scene.finish(f"known{number}")
        scene.arrive("held")
        for number in range(20):
            scene.arrive(f"n{number}", budget=3 * SECOND)
        return len(scene.waiting())

    assert let_in(0.1) > let_in(0.5) > let_in(0.9) > 0


def test_nothing_is_refused_by_what_was_measured_too_long_ago() -> None:
    scene = measured()
    for number in range(30):
        scene.arrive(f"p{number}", 1, budget=SERVICE)
    assert scene.refused
    refused = len(scene.refused)
    scene.wait(3600 * SECOND)
    for number in range(8):
        scene.arrive(f"again{number}", 1, budget=SERVICE)
    assert len([n for n in scene.refused if n.startswith("again")]) == 0
    assert len(scene.refused) >= refused
