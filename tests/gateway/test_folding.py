"""Tokens of an attempt that ends with no other after it: counted once, however the engine tells
them and whatever ended it."""

import asyncio
import json

import pytest

from .harness import LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from .stub import Held, Seen, Wire, delta, event, stub
from .test_refusals import queues

ENGINES = ["vllm", "sglang"]
PROMPT, CACHED = 9, 4


def metered(text: str, completion: int) -> bytes:
    """A token with the usage so far, as engines send it where they are asked for that."""
    chunk = json.loads(delta(text).removeprefix(b"data: "))
    details = {"cached_tokens": CACHED}
    total = PROMPT + completion
    chunk["usage"] = {
        "prompt_tokens": PROMPT,
        "completion_tokens": completion,
        "total_tokens": total,
        "prompt_tokens_details": details,
    }
    return event(chunk)


class Metered:
    """Five tokens of a low call, two an event but for the first, then whatever comes; answers
    others when told to."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.held = Held()
        self.breaks = breaks
        self.sent = asyncio.Event()

    async def __call__(self, seen: Seen, wire: Wire) -> None:
        if seen.prompt != "count":
            await self.held(seen, wire)
            return
        await wire.begin_stream()
        for text, completion in (("one", 1), (" two three", 3), (" four five", 5)):
            await wire.chunk(metered(text, completion))
        self.sent.set()
        if self.breaks:
            wire.reset()
            return
        await seen.closed.wait()


async def paused(gateway: Gate, engine: Metered) -> tuple[asyncio.Task[bytes], asyncio.Task[bytes]]:
    """A low stream that has lost its slot, and the urgent call that has it."""
    low = asyncio.create_task(gateway.streamed("count", key=LOW_KEY))
    await engine.sent.wait()
    urgent = asyncio.create_task(gateway.streamed("urgent", key=URGENT_KEY))
    await gateway.until(lambda: gateway.queued == 1 and len(engine.held.order) == 1)
    return low, urgent


async def check(gateway: Gate, status: str) -> None:
    row = next(row for row in await gateway.rows(1) if row.business == "low")
    assert (row.status, row.completion_tokens) == (status, 5)
    assert (row.prompt_tokens, row.cached_tokens) == (PROMPT, CACHED)


@pytest.mark.parametrize("kind", ENGINES)
async def test_what_breaks_off_for_good_is_counted_once(kind: str) -> None:
    engine = Metered(breaks=True)
    async with (
        stub(engine) as server,
        gate(furnished(replica(server.url, engine=kind))) as gateway,
    ):
        await gateway.streamed("count", key=LOW_KEY)
        await check(gateway, "upstream_error")


@pytest.mark.parametrize("kind", ENGINES)
async def test_who_leaves_while_paused_pays_once(kind: str) -> None:
    engine = Metered()
    async with (
        stub(engine) as server,
        gate(furnished(replica(server.url, slots=1, engine=kind))) as gateway,
    ):
        low, urgent = await paused(gateway, engine)
        low.cancel()
        await gateway.until(lambda: gateway.queued == 0)
        await check(gateway, "client_disconnect")
        engine.held.finish("urgent")
        await urgent


@pytest.mark.parametrize("kind", ENGINES)
async def test_what_expires_while_paused_is_counted_once(kind: str) -> None:
    engine = Metered()
    policy = queues("P2", queue_timeout_ms=300)
    async with (
        stub(engine) as server,
        gate(furnished(replica(server.url, slots=1, engine=kind), policy=policy)) as gateway,
    ):
        low, urgent = await paused(gateway, engine)
        await low
        await check(gateway, "queue_timeout")
        engine.held.finish("urgent")
        await urgent


@pytest.mark.parametrize("kind", ENGINES)
async def test_what_a_stop_ends_while_paused_is_counted_once(kind: str) -> None:
    engine = Metered()
    async with (
        stub(engine) as server,
        gate(furnished(replica(server.url, slots=1, engine=kind))) as gateway,
    ):
        low, urgent = await paused(gateway, engine)
        gateway.runtime.gateway.drain()
        await low
        await check(gateway, "shutting_down")
        engine.held.finish("urgent")
        await urgent
