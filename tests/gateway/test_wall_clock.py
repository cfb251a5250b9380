"""The running gateway on the production clock, while somebody sets the machine's wall clock."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import httpx
import pytest

from metering.core.facts import Allowance, Rates
from scheduler.clock import SystemClock
from scheduler.core import events
from scheduler.core.policy import Policy
from scheduler.testing import Memory, MemoryAnswers

from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from .stub import Held, Stub

HOUR = 3600
DAY = 24 * HOUR
NS = 1_000_000_000
JUMPS = [(HOUR,), (-HOUR,), (DAY,), (-DAY,), (HOUR, -HOUR), (-HOUR, DAY)]


@dataclass
class Wall:
    """The machine's wall clock, which is ``ahead`` of the true one by so many ns."""

    ahead: int = 0

    def jump(self, seconds: int) -> None:
        """Set it."""
        self.ahead += seconds * NS


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    found, true = Wall(), time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: true() + found.ahead)
    monkeypatch.setattr(time, "time", lambda: (true() + found.ahead) / NS)
    return found


@pytest.fixture
def memory(engine: Stub) -> Memory:
    policy = Policy()
    # P0 that waits turns nobody away here.
    calm = replace(policy, backpressure=replace(policy.backpressure, action=()))
    memory = furnished(replica(engine.url, slots=1), policy=calm)
    memory.key(KEY, "owner", allowance=Allowance(running=2, queued=10))
    return memory


@pytest.fixture
async def running(memory: Memory, wall: Wall) -> AsyncIterator[Gate]:
    async with gate(memory, clock=SystemClock()) as found:
        yield found


async def swept(running: Gate) -> None:
    """Return when the gateway has looked after its requests twice, and the scheduler has
    noticed what time it is."""
    limiter, count = running.runtime.gateway.limiter, 0
    renew = limiter.renew

    def counted(requests: list[str]) -> None:
        nonlocal count
        renew(requests)
        count += 1

    limiter.renew = counted  # type: ignore[assignment, method-assign]
    try:
        await running.until(lambda: count >= 2)
    finally:
        limiter.renew = renew  # type: ignore[method-assign]
    running.runtime.scheduler.post(events.Tick())


async def crowd(running: Gate, held: Held) -> list["asyncio.Task[httpx.Response]"]:
    """One call runs, the others wait: for the slot in each lane, one for a place of its key."""
    exchanges = running.runtime.gateway.exchanges
    calls = [asyncio.create_task(running.chat("run"))]
    await running.until(lambda: held.order == ["run"])
    for prompt, key in (("one", KEY), ("two", KEY), ("low", LOW_KEY), ("top", URGENT_KEY)):
        before = len(exchanges)
        calls.append(asyncio.create_task(running.chat(prompt, key=key)))
        await running.until(lambda now=before: len(exchanges) == now + 1)  # type: ignore[misc]
    await running.until(lambda: running.queued == 3)
    return calls


@pytest.mark.parametrize("jumps", JUMPS)
async def test_nobody_is_refused_and_nothing_is_invented(
    jumps: tuple[int, ...], memory: Memory, engine: Stub, wall: Wall
) -> None:
    began = time.monotonic()
    held = engine.answer = Held()
    async with gate(memory, clock=SystemClock()) as running:
        calls = await crowd(running, held)
        for jump in jumps:
            wall.jump(jump)
            await swept(running)
            assert (running.running, running.queued) == (1, 3)
        calls.append(asyncio.create_task(running.chat("late", key=LOW_KEY)))
        await running.until(lambda: running.queued == 4)
        held.finish("run", "one", "two", "low", "top", "late")
        answers = await asyncio.gather(*calls)
        rows = await running.rows(6)
        await running.runtime._gpu_time.flush()
        passed, now = time.monotonic() - began, time.time_ns()
    assert {answer.status_code for answer in answers} == {200}
    assert all(0 <= float(a.headers["x-queue-wait-ms"]) <= 1000 * passed for a in answers)
    # Who came first runs first, whatever the wall clock said then.
    assert held.order[:2] == ["run", "top"]
    assert held.order[-2:] == ["low", "late"]
    for row in rows:
        assert row.received <= row.dispatched <= row.first_byte <= row.finished
        assert row.finished - row.received <= passed * NS
        # By the wall clock as it stands.
        assert abs(now - row.finished) <= passed * NS
    assert 0 < sum(row.gpu_seconds for row in rows) <= passed
    hours = running.books.hours.values()
    assert 0 < sum(hour.busy for hour in hours) <= sum(hour.wall for hour in hours) <= passed * NS


@pytest.mark.parametrize("jumps", JUMPS)
async def test_a_bucket_neither_stops_nor_overflows(
    jumps: tuple[int, ...], running: Gate, wall: Wall
) -> None:
    """Two at once, and one in a thousand seconds."""
    owner = running.memory.businesses["owner"]
    rates = Rates(requests_per_s=0.001, burst=2, tokens_per_min=1_000_000)
    running.memory.businesses["owner"] = replace(owner, rates=rates)
    await running.runtime.reload("access")
    assert (await running.chat()).status_code == 200
    assert (await running.chat()).status_code == 200
    for jump in jumps:
        wall.jump(jump)
        refused = await running.chat()
        assert refused.json()["error"]["code"] == "rate_limit_requests"
        assert 900 < int(refused.headers["retry-after"]) <= 1000
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"


