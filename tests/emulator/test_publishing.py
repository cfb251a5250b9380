"""KV cache events, read with vLLM's own definitions of them."""

import asyncio
from dataclasses import replace

import msgspec
import pytest
import zmq
from zmq.asyncio import Context

from scheduler.emulator.app import listen
from scheduler.emulator.settings import Settings
from tests.kv_events.publishers import AllBlocksCleared, TieredRemoved, TieredStored

from .servers import QUICK, Served, named, served

WAIT_S = 20.0


class Batch(msgspec.Struct, array_like=True):
    ts: float
    events: list[TieredStored | TieredRemoved | AllBlocksCleared]
    data_parallel_rank: int


async def ask(server: Served, prompt: list[int]) -> None:
    """One call with this prompt; two tokens of an answer."""
    body = named({"prompt": prompt, "max_tokens": 2})
    answer = await server.http.post("/v1/completions", json=body)
    assert answer.status_code == 200


async def test_events_are_those_of_vllm() -> None:
    """Numbered batches, the tokens of each block, the block before it; and what leaves."""
    settings = Settings(service=replace(QUICK, kv_tokens=1024), max_model_len=1024, kv_events=0)
    context = Context()
    reader = context.socket(zmq.SUB)
    reader.setsockopt(zmq.LINGER, 0)
    reader.setsockopt(zmq.SUBSCRIBE, b"")
    numbers: list[int] = []

    async def events() -> list[object]:
        async with asyncio.timeout(WAIT_S):
            topic, number, payload = await reader.recv_multipart()
        assert topic == b""
        numbers.append(int.from_bytes(number, "big"))
        batch = msgspec.msgpack.decode(payload, type=Batch)
        assert batch.data_parallel_rank == 0
        return list(batch.events)

    try:
        async with served(settings) as server:
            address = server.events_url
            reader.connect(address)
            while not await reader.poll(50):
                # Until the subscription is there nothing is sent to it.
                await server.http.delete("/emulator/state")
            assert await events() == [AllBlocksCleared()]

            async def next_events() -> list[object]:
                while (found := await events()) == [AllBlocksCleared()]:
                    pass
                return found

            prompt = list(range(1000, 1400))
            await ask(server, prompt)
            [stored] = await next_events()
            assert isinstance(stored, TieredStored)
            assert len(stored.block_hashes) == len(set(stored.block_hashes)) == 25
            assert (stored.token_ids, stored.block_size) == (prompt, 16)
            assert (stored.parent_block_hash, stored.medium) == (None, "GPU")
            await ask(server, [*prompt, *range(1500, 1540)])
            [more] = await next_events()
            assert isinstance(more, TieredStored)
            assert more.parent_block_hash == stored.block_hashes[-1]
            await ask(server, list(range(2000, 2900)))
            found = await next_events()
            while not any(isinstance(event, TieredRemoved) for event in found):
                found = await next_events()
            known = {*stored.block_hashes, *more.block_hashes}
            gone = [event for event in found if isinstance(event, TieredRemoved)]
            assert {key for event in gone for key in event.block_hashes} <= known
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    finally:
        reader.close()
        context.term()


async def test_a_port_in_use_is_said() -> None:
    async with listen(Settings(kv_events=0)) as first:
        port = int(first.events_url.rpartition(":")[2])
        with pytest.raises(OSError, match="KV cache events"):
            async with listen(Settings(kv_events=port)):
                pass


async def test_without_the_option_nothing_is_published() -> None:
    async with listen(Settings()) as plain:
        assert plain.events_url == ""
