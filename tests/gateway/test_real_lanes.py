"""Lanes and hang-ups on an engine with two slots: the emulator and the real llama.cpp server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import httpx
import pytest

from scheduler.core.policy import Policy

from .engines import Served
from .harness import LOW_KEY, PATIENCE_S, URGENT_KEY, Gate, chat_body
from .raw import RawClient

LONG = "Tell me a very long story about a dragon who wanted to count all its gold."
# Long enough that nothing ends by itself while a test looks, whatever the engine's speed.
ENDLESS = 3000


@pytest.fixture
async def running(engine_server: Served) -> AsyncIterator[Gate]:
    # A pause would let the urgent request in before anybody leaves.
    policy = Policy()
    patient = replace(policy.preemption, enabled=False)
    async with engine_server.gate(replace(policy, preemption=patient)) as found:
        yield found
    # Nothing that these tests cancelled may go on inside the engine.
    await engine_runs(engine_server, 0)


async def busy_slots(served: Served) -> float:
    """Requests that the engine itself says it runs."""
    name = "llamacpp:requests_processing" if served.real else "vllm:num_requests_running"
    async with httpx.AsyncClient(base_url=served.server.url, timeout=30) as client:
        text = (await client.get("/metrics")).text
    lines = [line for line in text.splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def engine_runs(served: Served, count: int, within: float = PATIENCE_S) -> None:
    """Wait until the engine runs this many requests."""
    for _ in range(round(within / 0.01)):
        if await busy_slots(served) == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"the engine does not run {count} requests within {within} s")


async def ask(
    gateway: Gate, stack: AsyncExitStack, key: str, *, stream: bool = True, **more: object
) -> RawClient:
    """A call, sent and not yet read."""
    client = await stack.enter_async_context(gateway.raw())
    options = {"max_tokens": ENDLESS, "temperature": 0, "ignore_eos": True, **more}
    await client.post(key, chat_body(LONG, stream=stream, **options))
    return client


async def first_token(client: RawClient) -> str:
    """The response's head, once a token has come."""
    head = await client.until(b"\r\n\r\n")
    await client.until(b'"content":"')
    return head.decode()


async def test_p0_starts_before_any_queued_p2_and_a_killed_client_frees_its_slot(
    running: Gate, engine_server: Served
) -> None:
    """Two slots, three P2 streams: two run and one waits. A P0 request that arrives then is
    the next to start, as soon as a client is killed; the queued P2 comes after it."""
    async with AsyncExitStack() as stack:
        low = [await ask(running, stack, LOW_KEY) for _ in range(2)]
        for client in low:
            assert "x-lane: P2" in await first_token(client)
        low.append(await ask(running, stack, LOW_KEY))
        await running.until(lambda: running.queued == 1)
        urgent = await ask(running, stack, URGENT_KEY, max_tokens=3)
        await running.until(lambda: running.queued == 2)
        assert await busy_slots(engine_server) == 2
        low[0].reset()
        head = await asyncio.wait_for(first_token(urgent), 30)
        assert "x-lane: P0" in head
        with contextlib.suppress(asyncio.IncompleteReadError):
            await urgent.until(b"[DONE]")
        third = await asyncio.wait_for(first_token(low[2]), 30)
        assert "x-lane: P2" in third
        rows = await running.rows(2)
        assert [(row.lane, row.status) for row in rows] == [
            ("P2", "client_disconnect"),
            ("P0", "ok"),
        ]
        assert rows[0].completion_tokens >= 1
        for client in low[1:]:
            client.reset()
        await running.rest()


async def test_a_killed_client_stops_the_engine_within_a_second(
    running: Gate, engine_server: Served
) -> None:
    """Seen at the engine itself: streamed and plain calls, killed while tokens come."""
    for stream in (True, False):
        async with AsyncExitStack() as stack:
            client = await ask(running, stack, LOW_KEY, stream=stream)
            if stream:
                await first_token(client)
            await engine_runs(engine_server, 1)
            client.reset()
            await running.until(lambda: running.idle)
        await engine_runs(engine_server, 0)


async def test_the_engine_never_gets_more_than_its_slots(
    running: Gate, engine_server: Served
) -> None:
    """Eight calls at once, each short: all are served, two at a time, each with true usage."""
    calls = [
        asyncio.create_task(
            running.chat(f"{LONG} {n}", key=LOW_KEY, max_tokens=4, temperature=0, ignore_eos=True)
        )
        for n in range(8)
    ]
    most = 0.0
    while not all(call.done() for call in calls):
        most = max(most, await busy_slots(engine_server))
    assert most <= 2
    assert {(await call).status_code for call in calls} == {200}
    for row in await running.rows(8):
        assert (row.status, row.completion_tokens, row.estimated) == ("ok", 4, False)
        assert row.prompt_tokens > 10
        assert row.gpu_seconds > 0
