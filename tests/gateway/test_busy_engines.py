"""An engine that computes answers its health checks late, or not while it does: busy, not dead."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from .answers import states
from .harness import URGENT_KEY, Gate, furnished, gate, replica
from .stub import DONE, Seen, Wire, chat_answer, delta, stub

# By now one that showed no other sign of life would have been out.
ASKED_IN_VAIN = 4
EVERY_S = 0.2


class Engine:
    """Streams go on word by word while ``going`` is set; health checks are answered at once,
    never, or each when the next one has come."""

    def __init__(self) -> None:
        self.health = "at once"
        self.going = asyncio.Event()
        self.going.set()
        self.end = asyncio.Event()
        self.asked = 0
        self.answered = 0
        self.warmed = 0
        self._more = asyncio.Event()

    async def probe(self, seen: Seen, wire: Wire) -> None:
        if seen.path != "/health":
            await wire.json({}, 404)
            return
        self.asked += 1
        self._more.set()
        self._more = asyncio.Event()
        if self.health == "late":
            await self._more.wait()
        while self.health == "never":
            await self._more.wait()
        self.answered += 1
        await wire.json({"status": "ok"})

    async def answer(self, seen: Seen, wire: Wire) -> None:
        if not seen.json.get("stream"):
            self.warmed += seen.prompt == "Hello"
            await wire.json(chat_answer())
            return
        await wire.begin_stream()
        while not self.end.is_set():
            await self.going.wait()
            await wire.chunk(delta(" word"))
            await asyncio.sleep(EVERY_S)
        await wire.chunk(delta(None, finish="stop") + DONE)
        await wire.end_stream()


async def started(stack: AsyncExitStack, count: int = 1) -> tuple[Gate, list[Engine]]:
    """A gateway before so many engines, each with a stream that runs."""
    engines, replicas = [Engine() for _ in range(count)], []
    for number, engine in enumerate(engines):
        server = await stack.enter_async_context(stub(engine.answer))
        server.health = engine.probe
        replicas.append(replica(server.url, name=f"r{number}", engine="sglang", slots=8))
    gateway = await stack.enter_async_context(gate(furnished(*replicas, warm_up=True)))
    held = gateway.runtime.scheduler.state.replicas
    await gateway.until(lambda: all(each.warm for each in held.values()))
    return gateway, engines


def watched(gateway: Gate, number: int = 0) -> object:
    """What changes when a replica was out in the meantime."""
    watch = gateway.runtime.health.watches[f"r{number}"]
    return watch.generation, len(watch.downs), watch.warm


async def in_vain(gateway: Gate, engine: Engine) -> None:
    before = engine.asked
    await gateway.until(lambda: engine.asked >= before + ASKED_IN_VAIN)


async def again(gateway: Gate, engine: Engine, count: int) -> None:
    """Wait until it has answered so many health checks in all."""
    await gateway.until(lambda: engine.answered >= count)


@pytest.mark.parametrize("count", [1, 2])
async def test_n09_while_it_streams_it_stays_in_service(count: int) -> None:
    """Two spells without a health check answered. Urgent calls are served meanwhile, no stream
    is cut or begun again, no warm-up is added to the load, and afterwards nothing is held out."""
    async with AsyncExitStack() as stack:
        gateway, engines = await started(stack, count)
        streams = [asyncio.create_task(gateway.streamed(f"s{n}")) for n in range(4 * count)]
        await gateway.until(lambda: gateway.running == 4 * count)
        before = [watched(gateway, number) for number in range(count)]
        for _ in range(2):
            for engine in engines:
                engine.health = "never"
            for engine in engines:
                await in_vain(gateway, engine)
            assert set(states(gateway).values()) == {"ready"}
            for _ in range(3):
                assert (await gateway.chat("now", key=URGENT_KEY)).status_code == 200
            answered = [engine.answered for engine in engines]
            for engine in engines:
                engine.health = "at once"
            for engine, count_before in zip(engines, answered, strict=True):
                await again(gateway, engine, count_before + 2)
        assert [watched(gateway, number) for number in range(count)] == before
        assert [engine.warmed for engine in engines] == [1] * count
        for engine in engines:
            engine.end.set()
        for body in await asyncio.gather(*streams):
            assert body.endswith(DONE)
        assert {row.attempts for row in await gateway.rows(4 * count + 6)} == {1}


async def test_n09_one_that_sends_nothing_either_is_out() -> None:
    """Its stream is silent as well: within moments of its last word it is out."""
    async with AsyncExitStack() as stack:
        gateway, (engine,) = await started(stack)
        stream = asyncio.create_task(gateway.streamed("s"))
        await gateway.until(lambda: gateway.running == 1)
        engine.health = "never"
        await in_vain(gateway, engine)
        assert states(gateway) == {"r0": "ready"}
        engine.going.clear()
        await gateway.until(lambda: states(gateway) == {"r0": "down"})
        engine.health = "at once"
        engine.going.set()
        engine.end.set()
        assert (await stream).endswith(DONE)


async def test_one_that_answers_each_check_late_stays_in_service() -> None:
    """As where each check is a generation of its own: it takes longer than a probe waits before
    it asks again, and is answered."""
    async with AsyncExitStack() as stack:
        gateway, (engine,) = await started(stack)
        before = watched(gateway)
        engine.health = "late"
        answered = engine.answered
        await gateway.until(lambda: engine.answered >= answered + ASKED_IN_VAIN)
        engine.health = "at once"
        assert watched(gateway) == before
        assert states(gateway) == {"r0": "ready"}
