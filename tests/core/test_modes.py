"""Modes ``weighted`` and ``fifo``."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import merge

import pytest

from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume, Ticket

from .clockwork import Clockwork
from .scene import MS, SECOND, START, Scene, card

WEIGHTED = replace(Policy(), mode="weighted")
FIFO = replace(Policy(), mode="fifo")
LEAST = (0.4, 0.1, 0.05)


def stream(lane: int, gap: int, seconds: int, begin: int = START) -> Iterator[Ticket]:
    """One lane's requests of ten businesses, one each ``gap`` ns."""
    level = (1, 4, 8)[lane]
    for number, at in enumerate(range(begin, begin + seconds * SECOND, gap)):
        yield Ticket(f"p{lane}-{at}", f"b{number % 10}", "m", lane, level, at)


def backlogged(policy: Policy, service: tuple[int, int, int], seconds: int = 20) -> Clockwork:
    """All lanes offer more than they could have alone."""
    clock = Clockwork(Scene(card("c", 10), policy=policy), lambda ticket, _: service[ticket.lane])
    streams = [stream(lane, held // 12, seconds) for lane, held in enumerate(service)]
    clock.run(merge(*streams, key=lambda ticket: ticket.arrived), START + seconds * SECOND)
    return clock


# Weighted.


@pytest.mark.parametrize(
    "service",
    [(100 * MS, 100 * MS, 100 * MS), (50 * MS, 100 * MS, 400 * MS), (400 * MS, 100 * MS, 50 * MS)],
)
def test_minimum_shares_hold_in_every_window(service: tuple[int, int, int]) -> None:
    """Invariant 9, in windows of two seconds once estimates have settled."""
    clock = backlogged(WEIGHTED, service)
    for begin in range(4, 20, 2):
        shares = clock.shares(START + begin * SECOND, START + (begin + 2) * SECOND)
        for lane, least in enumerate(LEAST):
            assert shares[lane] >= least - 0.02, (begin, shares)


def test_the_rest_follows_the_weights() -> None:
    clock = backlogged(WEIGHTED, (100 * MS, 100 * MS, 100 * MS))
    shares = clock.shares(START + 6 * SECOND, START + 20 * SECOND)
    assert shares[0] == pytest.approx(0.4 + 0.45 * 8 / 12, abs=0.08)
    assert shares[0] > shares[1] > shares[2]


def test_strict_mode_gives_the_lowest_lane_nothing_but_promoted_slots() -> None:
    clock = backlogged(Policy(), (100 * MS, 100 * MS, 100 * MS), seconds=5)
    assert clock.shares(START + SECOND, START + 5 * SECOND) == [1.0, 0.0, 0.0]


def test_a_lane_alone_gets_everything() -> None:
    scene = Scene(card("c", 4), policy=WEIGHTED)
    for _ in range(8):
        scene.arrive(lane=2)
    assert len(scene.on("c")) == 4


def test_a_lane_back_from_idle_has_saved_no_share_up() -> None:
    scene = Scene(card("c", 10), policy=WEIGHTED)
    clock = Clockwork(scene, lambda ticket, _: 100 * MS)
    others = merge(stream(0, 8 * MS, 20), stream(2, 8 * MS, 20), key=lambda t: t.arrived)
    late = stream(1, 8 * MS, 10, START + 10 * SECOND)
    clock.run(merge(others, late, key=lambda t: t.arrived), START + 20 * SECOND)
    shares = clock.shares(START + 10 * SECOND, START + 12 * SECOND)
    assert shares[1] < 0.5
    assert shares[0] >= 0.38
    assert shares[2] >= 0.03


def test_p2_above_its_bound_goes_behind_all_others() -> None:
    scene = Scene(card("c", 10), policy=WEIGHTED)
    for _ in range(10):
        scene.arrive(lane=2)
    for number in range(20):
        scene.arrive(f"next-{number}", lane=2)
        scene.arrive(f"p1-{number}", lane=1)
    for number in range(7):
        scene.finish(scene.on("c")[0])
        assert scene.started[-1] == f"p1-{number}"


def test_p0_below_its_reserve_goes_before_all_others() -> None:
    scene = Scene(card("c", 10), policy=WEIGHTED)
    for _ in range(20):
        scene.arrive(lane=1)
    for number in range(10):
        scene.arrive(f"p0-{number}", lane=0)
    for number in range(4):
        scene.finish(scene.on("c")[0])
        assert scene.started[-1] == f"p0-{number}"


def test_preemption_leaves_a_lane_its_minimum() -> None:
    """P2's least share of 20 slots is one: nineteen may be stopped for P0, not the last."""
    scene = Scene(card("c", 20), policy=WEIGHTED)
    for number in range(20):
        scene.arrive(f"low-{number}", 2, prompt=100, output=512, resume=Resume.RESTART)
    for _ in range(40):
        scene.arrive(lane=0)
        scene.wait(20 * MS)
    for _ in range(40):
        for name in list(scene.running):
            if name in scene.stopped():
                scene.stop(name)
        scene.wait(20 * MS)
    low = [name for name in scene.running if name.startswith("low")]
    assert len(low) == 1


# First in, first out.


def test_fifo_is_by_arrival_across_lanes_levels_and_businesses() -> None:
    scene = Scene(card("c", 1, "a", "b"), policy=FIFO)
    scene.arrive("held", model="a")
    names = []
    for number in range(30):
        lane = (2, 0, 1)[number % 3]
        level = {0: (0, 2), 1: (3, 6), 2: (7, 9)}[lane][number % 2]
        name = f"n{number}"
        names.append(name)
        scene.arrive(
            name,
            lane,
            level=level,
            business="xyz"[number % 2],
            model="ab"[number % 2],
            prompt=1000 - 30 * number,
            output=500,
            budget=(1 + number % 4) * SECOND,
        )
        scene.wait(MS)
    assert scene.drain(10 * MS) == names


def test_fifo_stops_nobody_and_promotes_nobody() -> None:
    queues = FIFO.queues
    policy = replace(FIFO, queues=replace(queues, P2=replace(queues.P2, max_wait_ms=100)))
    scene = Scene(card("c", 1), policy=policy)
    scene.arrive("low", 2, prompt=100, output=512, resume=Resume.RESTART)
    scene.arrive("urgent", 0)
    scene.arrive("low-2", 2)
    scene.wait(SECOND)
    assert not scene.stopped()
    assert scene.drain() == ["urgent", "low-2"]
    assert not scene.promoted()


def test_fifo_forgets_the_shares_of_the_mode_before() -> None:
    scene = Scene(card("c", 1, "a", "b"))
    for number in range(6):
        scene.arrive(business="used", model="ab"[number % 2])
        scene.wait(SECOND)
        scene.finish(*scene.running)
    scene.rules(FIFO)
    scene.arrive("held", business="new", model="a")
    names = []
    for number in range(8):
        names.append(f"n{number}")
        scene.arrive(names[-1], business=("used", "new")[number % 2], model="abba"[number % 4])
        scene.wait(MS)
    assert scene.drain(10 * MS) == names


def test_switching_modes_reorders_what_waits() -> None:
    scene = Scene(card("c", 1))
    scene.arrive("held")
    scene.arrive("p2", 2)
    scene.wait(SECOND)
    scene.arrive("p0", 0)
    scene.wait(SECOND)
    scene.arrive("p1", 1, level=6)
    scene.wait(SECOND)
    scene.arrive("p1-high", 1, level=3)

    def order(*policies: Policy) -> list[str]:
        again = Scene(card("c", 1))
        for name, lane, level in (
            ("held", 1, 4),
            ("p2", 2, 8),
            ("p0", 0, 0),
            ("p1", 1, 6),
            ("p1-high", 1, 3),
        ):
            again.arrive(name, lane, level=level)
            again.wait(SECOND)
        for policy in policies:
            again.rules(policy)
        return again.drain(10 * MS)

    assert order() == ["p0", "p1-high", "p1", "p2"]
    assert order(FIFO) == ["p2", "p0", "p1", "p1-high"]
    assert order(FIFO, Policy()) == ["p0", "p1-high", "p1", "p2"]
