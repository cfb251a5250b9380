"""A client that leaves frees its slot at once, streamed or not."""

import asyncio
from typing import cast

import pytest

from scheduler.emulator.settings import Settings

from .servers import SLOW, Json, Served, chat, served, until

LONG = {"max_tokens": 4000, "ignore_eos": True}


async def started(server: Served, **body: object) -> asyncio.Task[object]:
    """A call that has begun to run."""
    running = len(server.emulator.engine.running)
    call = asyncio.create_task(
        server.http.post("/v1/chat/completions", json=chat(**body)), name="call"
    )
    await until(lambda: len(server.emulator.engine.running) > running)
    return cast("asyncio.Task[object]", call)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_ends_its_generation(stream: bool) -> None:
    async with served(Settings(service=SLOW)) as server:
        call = await started(server, stream=stream, **LONG)
        await until(lambda: server.emulator.engine.counters.generation_tokens >= 2)
        call.cancel()
        engine = server.emulator.engine
        await until(lambda: not engine.running)
        assert engine.pool.used == 0
        await until(lambda: bool(server.emulator.recorder.aborted))
        state = await server.state()
        (aborted,) = cast("list[Json]", state["aborted"])
        (seen,) = cast("list[Json]", state["recent"])
        assert seen["outcome"] == "aborted"
        assert aborted["generated"] == engine.counters.generation_tokens
        assert aborted["at"] == seen["ended_at"]
        assert engine.counters.finished["abort"] == 1


async def test_one_that_only_waits_leaves_the_running_ones_alone() -> None:
    slots = 1
    async with served(Settings(service=SLOW.sped_up(4))) as server:
        engine = server.emulator.engine
        engine.model = type(engine.model)(slots=slots, step_base_ms=5.0)
        running = await started(server, max_tokens=40, ignore_eos=True)
        waiting = asyncio.create_task(server.chat(**LONG))
        await until(lambda: len(engine.waiting) == 1)
        waiting.cancel()
        await until(lambda: not engine.waiting)
        assert len(engine.running) == 1
        answer = cast("Json", (await running).json())  # type: ignore[attr-defined]
        assert cast("Json", answer["usage"])["completion_tokens"] == 40


async def test_a_freed_slot_goes_to_the_next_in_line() -> None:
    async with served(Settings(service=SLOW)) as server:
        engine = server.emulator.engine
        calls = [await started(server, stream=True, **LONG) for _ in range(engine.model.slots)]
        last = asyncio.create_task(server.chat(max_tokens=1))
        await until(lambda: len(engine.waiting) == 1)
        calls[0].cancel()
        assert (await asyncio.wait_for(last, 30)).status_code == 200
        for call in calls:
            call.cancel()
        assert server.emulator.recorder.max_in_flight == engine.model.slots + 1
        assert server.emulator.driver.max_running == engine.model.slots


async def test_what_the_engine_saw_is_kept() -> None:
    async with served(Settings(keep=3)) as server:
        for index in range(5):
            headers = [("X-Request-Id", f"r{index}"), ("X-Twice", "a"), ("X-Twice", "b")]
            await server.http.post("/v1/chat/completions", json=chat(max_tokens=1), headers=headers)
        await server.chat(max_tokens=-1)
        state = await server.state()
        recent = cast("list[Json]", state["recent"])
        assert state["requests_seen"] == 6
        assert state["in_flight"] == 0
        assert [seen["outcome"] for seen in recent] == ["answered", "answered", "refused"]
        assert [seen["status"] for seen in recent] == [200, 200, 400]
        assert recent[0]["id"] == "r3"
        names = [
            value
            for name, value in cast("list[list[str]]", recent[0]["headers"])
            if name.lower() == "x-twice"
        ]
        assert names == ["a", "b"]
        assert '"max_tokens":1' in str(recent[0]["body"]).replace(" ", "")
        await server.http.delete("/emulator/state")
        assert (await server.state())["requests_seen"] == 0
