"""Feedback: who suffers rises, who misbehaves sinks, and neither back and forth."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from scheduler.core.conduct import Cause, Conduct
from scheduler.core.decisions import Adjust, Kind, Notice
from scheduler.core.events import Arrived, Finished
from scheduler.core.policy import Feedback, Policy
from scheduler.core.ticket import Ticket

from .clockwork import Clockwork
from .scene import MS, SECOND, SHARED, START, URGENT, Scene, card

HOLD = Feedback().hold_ticks * Policy().tick_ms * MS
NAME = "shop/m"


def rules(**changes: object) -> Policy:
    """The default policy, with some of feedback's fields changed."""
    policy = Policy()
    return replace(policy, feedback=replace(policy.feedback, **changes))  # type: ignore[arg-type]


def notices(scene: Scene, name: str = NAME) -> list[Notice]:
    """What was said of one business's model."""
    return [
        item
        for item in scene.log
        if isinstance(item, Notice) and item.kind is Kind.ADJUSTED and item.name == name
    ]


def conduct(scene: Scene, business: str = "shop", model: str = "m") -> Conduct:
    return scene.state.tenants[business].conducts[model]


def spend(scene: Scene, seconds: float, output: int, lane: int = 1, most: int = 100) -> None:
    """Ten requests a second that declare ``most`` tokens and have ``output``."""
    for _ in range(round(seconds * 10)):
        name = f"at-{scene.now}"
        scene.arrive(name, lane, prompt=20, output=most)
        scene.wait(100 * MS)
        scene.finish(name, output=output)


def where(scene: Scene, lane: int = 1, **more: object) -> tuple[int, int]:
    """Level and lane of a request that comes now."""
    scene.arrive("probe", lane, **more)  # type: ignore[arg-type]
    found = scene.state.requests["probe"]
    scene.cancel("probe")
    assert found.ticket.lane == found.lane
    return found.ticket.level, found.lane


# Who costs more than it says sinks.


def test_work_that_costs_more_than_it_declares_sinks_into_the_next_lane() -> None:
    scene = Scene(card("c", 4))
    spend(scene, 10, output=200)
    assert [(item.value, "lowered" in item.cause) for item in notices(scene)] == [
        (1, True),
        (2, True),
    ]
    assert "x what it declares" in notices(scene)[-1].cause
    assert where(scene, 0, level=1) == (3, 1)
    assert where(scene, 1, level=4) == (6, 1)
    assert where(scene, 1, level=6) == (8, 2)
    assert where(scene, 2, level=9) == (9, 2)


def test_an_adjusted_request_is_told_as_it_is_now() -> None:
    scene = Scene(card("c", 4))
    spend(scene, 10, output=200)
    out = scene.arrive("next", 0, level=2, budget=10 * SECOND)
    (told,) = [item for item in out if isinstance(item, Adjust)]
    assert (told.ticket.id, told.ticket.level, told.ticket.lane, told.by) == ("next", 4, 1, 2)
    # It can wait as long as the work of its new lane.
    assert told.ticket.budget == 60 * SECOND
    assert scene.state.lane_running[:2] == [0, 1]


def test_what_waits_already_keeps_its_place() -> None:
    scene = Scene(card("c", 1))
    scene.arrive("held", 0, level=0, business="other")
    scene.arrive("before", 1, level=6)
    state = scene.state
    state.tenant("shop").conduct("m").steps = 2
    state.tenant("shop").conduct("m").cause = Cause.COST
    scene.arrive("after", 1, level=6)
    assert (state.requests["before"].ticket.level, state.requests["before"].lane) == (6, 1)
    assert (state.requests["after"].ticket.level, state.requests["after"].lane) == (8, 2)
    assert scene.drain() == ["before", "after"]


def test_what_is_declared_truly_is_left_alone_and_so_is_what_declares_nothing() -> None:
    for output, most in ((100, 100), (90, 100), (900, 0)):
        scene = Scene(card("c", 4))
        spend(scene, 10, output, most=most)
        assert not notices(scene)


