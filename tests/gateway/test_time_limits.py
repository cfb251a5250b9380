"""Limits on silence: of a replica, and of a caller that does not read."""

import asyncio
import json
import time
from dataclasses import replace

import pytest

from .answers import in_band_error
from .harness import KEY, chat_body, furnished, gate, limits, replica
from .stub import Held, Seen, Wire, chat_answer, delta, stub

CUT = [delta("hel"), delta("lo")]


async def test_the_first_byte_has_a_time_limit() -> None:
    """A replica that takes the request and says nothing: 504 upstream_timeout, aborted."""
    policy = limits(first_byte_ms=300)
    async with (
        stub(Held()) as server,
        gate(furnished(replica(server.url), policy=policy)) as gateway,
    ):
        before = time.monotonic()
        response = await gateway.chat("never")
        assert time.monotonic() - before >= 0.3
        assert response.status_code == 504
        assert response.json()["error"]["code"] == "upstream_timeout"
        assert response.headers["x-fairlane-reason"] == "upstream_timeout"
        await gateway.until(server.seen[0].closed.is_set)
        assert (await gateway.row()).status == "upstream_timeout"


async def test_a_chunk_that_cannot_be_read_is_silence() -> None:
    """A broken length in the middle of a stream: nothing behind it can be understood."""

    async def bad_chunk_size(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(b"".join(CUT))
        await asyncio.sleep(0.02)
        await wire.send(b"zz\r\n")
        await seen.closed.wait()

    policy = limits(idle_ms=300)
    async with (
        stub(bad_chunk_size) as server,
        gate(furnished(replica(server.url), policy=policy)) as gateway,
    ):
        assert in_band_error(await gateway.streamed())["code"] == "upstream_timeout"


@pytest.mark.parametrize("form", ["plain", "stream", "assembled"])
async def test_silence_within_an_answer_has_a_time_limit(form: str) -> None:
    """A stream gets the error in-band, a plain call a 504; the replica is told to stop."""

    async def stall(seen: Seen, wire: Wire) -> None:
        if form == "plain":
            await wire.head(200, ("Content-Type", "application/json"), ("Content-Length", "500"))
            await wire.send(b'{"choices"')
        else:
            await wire.begin_stream()
            await wire.chunk(delta("a"))
        await seen.closed.wait()

    facts = replica("", engine="llamacpp" if form == "assembled" else "vllm")
    async with (
        stub(stall) as server,
        gate(furnished(replace(facts, url=server.url), policy=limits(idle_ms=300))) as gateway,
    ):
        response = await gateway.chat(stream=form == "stream")
        if form == "stream":
            assert in_band_error(response.content)["code"] == "upstream_timeout"
        else:
            assert response.status_code == 504
        await gateway.until(server.seen[0].closed.is_set)
        assert (await gateway.row()).status == "upstream_timeout"


async def test_a_slow_answer_that_never_falls_silent_is_no_timeout() -> None:
    """Limits are on silence: an answer may take many times as long as any of them."""

    async def slow(seen: Seen, wire: Wire) -> None:
        body = json.dumps(chat_answer()).encode()
        length = ("Content-Length", str(len(body)))
        await wire.head(200, ("Content-Type", "application/json"), length)
        for index in range(0, len(body), 16):
            await wire.send(body[index : index + 16])
            await asyncio.sleep(0.1)

    policy = limits(idle_ms=1000, first_byte_ms=1000)
    async with stub(slow) as server, gate(furnished(replica(server.url), policy=policy)) as gateway:
        assert (await gateway.chat()).status_code == 200


async def test_a_caller_that_reads_nothing_is_let_go_and_the_replica_not_blamed() -> None:
    """It holds a slot: after the time that an engine may be silent it counts as gone."""

    async def flood(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        while True:
            await wire.chunk(delta("x" * 60000))

    policy = limits(idle_ms=500)
    async with (
        stub(flood) as server,
        gate(furnished(replica(server.url), policy=policy)) as gateway,
        gateway.raw() as client,
    ):
        await client.post(KEY, chat_body(stream=True))
        transport = client.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        assert (await gateway.row()).status == "client_disconnect"
        await gateway.until(server.seen[0].closed.is_set)
