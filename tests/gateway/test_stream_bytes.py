"""What a stream's bytes may look like, and that callers get them as they were sent."""

import asyncio
import json

import pytest

from .harness import KEY, chat_body, furnished, gate, replica
from .process import PeakMemory
from .stub import (
    DONE,
    Seen,
    Wire,
    chat_answer,
    delta,
    event,
    stub,
    usage_event,
)

MIB = 1024 * 1024
ANSWER = "你好,世界 🌍 naïve \\u4f60 👩‍👩‍👧"


def crlf(events: bytes) -> bytes:
    return events.replace(b"\n", b"\r\n")


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
async def test_a05_an_answer_cut_at_every_byte_arrives_byte_for_byte(ending: bytes) -> None:
    """A05: characters, separators and field names may all be cut by a packet's edge."""
    whole = b"".join([delta(ANSWER), delta("!"), delta(None, finish="stop"), usage_event(11, 5)])
    whole = (whole + DONE).replace(b"\n", ending)

    async def drip(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        for index in range(len(whole)):
            await wire.chunk(whole[index : index + 1])
            await asyncio.sleep(0)
        await wire.end_stream()

    async with stub(drip) as server, gate(furnished(replica(server.url))) as gateway:
        received = await gateway.streamed(stream_options={"include_usage": True})
        assert received == whole
        row = await gateway.row()
        assert (row.status, row.prompt_tokens, row.completion_tokens) == ("ok", 11, 5)
        assert not row.estimated


@pytest.mark.parametrize("cut", range(1, 5))
async def test_a05_separators_cut_anywhere_end_an_event_once(cut: int) -> None:
    """A05: a cut inside CR LF CR LF, and inside ``data:`` of the next event."""
    first, second = crlf(delta("a")), crlf(delta("b") + usage_event() + DONE)
    seam = len(first) - 4

    async def halves(seen: Seen, wire: Wire) -> None:
        whole = first + second
        await wire.begin_stream()
        for part in (whole[: seam + cut], whole[seam + cut : seam + 6], whole[seam + 6 :]):
            await wire.chunk(part)
            await asyncio.sleep(0.01)
        await wire.end_stream()

    async with stub(halves) as server, gate(furnished(replica(server.url))) as gateway:
        received = await gateway.streamed(stream_options={"include_usage": True})
        assert received == first + second
        assert (await gateway.row()).completion_tokens == 3


async def send_usage_when_asked(seen: Seen, wire: Wire) -> None:
    """As engines do that follow OpenAI: the extra frame only where it was asked for."""
    options = seen.json.get("stream_options")
    assert isinstance(options, dict)
    assert options["include_usage"] is True
    await wire.stream(delta("a"), delta(None, finish="stop"), usage_event(20, 4), DONE)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, False),
        ({"stream_options": None}, False),
        ({"stream_options": {}}, False),
        ({"stream_options": {"include_usage": None}}, False),
        ({"stream_options": {"include_usage": False}}, False),
        ({"stream_options": {"include_usage": True}}, True),
    ],
)
async def test_a07_usage_is_metered_always_and_shown_on_request(
    options: dict[str, object], shown: bool
) -> None:
    """A07: the usage-only frame reaches only those who asked, and them once."""
    async with (
        stub(send_usage_when_asked) as server,
        gate(furnished(replica(server.url))) as gateway,
    ):
        received = await gateway.streamed("hello", key=KEY, **options)
        frames = [frame for frame in received.split(b"\n\n") if frame]
        only_usage = [frame for frame in frames if b'"choices": []' in frame]
        assert len(only_usage) == (1 if shown else 0)
        assert frames[-1] == b"data: [DONE]"
        assert len(frames) == (4 if shown else 3)
        row = await gateway.row()
        assert (row.prompt_tokens, row.completion_tokens, row.estimated) == (20, 4, False)