def test_it_comes_back_below_the_lower_threshold_and_stays_between_the_two() -> None:
    scene = Scene(card("c", 4))
    spend(scene, 10, output=200)
    while conduct(scene).cost > 1.45 * conduct(scene).costed:
        spend(scene, 1, output=130)
    spend(scene, 60, output=135)
    assert [item.value for item in notices(scene)] == [1, 2]
    spend(scene, 60, output=80)
    assert [item.value for item in notices(scene)] == [1, 2, 1, 0]
    assert "back" in notices(scene)[-1].cause
    assert where(scene) == (4, 1)


def test_where_all_of_a_model_cost_more_it_is_nobodys_doing() -> None:
    scene = Scene(card("c", 8))
    for _ in range(100):
        for business in ("shop", "other"):
            scene.arrive(business, 1, business=business, prompt=20, output=100)
        scene.wait(100 * MS)
        scene.finish("shop", output=210)
        scene.finish("other", output=200)
    assert not notices(scene)
    assert not notices(scene, "other/m")


def test_a_business_that_fails_is_not_lowered_for_it() -> None:
    unbroken = replace(Policy().failover, fail_threshold=100)
    let = replace(Policy().tenant_breaker, min_requests=100)
    policy = replace(rules(min_requests=2), failover=unbroken, tenant_breaker=let)
    scene = Scene(card("c", 4), policy=policy)
    for number in range(30):
        scene.arrive(f"r{number}", budget=SECOND)
        scene.wait(500 * MS)
        attempt = scene.running.pop(f"r{number}").attempt
        scene.step(Finished(f"r{number}", attempt, failed=True))
    assert not notices(scene)


# Who fills its model's queue sinks, but for P0.


def backlogged(*, neighbour: bool = True) -> Scene:
    """Two minutes' work waits in front of one slot, all of it one business's."""
    scene = Scene(card("c", 1, "m", "other"))
    for number in range(4):
        scene.arrive(f"known-{number}")
        scene.now += SECOND
        scene.finish(f"known-{number}")
    scene.arrive("held")
    for number in range(120):
        scene.arrive(f"w{number}")
    for _ in range(8):
        scene.wait(SECOND)
        scene.finish(next(iter(scene.running)))
        if neighbour:
            scene.arrive(f"n{scene.now}", 0, business="calm", model="other")
    return scene


def test_who_fills_its_models_queue_is_lowered_and_its_p0_is_not() -> None:
    scene = backlogged()
    assert [item.value for item in notices(scene)] == [1, 2]
    assert "queue takes" in notices(scene)[0].cause
    assert where(scene, 1, level=6) == (8, 2)
    assert where(scene, 0, level=2) == (2, 0)
    assert not notices(scene, "calm/other")


def test_who_is_alone_would_make_room_for_nobody() -> None:
    assert not notices(backlogged(neighbour=False))


# Who suffers rises.


def rivalry(
    policy: Policy | None = None, loud: int = 8, **suffering: object
) -> tuple[Scene, Clockwork]:
    """``loud`` sends more a second than the four that can be served, with ten times the weight;
    ``shop`` sends one a second and has to have it soon."""
    scene = Scene(card("c", 4), policy=policy)
    scene.limit("loud", weight=10.0)
    clock = Clockwork(scene, lambda _ticket, _replica: SECOND)
    usual: dict[str, object] = {"lane": 1, "level": 5, "budget": 4 * SECOND}
    usual |= suffering

    def arrivals() -> Iterator[Ticket]:
        for number in range(90 * loud):
            at = START + number * SECOND // loud
            level = 1 if usual["lane"] == 0 else 4
            lane = 0 if level == 1 else 1
            yield Ticket(f"l{number}", "loud", "m", lane, level, at)
            if number % loud == 0:
                yield Ticket(f"s{number}", "shop", "m", arrived=at, **usual)  # type: ignore[arg-type]

    clock.run(arrivals(), START + 90 * SECOND)
    return scene, clock


def served(clock: Clockwork, begin: int, end: int) -> int:
    """How many of the suffering business's requests that came then ran."""
    return sum(
        account.started is not None
        for account in clock.accounts.values()
        if account.ticket.business == "shop"
        and begin <= (account.ticket.arrived - START) // SECOND < end
    )


