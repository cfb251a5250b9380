"""The decision log: what is kept of which, how it gets to Postgres, and how it is read."""

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.db import connection

from metering.core.facts import BusinessFacts
from metering.postgres import conninfo
from scheduler.actor import Scheduler
from scheduler.calls import Call
from scheduler.core.classify import classify
from scheduler.core.decisions import Dispatch, Preempt, Promote, Reason, Reject
from scheduler.core.fleet import ModelFacts
from scheduler.core.policy import Policy
from scheduler.core.ticket import Ticket
from scheduler.decision_log import DecisionRow, DecisionWriter, Recorder, Why
from scheduler.decision_log import writer as writer_module
from scheduler.decision_log.partitions import KEPT_DAYS, prepare, prune
from scheduler.gpu_time import GpuTime
from scheduler.metrics import Metrics
from scheduler.models import DecisionLog
from scheduler.selectors.decisions import story
from scheduler.stats import Stats
from scheduler.testing import ManualClock, MemoryBooks, MemoryDecisions

MS = 1_000_000


class Bench:
    """A recorder over a list, and calls to tell it about."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sink = MemoryDecisions()
        self.over: list[tuple[str, str]] = []
        self.recorder = Recorder(self.sink, lambda *told: self.over.append(told))
        self._scheduler = Scheduler(
            self.clock, Stats(Metrics()), self.sink, GpuTime(self.clock, MemoryBooks())
        )

    def call(self, name: str, lane: int = 2) -> Call:
        found = classify(
            BusinessFacts("eval", grade="basic", ceiling=0), ModelFacts("chat"), Policy(), ceiling=0
        )
        level = (0, 3, 7)[lane]
        ticket = Ticket(name, "eval", "chat", lane, level, self.clock.time, budget=1000 * MS)
        return Call(ticket, self._scheduler, Why(found, "P2"))

    def dispatch(
        self, call: Call, *, waited: int = 0, scores: tuple[tuple[str, float], ...] = ()
    ) -> None:
        call.attempt += 1
        decision = Dispatch(call.ticket.id, call.attempt, "card-1", 1, waited, False, scores)
        self.recorder.dispatched(call, decision, self.clock.now())

    @property
    def last(self) -> DecisionRow:
        return self.sink.rows[-1]


@pytest.fixture
async def bench() -> Bench:
    return Bench()


def preemption(victim: Call, gaining: Call) -> Preempt:
    return Preempt(
        victim.ticket.id,
        victim.attempt,
        "card-1",
        1,
        gaining.ticket.id,
        gain=900 * MS,
        cost=200 * MS,
        remain=4000 * MS,
    )


async def test_most_dispatches_are_compact(bench: Bench) -> None:
    bench.dispatch(bench.call("a"), waited=5 * MS)
    row = bench.last
    assert (row.kind, row.request, row.business, row.model) == ("dispatch", "a", "eval", "chat")
    assert (row.lane, row.level, row.attempt, row.replica) == (2, 7, 1, "card-1")
    assert (row.at, row.waited, row.detail) == (bench.clock.time, 5 * MS, None)


async def test_sampled_and_late_ones_are_full(bench: Bench) -> None:
    bench.dispatch(bench.call("a"), scores=(("card-1", 0.91234), ("card-2", 0.5)))
    why = {
        "features": {
            "realtime": "medium",
            "model_weight": "medium",
            "grade": "basic",
            "offline": False,
            "billing_sla": False,
        },
        "claim": "P2",
        "base_level": 4,
        "because": "formula",
    }
    assert bench.last.detail == {**why, "scores": [["card-1", 0.9123], ["card-2", 0.5]]}
    bench.dispatch(bench.call("b"), waited=1001 * MS)
    assert bench.last.detail == why


async def test_refusals_and_promotions_are_full(bench: Bench) -> None:
    call = bench.call("a")
    bench.clock.advance(2)
    reject = Reject("a", Reason.QUEUE_FULL, 1500 * MS)
    bench.recorder.refused(call, reject, 2000, bench.clock.now())
    row = bench.last
    assert (row.kind, row.reason, row.waited, row.replica) == (
        "refuse",
        "queue_full",
        2000 * MS,
        "",
    )
    assert row.detail is not None
    assert (row.detail["retry_after_ms"], row.detail["queued"]) == (1500, 2000)
    assert row.detail["claim"] == "P2"
    bench.recorder.promoted(call, Promote("a", 90_000 * MS), bench.clock.now())
    assert (bench.last.kind, bench.last.waited) == ("promote", 90_000 * MS)
    assert bench.last.detail is not None
    assert "features" in bench.last.detail


async def test_a_preemption_is_judged_by_what_came_of_it(bench: Bench) -> None:
    victim, gaining = bench.call("victim"), bench.call("gaining", lane=0)
    bench.dispatch(victim)
    bench.recorder.preempted(victim, preemption(victim, gaining), bench.clock.now())
    row = bench.last
    assert (row.kind, row.request, row.other, row.replica) == (
        "preempt",
        "victim",
        "gaining",
        "card-1",
    )
    assert row.detail is not None
    assert (row.detail["gain_ms"], row.detail["cost_ms"], row.detail["est_remain_ms"]) == (
        900,
        200,
        4000,
    )
    bench.clock.advance(0.05)
    bench.recorder.yielded(victim, 17, bench.clock.now())
    bench.dispatch(gaining)
    bench.clock.advance(3)
    bench.dispatch(victim)
    row = bench.last
    assert (row.kind, row.reason, row.request, row.other) == (
        "outcome",
        "resumed",
        "victim",
        "gaining",
    )
    assert row.detail == {
        "gain_ms": 900,
        "cost_ms": 200,
        "est_remain_ms": 4000,
        "freed_after_ms": 50,
        "served_after_ms": 50,
        "victim_delay_ms": 3050,
        "produced_tokens_kept": 17,
    }
    bench.recorder.closed(victim, bench.clock.now())
    bench.recorder.closed(gaining, bench.clock.now())
    assert bench.over == [("card-1", "resumed")]
    assert bench.sink.of("victim") == ["dispatch", "preempt", "dispatch", "outcome"]
    assert not bench.recorder._pauses
    assert not bench.recorder._gaining


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_victim_that_ends_leaves_nothing_behind(bench: Bench, stopped: bool) -> None:
    victim, gaining = bench.call("victim"), bench.call("gaining", lane=0)
    bench.dispatch(victim)
    bench.recorder.preempted(victim, preemption(victim, gaining), bench.clock.now())
    if stopped:
        bench.recorder.yielded(victim, 0, bench.clock.now())
    bench.clock.advance(1)
    bench.recorder.closed(victim, bench.clock.now())
    assert (bench.last.kind, bench.last.reason) == (
        "outcome",
        "ended" if stopped else "not_stopped",
    )
    assert bench.last.detail is not None
    assert bench.last.detail["served_after_ms"] is None
    assert bench.last.detail["victim_delay_ms"] == (1000 if stopped else None)
    assert not bench.recorder._pauses
    assert not bench.recorder._gaining


# To Postgres and back.


def row(request: str, at: int | None = None, **fields: object) -> DecisionRow:
    plain: dict[str, object] = {"business": "eval", "model": "chat", "lane": 2, "level": 7}
    at = time.time_ns() if at is None else at
    kind = str(fields.pop("kind", "dispatch"))
    return DecisionRow(at, kind, request, **{**plain, **fields})  # type: ignore[arg-type]


def until(condition: Callable[[], object], within: float = 10.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s"
        time.sleep(0.01)


@pytest.fixture
def writer(transactional_db: None) -> Iterator[DecisionWriter]:
    """A writer that has not begun, on an empty table."""
    found = DecisionWriter(most_held=1000)
    yield found
    asyncio.run(found.close())
    found._disconnect()


def test_rows_land_in_order_with_every_field(writer: DecisionWriter) -> None:
    writer.start()
    detail = {"features": {"grade": "vip"}, "scores": [["card-1", 0.5]], "text": "a\tb\\c\nü"}
    at = time.time_ns() // 1000 * 1000
    writer.append(
        row("a", at, kind="preempt", other="b", attempt=2, replica="card-1", detail=detail)
    )
    writer.append(row("a", at + 1000, waited=1_500_000, reason="x"))
    writer.append(row("c", kind="refuse", lane=None, level=None))
    until(lambda: DecisionLog.objects.count() == 3)
    first, second = story("a")
    assert (first.kind, first.about, first.other, first.business, first.model) == (
        "preempt",
        "a",
        "b",
        "eval",
        "chat",
    )
    assert (first.lane, first.level, first.attempt, first.replica) == ("P2", 7, 2, "card-1")
    assert first.detail == detail
    assert first.at == datetime.fromtimestamp(at // 10**9, UTC) + timedelta(
        microseconds=at % 10**9 // 1000
    )
    assert (second.kind, second.waited_ms, second.reason, second.detail) == (
        "dispatch",
        1.5,
        "x",
        {},
    )
    assert [(step.kind, step.about) for step in story("b")] == [("preempt", "a")]
    assert story("c")[0].lane == ""
    assert story("") == []
    assert story("nobody") == []


def test_closing_writes_what_is_there(writer: DecisionWriter) -> None:
    writer.start()
    for index in range(900):
        writer.append(row(f"r{index}"))
    asyncio.run(writer.close())
    assert DecisionLog.objects.count() == 900
    assert writer.dropped == 0


def test_without_postgres_rows_are_dropped_and_counted_and_nothing_waits(
    writer: DecisionWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = [True]

    def connect(application: str) -> str:
        return "host=127.0.0.1 port=1 connect_timeout=1" if away[0] else conninfo(application)

    monkeypatch.setattr(writer_module, "conninfo", connect)
    monkeypatch.setattr(writer_module, "RETRY_S", 0.05)
    writer.start()
    for index in range(1500):
        writer.append(row(f"r{index}"))
    assert writer.dropped == 500
    away[0] = False
    until(lambda: DecisionLog.objects.count() == 1000)
    writer.append(row("later"))
    until(lambda: story("later"))
    assert writer.dropped == 500


def test_a_batch_that_no_table_takes_is_in_nobody_s_way(writer: DecisionWriter) -> None:
    writer.append(row("bad", business="x" * 200))
    writer.start()
    until(lambda: writer.dropped == 1)
    writer.append(row("good"))
    until(lambda: story("good"))


def partitions() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits"
            " WHERE inhparent = 'scheduler_decisionlog'::regclass ORDER BY 1"
        )
        return [name for (name,) in cursor.fetchall()]


def test_days_are_partitions_and_go_as_a_whole(writer: DecisionWriter) -> None:
    today = datetime.now(UTC).date()
    days = [today - timedelta(days=age) for age in range(10)]
    with psycopg.connect(conninfo("test"), autocommit=True) as held:
        prune(held, today + timedelta(days=30))
        prepare(held, days)
        prepare(held, days[:2])
    assert len(partitions()) == 10
    at = time.time_ns()
    for age in range(10):
        writer.append(row(f"r{age}", at - age * 86_400 * 10**9))
    writer.start()
    until(lambda: len(partitions()) <= KEPT_DAYS + 1)
    until(lambda: DecisionLog.objects.filter(request="r0").exists())
    with psycopg.connect(conninfo("test"), autocommit=True) as held:
        prune(held, today)
        assert prune(held, today) == []
        kept = {name.rpartition("_")[2] for name in partitions()}
        assert kept == {f"{day:%Y%m%d}" for day in days[: KEPT_DAYS + 1]}
        assert not DecisionLog.objects.filter(request="r9").exists()
        assert len(prune(held, today + timedelta(days=30))) == KEPT_DAYS + 1


@pytest.mark.django_db(transaction=True)
def test_two_processes_may_make_the_same_day() -> None:
    writers = [DecisionWriter() for _ in range(3)]
    for index, each in enumerate(writers):
        each.append(row(f"w{index}", time.time_ns() + 86_400 * 10**9))
        each.start()
    until(lambda: DecisionLog.objects.filter(request__startswith="w").count() == 3)
    for each in writers:
        asyncio.run(each.close())
