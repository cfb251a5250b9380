"""The production clock, and what is dated by it."""

import time
import uuid
from random import Random

import pytest

from metering.core.usage import UsageRow
from scheduler.clock import SystemClock, ahead
from scheduler.core.decisions import Kind, Notice
from scheduler.dates import DatedDecisions, DatedUsage
from scheduler.decision_log import Recorder
from scheduler.gateway.ids import RequestIds
from scheduler.testing import ManualClock, MemoryDecisions, MemoryUsage

HOUR, DAY = 3600, 86_400
NS = 1_000_000_000


def test_time_passes_and_never_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins at the wall clock and goes on by the monotonic one alone."""
    reading = {"wall": 1_800_000_000 * NS, "passed": 77 * NS}
    monkeypatch.setattr(time, "time_ns", lambda: reading["wall"])
    monkeypatch.setattr(time, "monotonic_ns", lambda: reading["passed"])
    clock = SystemClock()
    assert clock.now() == clock.wall() == reading["wall"]
    start = reading["wall"]
    for jump in (HOUR, -2 * HOUR, 30 * DAY, -400 * DAY):
        reading["wall"] += jump * NS
        reading["passed"] += NS
        assert clock.wall() == reading["wall"]
        assert clock.now() == start + reading["passed"] - 77 * NS
        assert clock.now() + ahead(clock) == clock.wall()


def moment(request: str) -> int:
    """The date (ms) that an id begins with."""
    return uuid.UUID(request).int >> 80


def test_ids_begin_with_the_date_and_never_go_back() -> None:
    clock, draw = ManualClock(), Random(5)
    ids = RequestIds(clock)
    made = []
    latest = 0
    for _ in range(3000):
        made.append(ids.new())
        latest = max(latest, clock.wall() // 1_000_000)
        # By as much as was counted on while the clock stood in the past.
        assert latest <= moment(made[-1]) <= latest + 1
        clock.advance(draw.random() / 100)
        if draw.random() < 0.1:
            clock.ahead = draw.choice((0, HOUR, -HOUR, DAY)) * NS
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    found = uuid.UUID(made[0])
    assert (found.version, found.variant, str(found)) == (7, uuid.RFC_4122, made[0])


def test_a_clock_that_was_wrong_by_days_is_followed_back() -> None:
    clock = ManualClock()
    ids = RequestIds(clock)
    clock.jump(365 * DAY)
    ids.new()
    clock.jump(-365 * DAY)
    assert moment(ids.new()) == clock.wall() // 1_000_000


def test_a_row_is_dated_as_a_whole() -> None:
    clock, sink = ManualClock(), MemoryUsage()
    usage = DatedUsage(sink, clock)
    received = clock.now()
    clock.advance(2)
    clock.jump(-HOUR)
    row = UsageRow("r", "b", "k", "chat", received, dispatched=received + NS, finished=clock.now())
    usage.append(row)
    assert sink.rows[0].finished == clock.wall() == usage.latest
    assert (row.received, row.dispatched) == (clock.wall() - 2 * NS, clock.wall() - NS)
    # It never came to that.
    assert row.first_byte == 0
    clock.jump(-HOUR)
    usage.append(UsageRow("s", "b", "k", "chat", clock.now(), finished=clock.now()))
    assert usage.latest == row.finished > clock.wall()


def test_a_notice_s_time_is_dated_and_its_count_is_not() -> None:
    clock, sink = ManualClock(), MemoryDecisions()
    recorder = Recorder(DatedDecisions(sink, clock), lambda replica, outcome: None)
    clock.jump(HOUR)
    until = clock.now() + 30 * NS
    recorder.noticed(Notice(Kind.BROKEN, "card", "why", until), clock.now())
    recorder.noticed(Notice(Kind.SCALED, "pool", "why", 7), clock.now())
    broken, scaled = sink.rows
    assert broken.at == scaled.at == clock.wall()
    assert broken.detail is not None
    assert broken.detail["value"] == clock.wall() + 30 * NS
    assert scaled.detail is not None
    assert scaled.detail["value"] == 7
