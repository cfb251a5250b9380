"""At its start the scheduler is told what requests were like before; nobody waits for that."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

import scheduler.actor
import scheduler.priming
from scheduler.core import events
from scheduler.core.decisions import Decision
from scheduler.core.events import Recalled, Sample
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.testing import Memory

from .harness import gate

BEFORE = tuple(Sample("owner", "chat", "r1", 100, 50, 0, 0, n * 1_000_000_000) for n in (1, 2, 3))


@dataclass
class Told:
    """What the core was told of earlier requests, beside which other events; it may be made to
    raise."""

    recalled: list[Recalled] = field(default_factory=list)
    before: int = 0
    raising: bool = False

    def __call__(self, state: State, event: events.Event, now: int) -> list[Decision]:
        """Step as ever."""
        if self.raising:
            self.raising = False
            raise RuntimeError("the step broke")
        if isinstance(event, Recalled):
            self.recalled.append(event)
        self.before += isinstance(event, events.Arrived) and not self.recalled
        return step(state, event, now)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found = Told()
    monkeypatch.setattr(scheduler.actor, "step", found)
    monkeypatch.setattr(scheduler.priming, "PAUSES_S", (0.01,) * 4)
    return found


async def test_it_is_told_once_and_the_oldest_first(memory: Memory, told: Told) -> None:
    memory.recalled = list(BEFORE)
    async with gate(memory) as running:
        await running.until(lambda: told.recalled)
        assert (await running.chat()).status_code == 200
    assert told.recalled == [Recalled(BEFORE)]
    assert told.before == 0


async def test_of_nothing_nothing_is_told(memory: Memory, told: Told) -> None:
    async with gate(memory) as running:
        assert (await running.chat()).status_code == 200
        await running.until(
            lambda: all(
                task.done() for task in running.runtime._tasks if "estim" in task.get_name()
            )
        )
    assert not told.recalled


@dataclass
class Database:
    """One that is away for so many readings, and then slow until it is let go."""

    away: int = 0
    go: threading.Event = field(default_factory=threading.Event)
    asked: int = 0

    def samples(self) -> Sequence[Sample]:
        """Blocks, or raises OSError."""
        self.asked += 1
        if self.asked <= self.away:
            raise OSError("away")
        self.go.wait(60)
        return BEFORE


async def test_a_slow_database_keeps_nobody_waiting(memory: Memory, told: Told) -> None:
    """The gateway is ready and serves; what is known comes when it comes."""
    slow = Database()
    async with gate(memory, recall=slow) as running:
        try:
            assert (await running.chat()).status_code == 200
            assert slow.asked == 1
            assert not told.recalled
        finally:
            slow.go.set()
        await running.until(lambda: told.recalled)
    assert told.recalled == [Recalled(BEFORE)]
    assert told.before == 1


async def test_a_database_that_is_away_is_asked_again(memory: Memory, told: Told) -> None:
    away = Database(away=3)
    away.go.set()
    async with gate(memory, recall=away) as running:
        await running.until(lambda: told.recalled)
    assert away.asked == 4


async def test_one_that_stays_away_is_given_up(
    memory: Memory, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be too slow for what is asked, and that costs it each time."""
    away = Database(away=1000)
    async with gate(memory, recall=away) as running:
        (asking,) = [t for t in running.runtime._tasks if t.get_name() == "estimates"]
        await running.until(asking.done)
        assert (await running.chat()).status_code == 200
    assert away.asked == 5
    assert caplog.text.count("tried again: away") == 4
    assert caplog.text.count("given up: away") == 1
    assert not told.recalled


async def test_a_scheduler_that_starts_clean_is_told_again(memory: Memory, told: Told) -> None:
    memory.recalled = BEFORE
    async with gate(memory) as running:
        await running.until(lambda: len(told.recalled) == 1)
        for _ in range(2):
            told.raising = True
            running.runtime.scheduler.post(events.Tick())
        await running.until(lambda: len(told.recalled) == 2)
        assert (await running.chat()).status_code == 200