async def test_a07_other_stream_options_pass_untouched() -> None:
    """A07: only ``include_usage`` is ours; a number that no float holds stays as it is."""
    given = b'{"continuous_usage_stats":true,"x":1e400,"include_usage":false,"n":%d}' % 10**30
    body = b'{"model":"chat","messages":[],"stream":true,"stream_options":%s}' % given
    async with (
        stub(send_usage_when_asked) as server,
        gate(furnished(replica(server.url))) as gateway,
        gateway.raw() as client,
    ):
        await client.post(KEY, body)
        assert (await client.answer()).status == 200
        sent = server.seen[0].body
        assert b'"continuous_usage_stats":true' in sent
        assert b'"x":1e400' in sent
        assert b'"n":%d' % 10**30 in sent
        assert sent.count(b'"include_usage"') == 1


async def test_a10_an_event_of_a_mebibyte_is_forwarded_whole() -> None:
    """A10: no line limit below the documented one; usage behind the long line is found."""
    long = delta("x" * MIB)

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.stream(delta("a"), long, delta(None, finish="stop"), usage_event(9, 8), DONE)

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        received = await gateway.streamed()
        assert long in received
        assert received.endswith(DONE)
        row = await gateway.row()
        assert (row.status, row.completion_tokens) == ("ok", 8)


