"""Whom preemption stops, and when it pays (C01)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.core.decisions import Decision, Preempt
from scheduler.core.events import Fault
from scheduler.core.policy import Policy, Preemption
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, URGENT, Scene, card

LONG = 60 * SECOND


def rules(**fields: object) -> Policy:
    return replace(Policy(), preemption=replace(Preemption(), **fields))  # type: ignore[arg-type]


def low(
    scene: Scene,
    name: str,
    *,
    level: int = 8,
    resume: Resume = Resume.RESTART,
    prompt: int = 100,
    output: int = 3000,
    business: str = "batch",
) -> None:
    """P2 work of many tokens."""
    scene.arrive(
        name, 2, level=level, business=business, prompt=prompt, output=output, resume=resume
    )


def full(slots: int = 4, *, resume: Resume = Resume.RESTART, policy: Policy | None = None) -> Scene:
    """A card full of long P2 work, started a little apart."""
    scene = Scene(card("c", slots), policy=policy)
    for number in range(slots):
        low(scene, f"low-{number}", resume=resume)
        scene.wait(100 * MS)
    return scene


def stops(out: list[Decision]) -> list[Preempt]:
    return [decision for decision in out if isinstance(decision, Preempt)]


def test_one_urgent_request_stops_exactly_one() -> None:
    """C01: four long P2 streams, one P0: the youngest is stopped, and P0 has its slot."""
    scene = full()
    found = stops(scene.arrive("urgent", 0))
    assert [stop.request for stop in found] == ["low-3"]
    assert found[0].beneficiary == "urgent"
    scene.wait(SECOND)
    assert scene.stopped() == ["low-3"]
    scene.stop("low-3")
    assert scene.on("c") == ["low-0", "low-1", "low-2", "urgent"]
    assert scene.waiting() == ["low-3"]


def test_of_those_that_started_together_the_lowest_class_is_stopped() -> None:
    scene = Scene(card("c", 4))
    for level, name in ((7, "a"), (9, "b"), (7, "c"), (8, "d")):
        low(scene, name, level=level)
    scene.wait(SECOND)
    scene.arrive("urgent", 0)
    assert scene.stopped() == ["b"]


def test_and_of_equals_the_last_that_came() -> None:
    scene = Scene(card("c", 4))
    for name in "abcd":
        low(scene, name)
    scene.wait(SECOND)
    scene.arrive("urgent", 0)
    assert scene.stopped() == ["d"]


def test_of_two_replicas_too() -> None:
    scene = Scene(card("c1", 1), card("c2", 1))
    low(scene, "a", level=7)
    low(scene, "b", level=9)
    scene.wait(SECOND)
    scene.arrive("urgent", 0)
    assert scene.stopped() == ["b"]


@pytest.mark.parametrize("lane", [0, 1, 2])
def test_an_equal_class_stops_nobody(lane: int) -> None:
    scene = Scene(card("c", 4))
    for number in range(4):
        scene.arrive(
            f"r{number}", lane, prompt=100, output=3000, resume=Resume.RESTART, business="batch"
        )
    scene.arrive("one-more", lane, budget=SECOND)
    scene.wait(10 * SECOND)
    assert not scene.stopped()


def test_p1_stops_nobody_by_default() -> None:
    scene = full()
    scene.arrive("p1", 1, budget=SECOND)
    scene.wait(5 * SECOND)
    assert not scene.stopped()


def test_a_free_slot_saves_everybody() -> None:
    scene = full(3)
    scene.add(*card("d", 1))
    scene.arrive("urgent", 0)
    assert scene.where("urgent") == "d"
    assert not scene.stopped()


def test_each_urgent_request_stops_one_and_none_is_counted_twice() -> None:
    scene = full()
    scene.arrive("u1", 0)
    scene.arrive("u2", 0)
    assert len(set(scene.stopped())) == len(scene.stopped()) == 2
    scene.tick()
    scene.wait(SECOND)
    assert len(scene.stopped()) == 2
    for name in scene.stopped():
        scene.stop(name)
    assert {"u1", "u2"} <= scene.running.keys()


# None is stopped where the arrival could not start.


def at_its_limit(scene: Scene) -> None:
    scene.limit("shop", running=1)
    scene.add(*card("u", 1, "n"))
    scene.arrive("other", model="n")


def held_off(scene: Scene) -> None:
    scene.fail("low-3", Fault.BUSY)
    scene.arrive("filler", 0)
    scene.cancel("filler")


def not_ready(scene: Scene) -> None:
    scene.add(*card("u", 1, pool=URGENT))
    scene.arrive("held", 0)
    scene.probe("c", ready=False)


@pytest.mark.parametrize("hinder", [at_its_limit, held_off, not_ready])
def test_nobody_is_stopped_for_one_who_could_not_start(hinder: Callable[[Scene], None]) -> None:
    scene = full()
    hinder(scene)
    scene.arrive("urgent", 0)
    assert "urgent" in scene.waiting()
    assert not scene.stopped()


def test_nobody_is_stopped_where_the_model_or_level_is_not_taken() -> None:
    scene = Scene(
        card("other", 1, "n"), card("deep", 1, "m", levels=(3, 9)), card("own", 1, "m", pool=URGENT)
    )
    scene.arrive("held", 0)
    scene.arrive("low-n", 2, model="n", prompt=100, output=3000, resume=Resume.RESTART)
    low(scene, "low-deep")
    assert len(scene.running) == 3
    scene.arrive("urgent", 0)
    assert not scene.stopped()


def test_two_arrivals_of_a_business_that_may_run_one_stop_one() -> None:
    scene = full()
    scene.limit("shop", running=1)
    scene.arrive("u1", 0)
    scene.arrive("u2", 0)
    scene.wait(SECOND)
    assert len(scene.stopped()) == 1


def test_a_replica_with_more_running_than_slots_needs_more_than_one_stop() -> None:
    scene = full()
    scene.add(*card("c", 3))
    scene.arrive("urgent", 0)
    assert len(scene.stopped()) == 2
    scene.stop(scene.stopped()[0])
    assert "urgent" in scene.waiting()
    scene.stop(scene.stopped()[1])
    assert "urgent" in scene.running


# Who may be stopped.


def test_who_finishes_sooner_than_stopping_takes_is_left_alone() -> None:
    scene = Scene(card("c", 1), policy=rules(margin_ms=0))
    low(scene, "low", prompt=100, output=3)
    assert scene.state.requests["low"].estimate > scene.state.replicas["c"].stopping
    scene.wait(40 * MS)
    scene.arrive("urgent", 0, budget=10 * MS)
    assert not scene.stopped()


def test_work_that_cannot_go_on_is_never_stopped() -> None:
    scene = full(resume=Resume.NEVER)
    scene.arrive("urgent", 0, budget=5 * SECOND)
    scene.wait(4 * SECOND)
    assert not scene.stopped()


def test_work_that_restarts_is_stopped_only_before_its_first_byte() -> None:
    scene = full()
    for name in list(scene.running):
        scene.see(name)
    scene.arrive("urgent", 0)
    scene.wait(SECOND)
    assert not scene.stopped()


def test_the_one_that_has_sent_nothing_yet_is_chosen() -> None:
    scene = full()
    for number in (0, 2, 3):
        scene.see(f"low-{number}")
    scene.arrive("urgent", 0)
    assert scene.stopped() == ["low-1"]


def test_work_that_can_go_on_is_stopped_after_its_first_byte_too() -> None:
    scene = full(resume=Resume.CONTINUE)
    for name in list(scene.running):
        scene.see(name, 50)
    scene.arrive("urgent", 0)
    assert len(scene.stopped()) == 1


@pytest.mark.parametrize(
    "policy",
    [
        rules(enabled=False),
        replace(
            Policy(),
            queues=replace(Policy().queues, P0=replace(Policy().queues.P0, preempt=False)),
        ),
        rules(max_per_request=0),
        rules(margin_ms=3_600_000),
    ],
)
def test_a_policy_can_forbid_it(policy: Policy) -> None:
    scene = full(policy=policy)
    scene.arrive("urgent", 0, budget=SECOND)
    scene.wait(SECOND)
    assert not scene.stopped()


# Gain against cost.


def figures(scene: Scene, budget: int | None = None) -> Preempt:
    return stops(scene.arrive("urgent", 0, budget=budget))[0]


def test_gain_exceeds_cost_by_the_margin() -> None:
    for margin in (0, 50, 5000):
        found = figures(full(policy=rules(margin_ms=margin)))
        assert found.gain - found.cost >= margin * MS
        assert found.cost > 0
        assert found.remain > 0


def test_gain_grows_with_p0s_weight_and_cost_with_p2s() -> None:
    def weighed(p0: float, p2: float) -> Preempt:
        policy = rules(weights=replace(Preemption().weights, P0=p0, P2=p2))
        return figures(full(policy=policy))

    usual = weighed(4.0, 1.0)
    assert weighed(8.0, 1.0).gain == pytest.approx(2 * usual.gain)
    assert weighed(8.0, 1.0).cost == usual.cost
    assert weighed(4.0, 2.0).cost > usual.cost
    assert weighed(4.0, 2.0).gain == usual.gain


def test_a_deadline_that_would_be_missed_adds_to_the_gain() -> None:
    missed = figures(full(), budget=3 * SECOND)
    assert missed.gain > figures(full()).gain
    # What would be in time anyway, or is too late either way, adds nothing.
    assert figures(full(), budget=LONG).gain == figures(full()).gain
    assert figures(full(), budget=MS).gain == figures(full()).gain


def test_what_is_almost_done_is_not_worth_stopping() -> None:
    """The wait saved is small and all the work would be done again."""
    scene = Scene(card("c", 1))
    low(scene, "low")
    expected = scene.state.requests["low"].estimate
    scene.wait(expected - SECOND)
    scene.arrive("urgent", 0)
    scene.wait(900 * MS)
    assert not scene.stopped()


def test_cost_grows_with_what_has_to_be_done_again() -> None:
    def after(ns: int) -> int:
        scene = Scene(card("c", 1), policy=rules(weights=replace(Preemption().weights, P0=100.0)))
        low(scene, "low")
        scene.wait(ns)
        return figures(scene).cost

    costs = [after(ns) for ns in (0, SECOND, 4 * SECOND, 8 * SECOND)]
    assert costs == sorted(set(costs))


def test_going_on_is_cheaper_than_starting_again() -> None:
    def cost(resume: Resume) -> int:
        scene = Scene(card("c", 1))
        low(scene, "low", resume=resume)
        scene.wait(4 * SECOND)
        return figures(scene).cost

    assert cost(Resume.CONTINUE) < cost(Resume.RESTART) / 2


def test_so_of_the_two_the_one_that_goes_on_is_stopped() -> None:
    scene = Scene(card("c", 2))
    low(scene, "goes-on", resume=Resume.CONTINUE)
    low(scene, "starts-again", resume=Resume.RESTART)
    scene.wait(4 * SECOND)
    scene.arrive("urgent", 0)
    assert scene.stopped() == ["goes-on"]


def test_a_long_prompt_is_dear_to_go_on_from() -> None:
    scene = Scene(card("c", 2))
    low(scene, "long", resume=Resume.CONTINUE, prompt=8000)
    low(scene, "short", resume=Resume.CONTINUE, prompt=100)
    scene.wait(4 * SECOND)
    scene.arrive("urgent", 0)
    assert scene.stopped() == ["short"]


def test_stopping_that_takes_long_by_experience_is_worth_less() -> None:
    scene = full()
    quick = figures(scene).gain
    scene.wait(4 * SECOND)
    scene.stop(scene.stopped()[0])
    scene.finish("urgent")
    assert scene.state.replicas["c"].stopping > 50 * MS
    low(scene, "again", business="other")
    scene.wait(10 * SECOND)
    found = stops(scene.arrive("second", 0))
    assert not found or found[0].gain < quick


def test_short_work_before_does_not_hide_that_long_work_holds_the_slots() -> None:
    """A mean over all that ever ran says that a slot comes free at once."""
    scene = Scene(card("c", 8))
    for _ in range(300):
        scene.arrive("short", 0)
        scene.wait(5 * MS)
        scene.finish("short")
    for number in range(8):
        low(scene, f"low-{number}")
    scene.wait(SECOND)
    scene.arrive("urgent", 0)
    assert len(scene.stopped()) == 1


def test_work_that_outruns_its_estimate_is_seen_through_soon() -> None:
    scene = Scene(card("c", 1))
    for _ in range(20):
        scene.arrive("short", 2, prompt=10, output=5)
        scene.wait(5 * MS)
        scene.finish("short", output=5)
    scene.arrive("stuck", 2, prompt=10, output=5, resume=Resume.CONTINUE)
    scene.wait(30 * SECOND)
    scene.arrive("urgent", 0)
    scene.wait(50 * MS)
    assert scene.stopped() == ["stuck"]


def test_p1_stops_p2_where_its_policy_says_so() -> None:
    queues = Policy().queues
    policy = replace(Policy(), queues=replace(queues, P1=replace(queues.P1, preempt=True)))
    scene = full(policy=policy)
    found = stops(scene.arrive("p1", 1, budget=3 * SECOND))
    assert [stop.beneficiary for stop in found] == ["p1"]
    # A wait of P1 counts less than one of P0.
    assert found[0].gain < figures(full(), budget=3 * SECOND).gain
    scene.stop("low-3")
    assert "p1" in scene.running
    scene.arrive("p0", 0)
    assert scene.stopped() == ["low-3", "low-2"]


# KV cache.