def test_one_that_misses_its_budgets_has_more_weight() -> None:
    patient = replace(Policy(), admission=replace(Policy().admission, latency_budget=False))
    scene, _ = rivalry(patient)
    assert [item.value for item in notices(scene)][:2] == [-1, -2]
    assert "budget" in notices(scene)[0].cause
    # It has more weight between businesses; its level is what it was.
    assert where(scene, 1, level=5) == (5, 1)
    assert conduct(scene).pace == pytest.approx(1.25**2)
    assert all(item.value >= 0 for item in notices(scene, "loud/m"))


def test_one_that_is_refused_too_often_rises_and_is_served_more() -> None:
    scene, clock = rivalry()
    assert [item.value for item in notices(scene)][:2] == [-1, -2]
    assert "refused" in notices(scene)[0].cause
    off = replace(Policy().order, drop_rate=0.0)
    _, without = rivalry(replace(rules(enabled=False), order=off))
    assert served(clock, 45, 90) >= 1.3 * served(without, 45, 90)


def test_in_p0_no_load_turns_the_order_of_levels_round() -> None:
    """What comes below a level that takes all there is waits, however much it suffers; those of
    the level above notice nothing, whether somebody waits for them or not."""
    waits: dict[bool, list[int]] = {}
    for enabled in (True, False):
        scene = Scene(card("c", 8), policy=rules(enabled=enabled))
        clock = Clockwork(scene, lambda _ticket, _replica: 100 * MS)
        tickets = [
            Ticket(f"{name}{n}", name, "m", 0, level, START + n * gap, realtime=True, budget=SECOND)
            for name, level, gap in (("vip", 0, 17 * MS), ("basic", 2, 21 * MS))
            for n in range(60 * SECOND // gap)
        ]
        clock.run(sorted(tickets, key=lambda ticket: ticket.arrived), START + 60 * SECOND)
        assert bool(notices(scene, "basic/m")) == enabled
        assert not notices(scene, "vip/m")
        assert where(scene, 0, level=2, business="basic") == (2, 0)
        waits[enabled] = sorted(
            account.started - account.ticket.arrived
            for account in clock.accounts.values()
            if account.ticket.level == 0 and account.started is not None
        )
        assert not [name for name in scene.refused if name.startswith("vip")]
    assert waits[True] == waits[False]
    assert waits[True][len(waits[True]) // 2] < 20 * MS


def test_in_p0_one_that_suffers_has_more_weight_among_its_equals() -> None:
    scene, clock = rivalry(lane=0, level=1)
    assert [item.value for item in notices(scene)][:2] == [-1, -2]
    off = replace(Policy().order, drop_rate=0.0)
    _, without = rivalry(replace(rules(enabled=False), order=off), lane=0, level=1)
    assert served(clock, 45, 90) >= 1.2 * served(without, 45, 90)


@pytest.mark.parametrize("budgeted", [True, False])
def test_a_budget_that_the_caller_named_raises_nobody(budgeted: bool) -> None:
    """Else whoever asks for a millisecond would come before all others."""
    scene, _ = rivalry(budget=SECOND if budgeted else 4 * SECOND, budget_named=True)
    assert scene.refused
    assert not notices(scene)
    patient = replace(Policy(), admission=replace(Policy().admission, latency_budget=False))
    late, _ = rivalry(patient, budget=MS, budget_named=True)
    assert not notices(late)


def test_in_strict_levels_who_costs_more_has_less_weight_there() -> None:
    scene = Scene(card("c", 4))
    spend(scene, 10, output=200, lane=0)
    assert [item.value for item in notices(scene)] == [1, 2]
    # As far as the lane's levels go; beyond, the next lane has it.
    assert where(scene, 0, level=0) == (0, 0)
    assert where(scene, 0, level=1) == (3, 1)
    assert conduct(scene).pace == pytest.approx(1.25**-2)


def test_who_holds_more_than_its_share_suffers_by_its_own_doing() -> None:
    scene = Scene(card("c", 8))
    clock = Clockwork(scene, lambda _ticket, _replica: SECOND)

    def arrivals() -> Iterator[Ticket]:
        for number in range(40 * 16):
            at = START + number * SECOND // 16
            yield Ticket(f"g{number}", "shop", "m", 1, 4, at, budget=2 * SECOND)
            if number % 32 == 0:
                yield Ticket(f"n{number}", "calm", "m", 1, 4, at, budget=2 * SECOND)

    clock.run(arrivals(), START + 40 * SECOND)
    assert scene.refused
    assert not notices(scene)


# Load alone.


@pytest.mark.parametrize("realtime", [True, False])
def test_load_raises_nobody(realtime: bool) -> None:
    scene = Scene(card("c", 10))
    for number in range(9):
        scene.arrive(f"held-{number}", business="other")
    for number in range(60):
        ticket = Ticket(
            f"r{number}", "shop", "m", 1, 5, scene.now, budget=60 * SECOND, realtime=realtime
        )
        scene.step(Arrived(ticket))
        scene.wait(100 * MS)
        scene.finish(ticket.id)
    # Of ten slots nine are taken, and each time it looks the tenth may be.
    assert not notices(scene)


# Bounds, and where it is off.


def test_the_bound_is_the_policys() -> None:
    scene = Scene(card("c", 4), policy=rules(bound=1))
    spend(scene, 10, output=200)
    assert [item.value for item in notices(scene)] == [1]
    scene.rules(rules(bound=3))
    spend(scene, 10, output=200)
    assert [item.value for item in notices(scene)] == [1, 2, 3]


def test_a_threshold_for_the_end_above_that_for_the_beginning_counts_as_equal() -> None:
    """A policy that lowers the one alone is no reason to refuse it."""
    scene = Scene(card("c", 4), policy=rules(cost_factor=0.5))
    spend(scene, 10, output=60)
    assert [item.value for item in notices(scene)] == [1, 2]
    spend(scene, 120, output=20)
    assert [item.value for item in notices(scene)] == [1, 2, 1, 0]


@pytest.mark.parametrize("policy", [rules(enabled=False), replace(Policy(), mode="fifo")])
def test_off_is_off_and_takes_back_what_was_done(policy: Policy) -> None:
    scene = Scene(card("c", 4), policy=policy)
    spend(scene, 10, output=200)
    assert not notices(scene)
    scene.rules(Policy())
    spend(scene, 10, output=200)
    scene.rules(policy)
    scene.wait(SECOND)
    scene.tick()
    assert [item.value for item in notices(scene)] == [1, 2, 0]
    assert where(scene) == (4, 1)


def test_nobody_is_moved_to_where_no_replica_would_serve_it() -> None:
    # The model's only replica is for P0 alone, and the other takes some levels only.
    scene = Scene(card("u", 4, "m", pool=URGENT), card("s", 4, "n", levels=(0, 5), pool=SHARED))
    spend(scene, 10, output=200, lane=0)
    assert [item.value for item in notices(scene)] == [1, 2]
    assert where(scene, 0, level=1) == (1, 0)
    assert where(scene, 0, level=2) == (2, 0)
    for number in range(100):
        scene.arrive(f"n{number}", 1, level=5, model="n", prompt=20, output=100)
        scene.wait(100 * MS)
        scene.finish(f"n{number}", output=200)
    assert conduct(scene, model="n").steps == 2
    assert where(scene, 1, level=5, model="n") == (5, 1)
    assert not scene.refused


# Recent refusals, between queues.


def test_who_was_refused_of_late_has_its_turn_sooner() -> None:
    scene = Scene(card("c", 1), policy=rules(enabled=False))
    scene.tick()
    for business in ("shop", "calm"):
        scene.state.tenant(business).conduct("m").ended = 50
    scene.arrive("held", business="calm")
    conduct(scene).dropped = 50
    scene.now += HOLD
    scene.tick()
    expected = 1.0 + Policy().order.drop_rate / 2
    assert conduct(scene).pace == pytest.approx(expected, rel=0.03)
    assert conduct(scene, "calm").pace == 1.0
    scene.limit(weight=2.0)
    assert conduct(scene).pace == pytest.approx(2 * expected, rel=0.03)
    # Once that is long ago, it is as before.
    scene.now += 600 * SECOND
    scene.tick()
    assert conduct(scene).pace == 2.0