async def endless_line(wire: Wire, size: int) -> None:
    await wire.chunk(b'data: {"choices":[{"index":0,"delta":{"content":"')
    block = b"x" * 65536
    for _ in range(size // len(block)):
        await wire.chunk(block)
    await wire.chunk(b'"}}]}\n\n')


@pytest.mark.parametrize("first", [True, False], ids=["first event", "later event"])
@pytest.mark.parametrize("plain", [True, False], ids=["plain", "stream"])
async def test_a10_an_event_past_the_cap_ends_in_an_explicit_error(
    first: bool, plain: bool
) -> None:
    """A10: 64 MiB on one line: the caller is told, the replica's connection is closed, and
    memory stays bounded. The plain call goes through an engine that is always streamed."""
    sent_whole = False

    async def answer(seen: Seen, wire: Wire) -> None:
        nonlocal sent_whole
        await wire.begin_stream()
        if not first:
            await wire.chunk(delta("a"))
        await endless_line(wire, 64 * MIB)
        sent_whole = True

    engine = "llamacpp" if plain else "vllm"
    async with (
        stub(answer) as server,
        gate(furnished(replica(server.url, engine=engine))) as gateway,
    ):
        memory = PeakMemory()
        async with gateway.raw() as client:
            await client.post(KEY, chat_body(stream=not plain))
            response = await client.answer()
        if first or plain:
            assert response.status == 502
            assert response.error["code"] == "upstream_error"
        else:
            assert response.status == 200
            last = response.body.split(b"\n\n")[-2]
            error = json.loads(last.removeprefix(b"data: "))["error"]
            assert error["code"] == "upstream_error"
            assert "too long" in error["message"]
            assert DONE not in response.body
        assert memory.grown < 40 * MIB
        await gateway.until(server.seen[0].closed.is_set)
        assert not sent_whole
        assert (await gateway.row()).status == "upstream_error"


def tool_call(**fields: object) -> bytes:
    choice = {"index": 0, "delta": {"tool_calls": [fields]}, "finish_reason": None}
    return event({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})


SAME_INDEX = [
    tool_call(index=0, id="call_a", type="function", function={"name": "f", "arguments": ""}),
    tool_call(index=0, function={"arguments": '{"a":'}),
    tool_call(index=0, function={"arguments": "1}"}),
    tool_call(index=0, id="call_b", type="function", function={"name": "g", "arguments": ""}),
    tool_call(index=0, function={"arguments": '{"b":2}'}),
]
NO_INDEX = [
    tool_call(id="call_a", function={"name": "f", "arguments": '{"a":'}),
    tool_call(function={"arguments": "1}"}),
    tool_call(id="call_b", function={"name": "g", "arguments": '{"b":2}'}),
]
ID_FIRST_ONLY = [
    tool_call(index=0, id="call_a", function={"name": "f", "arguments": '{"a":'}),
    tool_call(index=0, function={"arguments": "1}"}),
    tool_call(index=1, id="call_b", function={"name": "g", "arguments": '{"b":'}),
    tool_call(index=1, function={"arguments": "2}"}),
]
TOOL_CALLS = pytest.mark.parametrize(
    "events", [SAME_INDEX, NO_INDEX, ID_FIRST_ONLY], ids=["same index", "no index", "id once"]
)


@TOOL_CALLS
async def test_a11_tool_call_fragments_pass_byte_for_byte(events: list[bytes]) -> None:
    """A11: nothing is rebuilt, renumbered or added."""
    whole = [*events, delta(None, finish="tool_calls"), usage_event(), DONE]

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.stream(*whole)

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        received = await gateway.streamed(stream_options={"include_usage": True})
        assert received == b"".join(whole)


@TOOL_CALLS
async def test_a11_a_plain_answer_put_together_keeps_two_calls_apart(events: list[bytes]) -> None:
    """A11, where the gateway must rebuild: an engine that is streamed for a plain call."""

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.stream(*events, delta(None, finish="tool_calls"), usage_event(), DONE)

    async with (
        stub(answer) as server,
        gate(furnished(replica(server.url, engine="llamacpp"))) as gateway,
    ):
        response = await gateway.chat()
        choice = response.json()["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        calls = choice["message"]["tool_calls"]
        assert [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in calls
        ] == [("call_a", "f", {"a": 1}), ("call_b", "g", {"b": 2})]


@pytest.mark.parametrize(
    "closing",
    [
        (DONE[:-1],),
        (DONE[:-2],),
        (delta(None, finish="stop"),),
        (delta(None, finish="stop"), b": bye\n\n"),
        (delta(None, finish="stop"), usage_event()),
        (delta(None, finish="stop"), usage_event()[:-1]),
    ],
    ids=["DONE, one LF", "DONE, no LF", "finish", "finish, comment", "usage", "usage, one LF"],
)
async def test_a_stream_may_end_without_done_or_its_last_line_end(
    closing: tuple[bytes, ...],
) -> None:
    """An answer that came to its end is no failure, however the engine ends the stream."""

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.stream(delta("a"), *closing)

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        received = await gateway.streamed(stream_options={"include_usage": True})
        assert received.rstrip() == b"".join([delta("a"), *closing]).rstrip()
        assert b"error" not in received
        assert (await gateway.row()).status == "ok"


async def test_a_slow_reader_bounds_what_is_read_from_the_replica() -> None:
    """Backpressure goes through: a caller that stops reading makes nobody hoard its answer."""
    sent = 0

    async def flood(seen: Seen, wire: Wire) -> None:
        nonlocal sent
        await wire.begin_stream()
        block = delta("x" * 65000)
        while True:
            await wire.chunk(block)
            sent += len(block)

    async with stub(flood) as server, gate(furnished(replica(server.url))) as gateway:
        memory = PeakMemory()
        async with gateway.raw() as client:
            await client.post(KEY, chat_body(stream=True))
            await client.until(b"\r\n\r\n")
            transport = client.writer.transport
            assert isinstance(transport, asyncio.Transport)
            transport.pause_reading()
            before = -1
            while sent > before:
                before = sent
                await asyncio.sleep(0.2)
            assert sent < 32 * MIB
            assert memory.grown < 32 * MIB
            client.reset()
            await gateway.until(server.seen[0].closed.is_set)
        assert (await gateway.row()).status == "client_disconnect"


async def test_an_engine_that_answers_plainly_all_the_same_is_passed_on() -> None:
    """An engine that ignores ``stream`` sends one JSON object: the caller gets that."""

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.json(chat_answer())

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        received = await gateway.streamed()
        assert json.loads(received) == chat_answer()
        assert (await gateway.row()).completion_tokens == 3