@pytest.mark.parametrize("jumps", JUMPS)
async def test_what_a_refused_caller_is_told_stays_true(
    jumps: tuple[int, ...], memory: Memory, engine: Stub, wall: Wall
) -> None:
    """A jump while something runs teaches nothing: neither how long a place of a key is held nor
    how long a slot is."""
    policy = Policy()
    queues = replace(policy.queues, P1=replace(policy.queues.P1, max_queue=1))
    memory.rules = replace(memory.rules, queues=queues)
    memory.key(KEY, "owner", allowance=Allowance(running=2, queued=0))
    held = engine.answer = Held()
    async with gate(memory, clock=SystemClock()) as running:
        calls = [asyncio.create_task(running.chat("run"))]
        await running.until(lambda: held.order == ["run"])
        calls.append(asyncio.create_task(running.chat("next")))
        await running.until(lambda: running.queued == 1)
        for jump in jumps:
            wall.jump(jump)
            await swept(running)
        held.finish("run")
        await calls[0]
        await running.until(lambda: held.order == ["run", "next"])
        calls.append(asyncio.create_task(running.chat("third")))
        await running.until(lambda: running.queued == 1)
        # Its key has no place left; another key's call finds the queue full.
        memory.key("fl_live_anotherkeyanotherkeyanother", "owner")
        await running.runtime.reload("access")
        for key, code in (
            (KEY, "concurrency_exceeded"),
            ("fl_live_anotherkeyanotherkeyanother", "queue_full"),
        ):
            refused = await running.chat("more", key=key)
            assert refused.json()["error"]["code"] == code
            assert 1 <= int(refused.headers["retry-after"]) <= 60
        held.finish("next", "third")
        assert {answer.status_code for answer in await asyncio.gather(*calls)} == {200}


@pytest.mark.parametrize("jumps", JUMPS)
async def test_time_limits_fall_due_by_themselves(
    jumps: tuple[int, ...], memory: Memory, engine: Stub, wall: Wall
) -> None:
    policy = Policy()
    queues = replace(policy.queues, P1=replace(policy.queues.P1, queue_timeout_ms=400))
    memory.rules = replace(memory.rules, queues=queues)
    held = engine.answer = Held()
    async with gate(memory, clock=SystemClock()) as running:
        call = asyncio.create_task(running.chat("run"))
        await running.until(lambda: held.order == ["run"])
        began = time.monotonic()
        waits = asyncio.create_task(running.chat("waits"))
        await running.until(lambda: running.queued == 1)
        for jump in jumps:
            wall.jump(jump)
        refused = await asyncio.wait_for(waits, 30)
        assert refused.json()["error"]["code"] == "queue_timeout"
        assert time.monotonic() - began >= 0.4
        held.finish("run")
        assert (await call).status_code == 200


async def test_a_key_and_its_end_go_by_the_wall_clock(running: Gate, wall: Wall) -> None:
    expires = time.time_ns() + HOUR // 2 * NS
    running.memory.key(KEY, "owner", expires=expires)
    await running.runtime.reload("access")
    assert (await running.chat()).status_code == 200
    wall.jump(HOUR)
    assert (await running.chat()).status_code == 401
    wall.jump(-2 * HOUR)
    assert (await running.chat()).status_code == 200


async def test_what_was_answered_stays_answered(memory: Memory, engine: Stub, wall: Wall) -> None:
    """A repeated call is charged once, though a day has gone by on the wall clock."""
    same = {"idempotency-key": "same"}
    async with gate(memory, clock=SystemClock(), answers=MemoryAnswers()) as running:
        first = await running.chat(headers=same)
        await running.until(lambda: not running.runtime.gateway.repeats._tasks)
        running.runtime.gateway.repeats._live.clear()
        wall.jump(DAY + HOUR)
        again = await running.chat(headers=same)
        assert again.headers["x-request-id"] == first.headers["x-request-id"]
        assert again.headers["idempotent-replayed"] == "true"
        await running.row()


async def test_what_is_written_down_has_dates(running: Gate, engine: Stub, wall: Wall) -> None:
    """Decisions and the live frame go by the wall clock as it stands, and so does until when a
    replica is left alone; what somebody waited is no date."""
    began, held = time.monotonic(), Held()
    engine.answer = held
    call = asyncio.create_task(running.chat("run"))
    await running.until(lambda: held.order == ["run"])
    frame = running.runtime._publisher.frame()
    wall.jump(-HOUR)
    later = asyncio.create_task(running.chat("later"))
    await running.until(lambda: running.queued == 1)
    held.finish("run", "later")
    await asyncio.gather(call, later)
    after = running.runtime._publisher.frame()
    passed, now = time.monotonic() - began, time.time_ns() // 1_000_000
    first, second = [row for row in running.decisions.rows if row.kind == "dispatch"]
    assert -HOUR <= (second.at - first.at) / NS <= passed - HOUR
    assert 0 <= second.waited <= passed * NS
    assert -HOUR <= (after.at - frame.at) / 1000 <= passed - HOUR
    times = [item.at for item in after.feed]
    assert times
    assert all(abs(now - at) <= 1000 * passed for at in times)
