"""Mode weighted: a lane saves nothing up by slots that it could not have used."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import merge

import pytest

from scheduler.core.policy import Policy
from scheduler.core.ticket import Ticket

from .clockwork import Clockwork
from .scene import MS, SECOND, START, Scene, card

WEIGHTED = replace(Policy(), mode="weighted", feedback=replace(Policy().feedback, enabled=False))
BEGIN = 60
UNTIL = 90


def stream(
    business: str, lane: int, every: int, begin: int, end: int, model: str = "m"
) -> Iterator[Ticket]:
    """One request each ``every`` ns, from one second to another."""
    for at in range(START + begin * SECOND, START + end * SECOND, every):
        yield Ticket(f"{business}-{at}", business, model, lane, (1, 4, 8)[lane], at)


def share(scene: Scene, *before: Iterator[Ticket]) -> float:
    """P1's part of the slot time in the first seconds in which it offers, from a minute on, more
    than there is room for, beside P2 that does so all the time."""
    clock = Clockwork(scene, lambda _ticket, _replica: SECOND)
    bulk = stream("bulk", 2, 100 * MS, 0, UNTIL)
    newcomer = stream("newcomer", 1, 100 * MS, BEGIN, UNTIL)
    clock.run(merge(bulk, newcomer, *before, key=lambda t: t.arrived), START + UNTIL * SECOND)
    begin = START + (BEGIN + 2) * SECOND
    return clock.shares(begin, begin + 15 * SECOND)[1]


def usual() -> float:
    """What P1 gets that comes from nothing."""
    return share(Scene(card("c", 8), policy=WEIGHTED))


def test_a_lane_whose_requests_its_business_s_limit_holds_back() -> None:
    scene = Scene(card("c", 8), policy=WEIGHTED)
    scene.limit("capped", running=1)
    found = share(scene, stream("capped", 1, 500 * MS, 0, BEGIN))
    assert found == pytest.approx(usual(), abs=0.08)


def test_a_lane_whose_requests_wait_for_another_replica() -> None:
    scene = Scene(card("c", 8), card("o", 1, "other"), policy=WEIGHTED)
    found = share(scene, stream("waits", 1, 500 * MS, 0, BEGIN, "other"))
    assert found == pytest.approx(usual(), abs=0.08)


def test_a_lane_that_needed_little_while_there_was_room_for_all() -> None:
    """Two of eight slots, of which P2 has all others, and nobody waits."""
    scene = Scene(card("c", 8), policy=WEIGHTED)
    clock = Clockwork(scene, lambda _ticket, _replica: SECOND)
    little = stream("little", 1, SECOND, 0, BEGIN)
    most = stream("most", 2, 170 * MS, 0, BEGIN)
    clock.run(merge(little, most, key=lambda t: t.arrived), START + BEGIN * SECOND)
    flood = [
        stream(name, lane, 100 * MS, BEGIN, UNTIL) for name, lane in (("most", 2), ("more", 1))
    ]
    clock.run(merge(*flood, key=lambda t: t.arrived), START + UNTIL * SECOND)
    begin = START + (BEGIN + 2) * SECOND
    assert clock.shares(begin, begin + 15 * SECOND)[1] == pytest.approx(usual(), abs=0.08)


def test_a_lane_that_another_mode_kept_waiting() -> None:
    scene = Scene(card("c", 8), policy=replace(WEIGHTED, mode="strict"))
    clock = Clockwork(scene, lambda _ticket, _replica: SECOND)
    both = [stream("bulk", 2, 100 * MS, 0, BEGIN), stream("shop", 1, 100 * MS, 0, BEGIN)]
    clock.run(merge(*both, key=lambda t: t.arrived), START + BEGIN * SECOND)
    scene.rules(WEIGHTED)
    flood = [
        stream(name, lane, 100 * MS, BEGIN, UNTIL) for name, lane in (("bulk", 2), ("shop", 1))
    ]
    clock.run(merge(*flood, key=lambda t: t.arrived), START + UNTIL * SECOND)
    begin = START + (BEGIN + 2) * SECOND
    assert clock.shares(begin, begin + 15 * SECOND)[1] >= usual() - 0.08


def test_but_what_it_could_have_used_it_has_back() -> None:
    """P0 below its reserve goes first, whosever turn it is; the others' turns come after it."""
    # Without backpressure, which turns P2 away while P0 waits.
    backpressure = replace(WEIGHTED.backpressure, action=())
    scene = Scene(card("c", 8), policy=replace(WEIGHTED, backpressure=backpressure))
    clock = Clockwork(scene, lambda _ticket, _replica: SECOND)
    streams = [stream(f"b{lane}", lane, 100 * MS, 0, UNTIL) for lane in range(3)]
    clock.run(merge(*streams, key=lambda t: t.arrived), START + UNTIL * SECOND)
    shares = clock.shares(START + 10 * SECOND, START + UNTIL * SECOND)
    for found, least in zip(shares, (0.4, 0.1, 0.05), strict=True):
        assert found >= least - 0.01
