"""Turns come evenly, at once for who is new, and never late for those who wait."""

import asyncio
from collections import Counter
from collections.abc import Callable

from scheduler.probing.pacing import AT_ONCE, GRAIN_S, Pacer

EVERY_S = 0.2


class Turns:
    """Whose turns began, and when; they end at once but for those who are slow."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self.slow: set[int] = set()
        self.begun: Counter[int] = Counter()
        self.order: list[int] = []
        self.pacer = Pacer(self._begin, every_s)
        self._news = asyncio.Event()

    def _begin(self, number: int) -> None:
        self.begun[number] += 1
        self.order.append(number)
        if number not in self.slow:
            self.pacer.over(number)
        self._news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._news.clear()
            await self._news.wait()


async def test_each_has_its_turn_again_and_again_and_nobody_many_more_than_another() -> None:
    turns = Turns()
    for number in range(500):
        turns.pacer.add(number)
    await turns.until(lambda: turns.begun[499] > 0)
    assert set(turns.begun.values()) == {1}
    before = len(turns.order)
    await turns.until(lambda: turns.begun.total() >= 500 * 6)
    counts = Counter(turns.order[before:])
    # A machine that gives us no turn takes one from some of them.
    assert max(counts.values()) <= 3 * min(counts[number] for number in range(500))
    turns.pacer.close()


async def test_turns_are_spread_over_the_interval() -> None:
    """Whatever numbers the members have: in a tenth of the interval as many as in another."""
    every_s = 1.0
    pacer = Pacer(lambda number: None, every_s)
    for numbers in (range(1000), range(0, 2000, 2), range(7, 70_000, 70)):
        moments = [pacer._next(number, 5.0) for number in numbers]
        assert all(5.0 < moment <= 6.0 for moment in moments)
        tenths = Counter(int(moment * 10 % 10) for moment in moments)
        assert min(tenths.values()) >= 0.8 * len(numbers) / 10
        assert max(tenths.values()) <= 1.2 * len(numbers) / 10
    pacer.close()


async def test_those_that_hang_keep_nobody_from_a_turn() -> None:
    turns = Turns()
    turns.slow.update(range(AT_ONCE * 4))
    for number in range(AT_ONCE * 4 + 1):
        turns.pacer.add(number)
    await turns.until(lambda: turns.begun[AT_ONCE * 4] >= 3)
    # Each that hangs has one turn, for as long as it takes.
    assert all(turns.begun[number] == 1 for number in turns.slow)
    turns.pacer.close()


async def test_no_more_begin_at_once_than_may() -> None:
    turns = Turns()
    turns.slow.update(range(AT_ONCE * 2))
    for number in turns.slow:
        turns.pacer.add(number)
    await turns.until(lambda: len(turns.order) >= AT_ONCE)
    assert len(turns.order) == AT_ONCE
    for number in turns.order[:10]:
        turns.pacer.over(number)
    await turns.until(lambda: len(turns.order) >= AT_ONCE + 10)
    turns.pacer.close()


async def test_who_is_dropped_has_no_turn_and_who_is_added_again_has_one_at_once() -> None:
    turns = Turns(every_s=3600.0)
    turns.slow.add(2)
    for number in (1, 2, 3):
        turns.pacer.add(number)
    await turns.until(lambda: len(turns.order) == 3)
    turns.pacer.drop(1)
    turns.pacer.add(2)
    turns.pacer.add(3)
    turns.pacer.over(1)
    await turns.until(lambda: len(turns.order) == 5)
    assert turns.begun == {1: 1, 2: 2, 3: 2}
    turns.pacer.close()


async def test_a_short_wait_is_not_kept_from_by_a_long_one() -> None:
    turns = Turns(every_s=3600.0)
    turns.pacer.add(1)
    await turns.until(lambda: turns.begun[1] == 1)
    turns.pacer.add(2)
    async with asyncio.timeout(60):
        await turns.until(lambda: turns.begun[2] == 1)
    assert turns.pacer._timer is not None
    assert turns.pacer._timer.when() > asyncio.get_running_loop().time() + GRAIN_S
    turns.pacer.close()
