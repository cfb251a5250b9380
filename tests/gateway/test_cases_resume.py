"""Failures that systems of this kind had, as they would look here: answers that go on or end,
and what each of them costs."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import httpx
import pytest

from metering.core.facts import Rates
from metering.core.usage import Consumed
from scheduler.core.policy import Policy
from scheduler.ports import Ask, Denied
from scheduler.testing import Memory

from .answers import FINISHED, in_band_error, states
from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, furnished, gate, limits, replica
from .stub import DONE, Held, Seen, Wire, delta, polite, stub, usage_event
from .test_pauses import LONG_PROMPT, pauses, under
from .test_resume import emulated, events, text_of

TOOLS: dict[str, object] = {"tools": [], "tool_choice": "none"}


class Dying:
    """The first request gets some tokens, or a heartbeat only, and a reset; others an answer."""

    def __init__(self, *first: bytes) -> None:
        self.first = first
        self.seen: list[Seen] = []

    async def __call__(self, seen: Seen, wire: Wire) -> None:
        self.seen.append(seen)
        if len(self.seen) == 1:
            await wire.begin_stream()
            for piece in self.first:
                await wire.chunk(piece)
            wire.reset()
            return
        rest = (delta(" six"), delta("", finish="stop"), usage_event(12, 1), DONE)
        await wire.stream(*rest)


FIVE = tuple(delta(text) for text in ("one", " two", " three", " four", " five"))


@pytest.mark.parametrize("goes_on", [True, False])
async def test_d04_no_token_comes_twice(goes_on: bool) -> None:
    """A dies after five tokens. What can go on does, behind the fifth; what can not is one
    error frame and no second attempt. One usage row in either case."""
    answer = Dying(*FIVE)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(answer)) for _ in "ab"]
        replicas = [replica(s.url, name=f"r{n}") for n, s in enumerate(servers)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        more = {} if goes_on else TOOLS
        body = await gateway.streamed("count", key=KEY, **more)
        row = await gateway.row()
        if goes_on:
            assert text_of(events(body)) == "one two three four five six"
            assert (row.status, row.attempts, row.completion_tokens) == ("ok", 2, 6)
        else:
            assert in_band_error(body)["code"] == "upstream_error"
            assert (row.status, row.attempts, row.completion_tokens) == ("upstream_error", 1, 5)
            assert len(answer.seen) == 1


async def test_d04_before_any_content_another_answers_from_the_start() -> None:
    """Headers and a heartbeat only: the caller sees one clean stream."""
    answer = Dying(b": alive\n\n")
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(answer)) for _ in "ab"]
        replicas = [replica(s.url, name=f"r{n}") for n, s in enumerate(servers)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        body = await gateway.streamed("count", key=KEY, **TOOLS)
        assert text_of(events(body)) == " six"
        assert b"alive" not in body
        row = await gateway.row()
        assert (row.status, row.attempts, row.completion_tokens) == ("ok", 2, 1)


async def test_a08_a_wait_longer_than_the_callers_patience_is_bridged() -> None:
    """A caller whose connection is cut after a second of silence waits for three. The replica
    that it gets then fails: the comments before were no content, and another one answers."""
    held = Held()
    policy = limits(header_hold_s=0.3, keepalive_s=0.8)

    async def fails(seen: Seen, wire: Wire) -> None:
        await (wire.answer(b"{}", 500) if seen.prompt == "patient" else held(seen, wire))

    async def serves(seen: Seen, wire: Wire) -> None:
        await (polite(seen, wire) if seen.prompt == "patient" else held(seen, wire))

    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(answer)) for answer in (fails, serves)]
        replicas = [replica(s.url, name=f"r{n}", slots=1) for n, s in enumerate(servers)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas, policy=policy)))
        blockers = [asyncio.create_task(gateway.streamed(name)) for name in ("one", "two")]
        await gateway.until(lambda: gateway.running == 2 and len(held.order) == 2)
        began = gateway.runtime.gateway.clock.now()
        gateway.client.timeout = httpx.Timeout(20, read=1.0)
        body = b""
        async with gateway.stream("patient", key=LOW_KEY) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if body.count(b": waiting in P2") == 4:
                    # First where it will fail, then where it will not.
                    held.finish(servers[0].seen[0].prompt)
                    await gateway.until(lambda: len(servers[0].seen) == 2)
                    held.finish("one", "two")
        await asyncio.gather(*blockers)
        content = b"".join(p + b"\n\n" for p in body.split(b"\n\n") if p.startswith(b"data"))
        assert content == FINISHED
        row = next(row for row in await gateway.rows(3) if row.business == "low")
        assert (row.status, row.replica, row.attempts) == ("ok", "r1", 2)
        assert row.first_byte >= row.dispatched > began + 1_000_000_000
        assert row.completion_tokens == 3  # as it reports


def with_rates(memory: Memory) -> Memory:
    """Every business has five requests and some tokens, which hardly come back."""
    for name, facts in memory.businesses.items():
        rates = Rates(requests_per_s=0.001, burst=5, tokens_per_min=100_000)
        memory.businesses[name] = replace(facts, rates=rates)
    return memory


async def nothing_owed(gateway: Gate, count: int, status: str) -> None:
    """The last row cost nothing, and its business has all of its requests left."""
    row = (await gateway.rows(count, 10))[-1]
    assert row.status == status
    assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens) == (0, 0, 0)
    assert not row.estimated
    grant = await gateway.runtime.gateway.limiter.reserve(Ask("one more", row.business))
    assert not isinstance(grant, Denied)
    level = grant.standing().requests
    assert level is not None
    assert level.remaining == 4  # but for the one that asks
    grant.settle(Consumed(counted=False))


async def test_e04_an_engine_that_fails_before_any_output_costs_nothing() -> None:
    """A 500, and a connection that breaks, for plain calls and streams; each keeps its row."""

    async def broken(seen: Seen, wire: Wire) -> None:
        await wire.json({"error": {"message": "no"}, "usage": {"prompt_tokens": 99}}, 500)

    async def crash(seen: Seen, wire: Wire) -> None:
        wire.hang_up()

    count = 0
    for answer in (broken, crash):
        async with (
            stub(answer) as server,
            gate(with_rates(furnished(replica(server.url)))) as gateway,
        ):
            for stream in (False, True):
                assert (await gateway.chat(stream=stream)).status_code == 502
                count += 1
                await nothing_owed(gateway, 1 + (count - 1) % 2, "upstream_error")


async def test_e04_a_queue_time_out_and_no_capacity_cost_nothing() -> None:
    held = Held()
    policy = Policy()
    queues = replace(policy.queues, P1=replace(policy.queues.P1, queue_timeout_ms=200))
    async with stub(held) as server:
        memory = furnished(replica(server.url, slots=1), policy=replace(policy, queues=queues))
        async with gate(with_rates(memory)) as gateway:
            first = asyncio.create_task(gateway.chat("first", key=URGENT_KEY))
            await gateway.until(lambda: gateway.running == 1)
            assert (await gateway.chat("late")).status_code == 429
            await nothing_owed(gateway, 1, "queue_timeout")
            held.finish("first")
            assert (await first).status_code == 200

            async def unwell(seen: Seen, wire: Wire) -> None:
                await wire.json({}, 503)

            server.health = unwell
            await gateway.until(lambda: states(gateway)["r1"] == "down")
            assert (await gateway.chat("none")).status_code == 503
            await nothing_owed(gateway, 3, "refused")


async def test_e04_paused_before_its_first_token_and_never_served() -> None:
    """Its slot went to an urgent call, and its lane's patience ended before it had another."""
    async with emulated(1, 1, step_ms=10) as (gateway, (card,)):
        await under(gateway, pauses(queue_timeout_ms=700))
        with_rates(gateway.memory)
        gateway.memory.tell("access")
        access = gateway.runtime.gateway
        await gateway.until(lambda: access.access.businesses["low"].rates.burst == 5)
        low = asyncio.create_task(gateway.chat(LONG_PROMPT, key=LOW_KEY, max_tokens=5))
        await gateway.until(lambda: card.emulator.engine.running)
        urgent = asyncio.create_task(
            gateway.chat("long", key=URGENT_KEY, max_tokens=250, ignore_eos=True)
        )
        refused = await low
        assert refused.json()["error"]["code"] == "queue_timeout"
        assert refused.headers["x-ratelimit-remaining-requests"] == "5"
        await nothing_owed(gateway, 1, "queue_timeout")
        assert (await urgent).status_code == 200


async def test_e04_strangers_leave_no_row_and_take_nothing() -> None:
    """Who has not shown who it is has no row that support could look at."""
    async with stub() as server, gate(with_rates(furnished(replica(server.url)))) as gateway:
        assert (await gateway.chat(key="fl_live_wrong")).status_code == 401
        assert (await gateway.chat()).status_code == 200
        assert len(await gateway.rows(1)) == 1
        assert len(server.seen) == 1
