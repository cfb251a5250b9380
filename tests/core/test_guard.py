"""The starvation guard: overdue P2 gets a few slots before anybody else (C02, invariant 4)."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import merge
from math import ceil

import pytest

from scheduler.core.events import Fault
from scheduler.core.fleet import PoolFacts
from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume, Ticket

from .clockwork import Clockwork
from .scene import MS, SECOND, START, URGENT, Scene, card

MINUTE = 60 * SECOND
PATIENCE = 90 * SECOND


# Where P0 waits for long, backpressure would turn P2 away at the door.
CALM = replace(Policy(), backpressure=replace(Policy().backpressure, action=()))


def p2_rules(**fields: object) -> Policy:
    queues = CALM.queues
    return replace(CALM, queues=replace(queues, P2=replace(queues.P2, **fields)))  # type: ignore[arg-type]


SOON = p2_rules(max_wait_ms=1000)


def stream(lane: int, gap: int, begin: int, end: int) -> Iterator[Ticket]:
    for number, at in enumerate(range(begin, end, gap)):
        yield Ticket(f"p{lane}-{at}", f"b{number % 3}", "m", lane, (0, 4, 8)[lane], at)


def overdue(*cards: str, slots: int = 4, waiting: int = 1, resume: Resume = Resume.NEVER) -> Scene:
    """Replicas full of P0, more P0 behind it, and P2 that has waited too long."""
    scene = Scene(*(card(name, slots) for name in cards or ("c",)), policy=SOON)
    for number in range(slots * len(cards or ("c",)) * 2):
        scene.arrive(f"p0-{number}", 0)
    for number in range(waiting):
        scene.arrive(f"low-{number}", 2, resume=resume)
        scene.wait(MS)
    scene.wait(SECOND)
    return scene


def test_one_p2_under_p0_at_120_percent_for_ten_minutes() -> None:
    service, end = 5 * SECOND, START + 10 * MINUTE
    clock = Clockwork(Scene(card("c", 10)), lambda ticket, _: service)
    low = Ticket("low", "b", "m", 2, 8, START + 10 * SECOND)
    urgent = stream(0, service // 12, START, end)
    clock.run(merge(urgent, [low], key=lambda ticket: ticket.arrived), end)
    found = clock.accounts["low"]
    assert found.promoted
    assert found.started is not None
    assert PATIENCE <= found.started - low.arrived <= PATIENCE + service
    assert found.ended == found.started + service


@pytest.mark.parametrize("mode", ["strict", "weighted"])
def test_every_p2_starts_within_its_time_plus_one_service(mode: str) -> None:
    service, end = 4 * SECOND, START + 10 * MINUTE
    policy = replace(CALM, mode=mode)
    clock = Clockwork(Scene(card("c", 10), policy=policy), lambda ticket, _: service)
    urgent = stream(0, service // 12, START, end)
    low = stream(2, 6 * SECOND, START + 10 * SECOND, end)
    clock.run(merge(urgent, low, key=lambda ticket: ticket.arrived), end)
    lives = [life for life in clock.accounts.values() if life.ticket.lane == 2]
    for life in lives:
        if life.ticket.arrived + PATIENCE + service < end:
            assert life.started is not None
            assert life.started - life.ticket.arrived <= PATIENCE + service
    assert clock.most_promoted <= 1
    if mode == "strict":
        assert sum(life.promoted for life in lives) > 50


def test_more_overdue_work_than_promoted_slots_is_worked_off_in_order() -> None:
    """The promoted slot is never idle; the others wait on, and P0 keeps all other slots."""
    service, end = SECOND, START + 2 * MINUTE
    clock = Clockwork(Scene(card("c", 10), policy=SOON), lambda ticket, _: service)
    urgent = stream(0, service // 12, START, end)
    low = stream(2, 200 * MS, START + 2 * SECOND, end)
    clock.run(merge(urgent, low, key=lambda ticket: ticket.arrived), end)
    shares = clock.shares(START + 10 * SECOND, end)
    assert shares[2] == pytest.approx(0.1, abs=0.01)
    assert clock.most_promoted == 1
    started = [life for life in clock.accounts.values() if life.promoted]
    times = [life.started or 0 for life in started]
    assert times == sorted(times)
    assert [life.ticket.arrived for life in started] == sorted(
        life.ticket.arrived for life in started
    )


@pytest.mark.parametrize("slots", [1, 4, 10, 11, 25])
def test_a_pool_promotes_into_a_tenth_of_its_slots_rounded_up(slots: int) -> None:
    scene = overdue(slots=slots, waiting=slots)
    scene.finish(*[name for name in list(scene.running) if name.startswith("p0")])
    low = [name for name in scene.running if name.startswith("low")]
    assert len(low) == ceil(slots / 10)
    assert scene.promoted() == [f"low-{number}" for number in range(len(low))]


def test_the_share_is_each_pools_own() -> None:
    other = PoolFacts("other", False, frozenset({0, 1, 2}))
    scene = Scene(card("a", 10), card("b", 10, pool=other), policy=SOON)
    for number in range(40):
        scene.arrive(f"p0-{number}", 0)
    for number in range(10):
        scene.arrive(f"low-{number}", 2)
    scene.wait(2 * SECOND)
    scene.finish(*[name for name in list(scene.running) if name.startswith("p0")])
    low = [scene.where(name) for name in scene.running if name.startswith("low")]
    assert sorted(low) == ["a", "b"]


def test_a_dedicated_pool_promotes_nobody() -> None:
    scene = Scene(card("u", 4, pool=URGENT), card("c", 1), policy=SOON)
    for _ in range(8):
        scene.arrive(lane=0)
    scene.arrive("low", 2)
    scene.wait(2 * SECOND)
    scene.finish(*scene.on("u"))
    assert "low" not in scene.running
    assert len(scene.on("u")) == 3


def test_the_oldest_goes_first_whatever_its_business_model_or_level() -> None:
    scene = Scene(card("c", 10, "a", "b"), policy=SOON)
    for number in range(40):
        scene.arrive(lane=0, model="ab"[number % 2])
    names = []
    for number in range(6):
        names.append(f"low-{number}")
        scene.arrive(
            names[-1],
            2,
            level=(9, 7)[number % 2],
            business=f"b{number % 3}",
            model="ab"[number % 2],
            prompt=900 - 100 * number,
            output=500,
        )
        scene.wait(MS)
    scene.wait(2 * SECOND)
    for name in names:
        scene.finish(next(found for found in scene.running if found.startswith("r")))
        assert scene.promoted()[-1] == name
        scene.finish(name)
    assert scene.promoted() == names


def test_what_is_not_overdue_is_ordinary() -> None:
    scene = Scene(card("c", 4), policy=SOON)
    for _ in range(10):
        scene.arrive(lane=0)
    scene.arrive("low", 2)
    scene.wait(999 * MS)
    scene.finish(scene.on("c")[0])
    assert "low" not in scene.running
    scene.wait(MS)
    scene.finish(scene.on("c")[0])
    assert scene.promoted() == ["low"]
    assert scene.running["low"].promoted
    assert scene.running["low"].waited == SECOND


def test_overdue_work_in_an_ordinary_slot_is_not_promoted_beyond_the_share() -> None:
    scene = overdue(slots=4, waiting=3)
    while any(name.startswith("p0") for name in scene.running):
        scene.finish(next(name for name in scene.running if name.startswith("p0")))
    assert [name for name in scene.running if name.startswith("low")] == [
        "low-0",
        "low-1",
        "low-2",
    ]
    assert scene.promoted() == ["low-0"]


def test_promoted_work_is_not_stopped() -> None:
    scene = overdue(slots=1, resume=Resume.RESTART)
    scene.finish("p0-0")
    assert scene.promoted() == ["low-0"]
    for _ in range(10):
        scene.arrive(lane=0, budget=SECOND)
        scene.wait(100 * MS)
    assert not scene.stopped()


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.ERROR])
def test_a_request_is_promoted_once_even_if_its_replica_fails_it(fault: Fault) -> None:
    scene = overdue("a", "b", slots=1)
    for name in ("p0-0", "p0-1"):
        if scene.promoted():
            break
        scene.finish(name)
    scene.fail("low-0", fault)
    for _ in range(6):
        scene.wait(10 * SECOND)
        scene.finish(*[name for name in scene.running if name.startswith("p0")])
    assert "low-0" in scene.running
    assert scene.promoted() == ["low-0"]
    scene.finish("low-0")
    assert [r.use.promoted for r in scene.state.replicas.values()] == [0, 0]


def test_a_business_at_its_limit_hides_no_other_overdue_work() -> None:
    """The oldest may not run; the next oldest is then the one that is owed a slot."""
    scene = Scene(card("c", 4), policy=SOON)
    scene.limit("full", running=1)
    scene.arrive("running", 2, business="full")
    for number in range(10):
        scene.arrive(f"p0-{number}", 0)
    scene.arrive("older", 2, business="full")
    scene.wait(MS)
    scene.arrive("younger", 2, business="free")
    scene.wait(2 * SECOND)
    scene.finish("p0-0")
    assert scene.promoted() == ["younger"]
    scene.finish("younger")
    scene.finish("running")
    assert scene.promoted() == ["younger", "older"]


def test_nor_does_a_level_that_the_replica_does_not_take() -> None:
    scene = Scene(card("c", 4, levels=(0, 7)), card("deep", 1, levels=(8, 9)), policy=SOON)
    for number in range(10):
        scene.arrive(f"p0-{number}", 0)
    scene.arrive("held", 2, level=9)
    scene.arrive("deep-1", 2, level=9)
    scene.wait(MS)
    scene.arrive("low", 2, level=7)
    scene.wait(2 * SECOND)
    scene.finish("p0-0")
    assert scene.promoted() == ["low"]


def test_a_wake_up_is_asked_for_when_the_next_becomes_overdue() -> None:
    scene = Scene(card("c", 1), policy=SOON)
    scene.arrive("held", 0)
    scene.arrive("low", 2)
    assert scene.state.wake == START + SECOND
    scene.wait(500 * MS)
    scene.arrive("low-2", 2, business="other")
    assert scene.state.wake == START + SECOND
    scene.cancel("low")
    scene.wait(600 * MS)
    assert scene.state.wake == START + 1500 * MS


def test_the_share_is_one_of_the_replicas_that_the_work_can_run_on() -> None:
    """A pool of many slots for a chat has few for a detector: a tenth of these is one."""
    scene = Scene(card("big", 40, "chat"), card("small", 4, "detector"), policy=SOON)
    for number in range(10):
        scene.arrive(f"p0-{number}", 0, model="detector")
    for number in range(10):
        scene.arrive(f"low-{number}", 2, model="detector")
    scene.wait(2 * SECOND)
    scene.finish(*scene.on("small"))
    assert scene.on("small") == ["low-0", "p0-4", "p0-5", "p0-6"]


def test_a_share_of_nothing_turns_the_guard_off() -> None:
    policy = replace(SOON, starvation=replace(SOON.starvation, pool_share=0.0))
    scene = Scene(card("c", 2), policy=policy)
    for _ in range(10):
        scene.arrive(lane=0)
    scene.arrive("low", 2)
    scene.wait(5 * SECOND)
    scene.finish(scene.on("c")[0])
    assert not scene.promoted()
