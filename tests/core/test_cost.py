"""A step costs the same however long the queue is (invariant 8).

Counted in interpreted instructions, not in seconds: the same on any machine.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume

from .scene import MS, Scene, card

FEW, MANY = 100, 4_000
FLAT = 1.5


def instructions(work: Callable[[], object]) -> int:
    """How many bytecode instructions a piece of work takes, calls of C functions being one."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def busy(waiting: int, businesses: int = 10, *, lanes: tuple[int, ...] = (0, 1, 2)) -> Scene:
    """A full fleet with P2 that may be stopped, and a queue of all lanes before it."""
    deep = Policy().queues
    queues = replace(
        deep,
        P0=replace(deep.P0, max_queue=10**6, queue_timeout_ms=10**9),
        P1=replace(deep.P1, max_queue=10**6),
        P2=replace(deep.P2, max_queue=10**6),
    )
    scene = Scene(
        *(card(f"c{number}", 4, "a", "b") for number in range(4)),
        policy=replace(Policy(), queues=queues),
    )
    for number in range(16):
        scene.arrive(f"held-{number}", 2, model="ab"[number % 2], resume=Resume.NEVER)
    for number in range(waiting):
        scene.arrive(
            f"w{number}",
            lanes[number % len(lanes)],
            business=f"b{number % businesses}",
            model="ab"[number // 3 % 2],
            resume=Resume.RESTART,
        )
    scene.wait(MS)
    return scene


def traffic(scene: Scene) -> None:
    """Arrivals and ends in turn, with a cancellation and a tick now and then."""
    for number in range(12):
        scene.arrive(f"new-{number}", number % 3, business=f"b{number % 10}", model="a")
        scene.finish(next(iter(scene.running)))
        if number % 4 == 0:
            scene.cancel(f"w{number + 50}")
            scene.tick()
        scene.wait(MS)


@pytest.mark.parametrize("lanes", [(0, 1, 2), (0,), (2,)])
def test_a_long_queue_makes_no_step_dearer(lanes: tuple[int, ...]) -> None:
    few, many = (busy(waiting, lanes=lanes) for waiting in (FEW, MANY))
    assert instructions(lambda: traffic(many)) <= FLAT * instructions(lambda: traffic(few))


def test_many_businesses_make_it_little_dearer() -> None:
    few, many = busy(MANY, 10), busy(MANY, 1000)
    assert instructions(lambda: traffic(many)) <= 2 * instructions(lambda: traffic(few))


def test_urgent_work_that_waits_for_long_jobs_is_looked_at_at_the_same_cost() -> None:
    """Preemption weighs the first few, be there ten or thousands."""

    def look(waiting: int) -> int:
        scene = busy(waiting, lanes=(0,))
        for name in list(scene.running):
            scene.finish(name)
        for number in range(16):
            scene.arrive(f"low-{number}", 2, prompt=100, output=512, resume=Resume.CONTINUE)
        return instructions(lambda: traffic(scene))

    assert look(MANY) <= FLAT * look(FEW)


def test_overdue_work_without_end_makes_no_step_dearer() -> None:
    def late(waiting: int) -> int:
        scene = busy(waiting, lanes=(2, 2, 0))
        scene.now += 200_000 * MS
        return instructions(lambda: traffic(scene))

    assert late(MANY) <= FLAT * late(FEW)


def test_a_business_at_its_limit_with_thousands_waiting_costs_no_more() -> None:
    def limited(waiting: int) -> int:
        scene = busy(waiting, lanes=(2,))
        scene.limit("b1", running=1)
        scene.limit("b2", running=0)
        return instructions(lambda: traffic(scene))

    assert limited(MANY) <= FLAT * limited(FEW)
