"""The clockwork: one timer, steps on time, and a broken call is nobody else's trouble."""

import logging
from collections.abc import Callable
from itertools import count

import pytest

from scheduler.emulator.driver import MAX_LAG_S, Driver
from scheduler.emulator.engine import Engine, Output, Sequence

from .stepping import PLAIN


class Loop:
    """An event loop whose time the test moves. Each timer fires ``late`` seconds late."""

    def __init__(self) -> None:
        self.now = 0.0
        self.late = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None], /) -> "Loop":
        self.timers.append((when, callback))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def fire(self) -> None:
        (when, callback) = self.timers.pop()
        assert not self.timers, "one timer, whatever the number of sequences"
        self.now = max(self.now, when + self.late)
        callback()


class Clockwork:
    """A driver on such a loop."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.driver = Driver(Engine(PLAIN), self.loop)
        self.log: list[tuple[float, Output]] = []

    def submit(self, tokens: int, sink: Callable[[Output], None] | None = None) -> Sequence:
        sequence = Sequence("s", list(range(1000, 1010)), count(5000), tokens)
        self.driver.submit(
            sequence, sink or (lambda output: self.log.append((self.loop.now, output)))
        )
        return sequence

    def run(self, steps: int = 1000) -> None:
        for _ in range(steps):
            if not self.loop.timers:
                return
            self.loop.fire()

    @property
    def times(self) -> list[int]:
        return [round(at * 1000) for at, _ in self.log]


def test_all_running_get_their_token_in_one_turn() -> None:
    work = Clockwork()
    for _ in range(3):
        work.submit(2)
    work.run()
    # The first began alone; the two others joined at the end of its step and prefilled in two.
    assert work.times == [10, 20, 30, 30, 40, 40]
    assert work.driver.max_running == 3


def test_it_starts_again_after_a_rest() -> None:
    work = Clockwork()
    work.submit(1)
    work.run()
    assert not work.loop.timers
    work.loop.now = 5.0
    work.submit(1)
    work.run()
    assert work.times == [10, 5010]


def test_steps_that_fire_late_do_not_slow_the_card_down() -> None:
    work = Clockwork()
    work.loop.late = 0.008
    work.submit(100)
    work.run()
    assert work.times[-1] == 1008


def test_a_long_halt_is_not_made_up_for() -> None:
    work = Clockwork()
    work.submit(10)
    work.run(steps=4)
    work.loop.now = 100.0
    work.run()
    # The step under way ends, the others take their time after it.
    assert work.times[4:] == [100_000, 100_010, 100_020, 100_030, 100_040, 100_050]


def test_a_short_halt_is_made_up_for() -> None:
    work = Clockwork()
    work.submit(100)
    work.run(steps=4)
    work.loop.now += MAX_LAG_S / 2
    work.run()
    assert work.times[-1] == 1000


def test_a_sink_that_raises_loses_its_own_call_only(caplog: pytest.LogCaptureFixture) -> None:
    work = Clockwork()

    def broken(_: Output) -> None:
        raise RuntimeError("broken")

    with caplog.at_level(logging.ERROR):
        work.submit(50, broken)
        work.submit(5)
        work.run()
    assert [record.exc_info is not None for record in caplog.records] == [True]
    assert len(work.log) == 5
    assert work.driver.engine.counters.finished == {"stop": 0, "length": 1, "abort": 1}
    assert work.driver.engine.pool.used == 0


def test_after_an_abort_or_the_stop_nothing_comes() -> None:
    work = Clockwork()
    one, _ = work.submit(50), work.submit(50)
    work.run(steps=3)
    work.driver.abort(one)
    given = len(work.log)
    work.run(steps=3)
    assert len(work.log) == given + 3
    work.driver.stop()
    assert not work.loop.timers
