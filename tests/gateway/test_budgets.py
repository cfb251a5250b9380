"""Budgets, GPU shares and places of keys on the running gateway, on a clock that stands."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from decimal import Decimal

import httpx
import pytest

from metering.core.facts import Allowance, Rates
from metering.core.leases import TTL
from metering.core.prices import ModelPrices, PriceList
from metering.core.purse import amount
from metering.core.usage import UsageRow
from scheduler.limits import Limits
from scheduler.ports import Spent
from scheduler.testing import ManualClock, Memory, MemoryBooks

from .harness import KEY, Gate, furnished, gate, replica
from .stub import Held, Seen, Stub, Wire, delta, polite

DAY = 86_400


@pytest.fixture
def clock() -> ManualClock:
    # 14 November 2023, 22:13:20 UTC.
    return ManualClock()


@pytest.fixture
def memory(engine: Stub) -> Memory:
    return furnished(replica(engine.url, slots=100))


@pytest.fixture
async def running(memory: Memory, clock: ManualClock) -> AsyncIterator[Gate]:
    books = MemoryBooks(PriceList(None, {"": ModelPrices(request=Decimal(100))}))
    async with gate(memory, clock=clock, books=books) as found:
        yield found


async def limit(running: Gate, /, **changes: object) -> None:
    """Other limits of the business, as an announced change brings them."""
    held = running.memory.businesses
    held["owner"] = replace(held["owner"], **changes)  # type: ignore[arg-type]
    await running.runtime.reload("access")


async def limit_key(
    running: Gate, allowance: Allowance, models: frozenset[str] | None = None
) -> None:
    """Other limits of its key."""
    running.memory.key(KEY, "owner", allowance=allowance, models=models)
    await running.runtime.reload("access")


async def crowd(running: Gate, engine: Stub, number: int, most: int = 0) -> list[httpx.Response]:
    """So many calls at once, none of which is answered before all have been admitted or not."""
    held = engine.answer = Held()
    calls = [asyncio.create_task(running.chat(max_tokens=most)) for _ in range(number)]
    gateway = running.runtime.gateway
    await running.until(
        lambda: len(running.usage.rows) + len(held.order) == number and len(gateway.exchanges) > 0
    )
    held.finish("hello")
    return await asyncio.gather(*calls)


def limits_of(running: Gate) -> Limits:
    """The limits that the gateway holds its callers to."""
    limits = running.runtime.gateway.limiter
    assert isinstance(limits, Limits)
    return limits


def codes(answers: list[httpx.Response]) -> dict[str, int]:
    found: dict[str, int] = {}
    for answer in answers:
        code = "ok" if answer.status_code == 200 else answer.json()["error"]["code"]
        found[code] = found.get(code, 0) + 1
    return found


async def test_b04_of_fifty_at_once_exactly_ten_get_the_tokens(
    running: Gate, engine: Stub, clock: ManualClock
) -> None:
    """B04: 1,000 tokens left, each of fifty calls takes 100 (8 of prompt, 92 of answer)."""
    await limit(running, rates=Rates(tokens_per_min=1000))
    answers = await crowd(running, engine, 50, most=92)
    assert codes(answers) == {"ok": 10, "rate_limit_tokens": 40}
    refused = [answer for answer in answers if answer.status_code == 429]
    assert {answer.headers["retry-after-ms"] for answer in refused} == {"6000"}
    assert {answer.headers["x-ratelimit-remaining-tokens"] for answer in refused} == {"0"}
    # Each came to 10 tokens; the rest is there again.
    await running.until(lambda: running.idle)
    assert (await running.chat(max_tokens=92)).headers["x-ratelimit-remaining-tokens"] == "800"
    assert codes([await running.chat(max_tokens=883)]) == {"rate_limit_tokens": 1}


async def test_b04_of_fifty_at_once_exactly_ten_get_the_money(running: Gate, engine: Stub) -> None:
    await limit(running, monthly_budget=Decimal(1000))
    answers = await crowd(running, engine, 50)
    assert codes(answers) == {"ok": 10, "budget_exhausted": 40}
    assert codes([await running.chat()]) == {"budget_exhausted": 1}


async def test_b08_streams_use_tokens_up_as_plain_calls_do(running: Gate, engine: Stub) -> None:
    """B08: until refused, plain and streamed; left half-way, what was delivered counts."""

    async def until_refused(*, stream: bool) -> int:
        # Other limits begin with all that they allow.
        await limit(running, rates=Rates())
        await limit(running, rates=Rates(tokens_per_min=100))
        number = 0
        while (await running.chat(stream=stream, max_tokens=3)).status_code == 200:
            number += 1
            await running.until(lambda: running.idle)
        return number

    # Each comes to seven tokens of prompt and three of answer, and eleven are asked for.
    assert await until_refused(stream=False) == await until_refused(stream=True) == 9

    async def endless(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        for _ in range(5):
            await wire.chunk(delta("a"))
        await seen.closed.wait()

    engine.answer = endless
    await limit(running, rates=Rates())
    await limit(running, rates=Rates(tokens_per_min=100_000))
    running.usage.rows.clear()
    for _ in range(4):
        async with running.stream(max_tokens=4000) as answer:
            await anext(answer.aiter_bytes())
    rows = await running.rows(4)
    used = sum(row.prompt_tokens + row.completion_tokens for row in rows)
    assert used >= 4 * 9
    await running.until(lambda: running.idle)
    engine.answer = polite
    left = (await running.chat(max_tokens=3)).headers["x-ratelimit-remaining-tokens"]
    assert int(left) == 100_000 - used - 11


async def test_unused_money_is_given_back(running: Gate, engine: Stub) -> None:
    running.books.prices = PriceList(None, {"chat": ModelPrices(completion=Decimal(1_000_000))})
    await limit(running, monthly_budget=Decimal(1000))
    # Each might cost 92, and costs 3.
    answers = await crowd(running, engine, 50, most=92)
    assert codes(answers) == {"ok": 10, "budget_exhausted": 40}
    await running.until(lambda: running.idle)
    purse = limits_of(running).purses()["owner"]
    assert (amount(purse.spent), purse.held) == (Decimal(30), 0)

    # What the scheduler refuses has cost nothing.
    await limit(running, running=0)
    assert codes([await running.chat(max_tokens=92)]) == {"concurrency_exceeded": 1}
    await running.until(lambda: running.idle)
    assert (amount(purse.spent), purse.held) == (Decimal(30), 0)


async def test_b07_a_spent_budget_names_the_month_s_end_and_then_it_works(
    running: Gate, clock: ManualClock
) -> None:
    await limit(running, monthly_budget=Decimal(100))
    assert (await running.chat()).status_code == 200
    refused = await running.chat()
    assert refused.json()["error"]["code"] == "budget_exhausted"
    # From 14 November, 22:13:20, to the first of December.
    seconds = 16 * DAY + 6400
    assert refused.headers["retry-after"] == str(seconds)
    assert refused.headers["x-should-retry"] == "false"
    clock.advance(seconds - 0.001)
    assert (await running.chat()).headers["retry-after-ms"] == "1"
    clock.advance(0.001)
    assert (await running.chat()).status_code == 200
    assert (await running.chat()).status_code == 429


async def test_what_others_spent_counts_and_a_raised_budget_holds_at_once(running: Gate) -> None:
    running.books.businesses["owner"] = Decimal(950)
    await limit(running, monthly_budget=Decimal(1000))
    assert codes([await running.chat()]) == {"budget_exhausted": 1}
    await limit(running, monthly_budget=Decimal(1050))
    assert codes([await running.chat()]) == {"ok": 1}
    # The books away: the gateway counts on by itself.
    running.books.away = True
    await limit(running, monthly_budget=Decimal(1149))
    assert codes([await running.chat()]) == {"budget_exhausted": 1}
    await limit(running, monthly_budget=Decimal(1150))
    assert codes([await running.chat()]) == {"ok": 1}
    await limit(running, monthly_budget=None)
    assert codes([await running.chat() for _ in range(3)]) == {"ok": 3}
    await limit(running, monthly_budget=Decimal(0))
    refused = await running.chat()
    assert codes([refused]) == {"budget_exhausted": 1}
    assert refused.headers["x-should-retry"] == "false"


async def test_a_key_s_limits_bind_beside_its_business_s(running: Gate) -> None:
    await limit(running, rates=Rates(tokens_per_min=10_000))
    await limit_key(running, Allowance(Rates(requests_per_s=1, burst=2)))
    answers = [await running.chat() for _ in range(3)]
    assert codes(answers) == {"ok": 2, "rate_limit_requests": 1}
    running.books.keys["owner", "fl_live_owne"] = Decimal(60)
    await limit_key(running, Allowance(monthly_budget=Decimal(100)))
    assert codes([await running.chat()]) == {"budget_exhausted": 1}
    await limit_key(running, Allowance(), models=frozenset({"other"}))
    refused = await running.chat()
    assert (refused.status_code, codes([refused])) == (403, {"model_not_allowed": 1})


async def test_a_key_s_requests_wait_for_its_places(
    running: Gate, engine: Stub, clock: ManualClock
) -> None:
    await limit_key(running, Allowance(running=2, queued=3))
    held = engine.answer = Held()
    calls = [asyncio.create_task(running.chat()) for _ in range(5)]
    gateway = running.runtime.gateway
    await running.until(lambda: len(held.order) == 2 and len(gateway.exchanges) == 5)
    refused = await running.chat()
    assert codes([refused]) == {"concurrency_exceeded": 1}
    assert int(refused.headers["retry-after"]) >= 1
    # Those that live keep their places, however long they take.
    leases = [
        lease
        for party in limits_of(running)._keys.values()
        if party.places is not None
        for lease in party.places._held.values()
    ]
    for _ in range(3):
        clock.advance(8)
        await running.until(lambda: all(lease.ends == clock.now() + TTL for lease in leases))
    assert (len(leases), len(held.order)) == (5, 2)
    # One who waits leaves: nobody else takes its place at the replica by that.
    calls.pop().cancel()
    await running.until(lambda: len(running.usage.rows) == 2)
    assert len(held.order) == 2
    held.finish("hello")
    assert codes(list(await asyncio.gather(*calls))) == {"ok": 4}
    assert len(held.order) == 4
    await running.until(lambda: running.idle)
    await limit_key(running, Allowance(running=0))
    blocked = await running.chat()
    assert codes([blocked]) == {"concurrency_exceeded": 1}
    assert blocked.headers["x-should-retry"] == "false"


async def test_who_waits_for_a_place_too_long_is_refused(
    running: Gate, engine: Stub, clock: ManualClock
) -> None:
    await limit_key(running, Allowance(running=1))
    policy = running.memory.rules
    queue = replace(policy.queues.P1, queue_timeout_ms=50)
    running.memory.rules = replace(policy, queues=replace(policy.queues, P1=queue))
    await running.runtime.reload("policy")
    held = engine.answer = Held()
    first = asyncio.create_task(running.chat())
    await running.until(lambda: len(held.order) == 1)
    assert codes([await running.chat()]) == {"queue_timeout": 1}
    held.finish("hello")
    assert codes([await first]) == {"ok": 1}
    assert codes([await running.chat()]) == {"ok": 1}


async def test_a_share_of_the_gpus_is_a_share_of_their_time(
    running: Gate, engine: Stub, clock: ManualClock
) -> None:
    """One GPU, a tenth of it: what was used beyond must come back before there is more."""

    async def slow(seen: Seen, wire: Wire) -> None:
        clock.advance(20)
        await polite(seen, wire)

    engine.answer = slow
    await limit(running, gpu_share=0.1)
    assert codes([await running.chat()]) == {"ok": 1}
    refused = await running.chat()
    assert codes([refused]) == {"concurrency_exceeded": 1}
    # Six GPU-seconds may be used at once; twenty were, while two came back, so twelve are owed.
    # The next is expected to take twenty as well: a full bucket is waited for, a tenth a second.
    assert refused.headers["retry-after-ms"] == "180000"
    wait = int(refused.headers["retry-after-ms"])
    clock.advance(wait / 1000 - 0.001)
    assert codes([await running.chat()]) == {"concurrency_exceeded": 1}
    clock.advance(0.001)
    assert codes([await running.chat()]) == {"ok": 1}
    await limit(running, gpu_share=0.0)
    assert (await running.chat()).headers["x-should-retry"] == "false"


class RowBooks(MemoryBooks):
    """Books that add rows up as the real ones do, each at a price of 1."""

    def spent(
        self,
        since: int,
        before: int,
        businesses: Sequence[str],
        keys: Sequence[tuple[str, str]],
    ) -> Spent:
        """Of one business alone."""
        found = [row for row in self.rows if row.received >= since and row.finished < before]
        return Spent(self.prices, dict.fromkeys(businesses, Decimal(len(found))))

    rows: Sequence[UsageRow] = ()


@pytest.mark.parametrize("jumps", [(3600,), (-3600,), (3600, -3600), (-DAY,)])
async def test_a_wall_clock_that_is_set_gives_nothing_away(
    engine: Stub, clock: ManualClock, jumps: tuple[int, ...]
) -> None:
    """Ten may be spent; four are, then the clock is set, then two more."""
    books = RowBooks(PriceList(None, {"": ModelPrices(request=Decimal(1))}))
    async with gate(furnished(replica(engine.url, slots=9)), clock=clock, books=books) as running:
        books.rows = running.usage.rows
        await limit(running, monthly_budget=Decimal(10))
        for _ in range(4):
            clock.advance(1)
            assert (await running.chat()).status_code == 200
        purse = limits_of(running).purses()["owner"]
        for jump in jumps:
            clock.jump(jump)
            await running.runtime._budgets.look()
            assert amount(purse.left(clock.wall())) == 6
        for _ in range(2):
            clock.advance(1)
            assert (await running.chat()).status_code == 200
        await running.until(lambda: running.idle)
        await running.runtime._budgets.look()
        assert amount(purse.left(clock.wall())) == 4
