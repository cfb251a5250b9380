"""Callers that wait: when the head goes out, what keeps the connection alive, what follows."""

import asyncio
import json
from dataclasses import replace

from .harness import KEY, URGENT_KEY, chat_body, furnished, gate, limits, replica
from .stub import DONE, Held, Seen, Wire, stub


async def test_a_stream_gets_its_head_after_a_while_and_then_comments() -> None:
    """A08: held until dispatch or ``header_hold_s``; then comments, no more than ``keepalive_s``
    apart, without the headers that nobody knows yet. They are no part of the answer."""
    held = Held()
    policy = limits(header_hold_s=0.3, keepalive_s=0.8)
    async with (
        stub(held) as server,
        gate(furnished(replica(server.url, slots=1), policy=policy)) as gateway,
    ):
        first = asyncio.create_task(gateway.streamed("first"))
        await gateway.until(lambda: gateway.running == 1)
        async with gateway.raw() as client:
            await client.post(KEY, chat_body("second", stream=True))
            head = await client.until(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert b"x-lane: P1" in head
            assert b"x-replica" not in head
            assert b"x-queue-wait-ms" not in head
            chunks = client.chunks()
            comments = [await anext(chunks) for _ in range(3)]
            assert all(line.startswith(b": ") and line.endswith(b"\n\n") for line in comments)
            assert gateway.queued == 1
            held.finish("first", "second")
            rest = b"".join([chunk async for chunk in chunks])
        assert rest.endswith(DONE)
        assert b"\n: " not in rest
        assert (await first).endswith(DONE)
        rows = {row.id: row for row in await gateway.rows(2)}
        second = max(rows.values(), key=lambda row: row.id)
        assert second.first_byte > second.dispatched
        assert second.bytes_out == len(rest)


async def test_a_refusal_after_the_comments_is_in_band() -> None:
    """The status has gone out: one error frame, with the reason as its code, and no [DONE]."""
    held = Held()
    policy = limits(header_hold_s=0.1, keepalive_s=0.5)
    queues = replace(policy.queues, P1=replace(policy.queues.P1, queue_timeout_ms=900))
    async with (
        stub(held) as server,
        gate(
            furnished(replica(server.url, slots=1), policy=replace(policy, queues=queues))
        ) as gateway,
    ):
        first = asyncio.create_task(gateway.streamed("first", key=URGENT_KEY))
        await gateway.until(lambda: gateway.running == 1)
        async with gateway.stream("second") as response:
            assert response.status_code == 200
            body = await response.aread()
        *comments, frame = [part for part in body.split(b"\n\n") if part]
        assert comments
        assert all(comment.startswith(b": ") for comment in comments)
        error = json.loads(frame.removeprefix(b"data: "))["error"]
        assert error["code"] == "queue_timeout"
        assert DONE not in body
        held.finish("first")
        assert (await first).endswith(DONE)
        row = gateway.usage.rows[0]
        assert (row.status, row.http_status) == ("queue_timeout", 200)


async def test_an_engines_refusal_after_the_comments_is_one_event() -> None:
    """Its JSON may be printed over many lines; an event's data may not."""
    pretty = json.dumps({"error": {"message": "no\nnever", "code": 400}}, indent=2).encode()
    slow = asyncio.Event()

    async def refuse(seen: Seen, wire: Wire) -> None:
        await slow.wait()
        await wire.answer(pretty, 400)

    policy = limits(header_hold_s=0.1)
    async with (
        stub(refuse) as server,
        gate(furnished(replica(server.url), policy=policy)) as gateway,
        gateway.stream() as response,
    ):
        parts = response.aiter_bytes()
        assert (await anext(parts)).startswith(b": ")
        slow.set()
        body = b"".join([part async for part in parts])
        frames = [part for part in body.split(b"\n\n") if part and not part.startswith(b":")]
        assert len(frames) == 1
        assert json.loads(frames[0].removeprefix(b"data: ")) == json.loads(pretty)


async def test_plain_calls_get_no_comments() -> None:
    """There is no place for them in JSON: they wait in silence."""
    held = Held()
    policy = limits(header_hold_s=0.05, keepalive_s=0.1)
    async with (
        stub(held) as server,
        gate(furnished(replica(server.url, slots=1), policy=policy)) as gateway,
    ):
        calls = [asyncio.create_task(gateway.chat(name)) for name in ("a", "b")]
        await gateway.until(lambda: gateway.queued == 1)
        await asyncio.sleep(0.6)
        held.finish("a", "b")
        for call in calls:
            assert (await call).json()["object"] == "chat.completion"
