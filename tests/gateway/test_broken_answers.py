"""Answers that break, anywhere and in any way."""

import asyncio
import gzip
import json
import zlib

import pytest

from .answers import FINISHED, in_band_error
from .harness import furnished, gate, replica, unbroken
from .stub import DONE, Answer, Seen, Wire, chat_answer, delta, event, stub

CUT = [delta("hel"), delta("lo")]


async def reset_late(seen: Seen, wire: Wire) -> None:
    await wire.begin_stream()
    for piece in CUT:
        await wire.chunk(piece)
        await asyncio.sleep(0.02)
    wire.reset()


async def hang_up_late(seen: Seen, wire: Wire) -> None:
    await wire.begin_stream()
    await wire.chunk(b"".join(CUT))
    wire.hang_up()


async def end_early(seen: Seen, wire: Wire) -> None:
    await wire.stream(*CUT)


async def end_inside_an_event(seen: Seen, wire: Wire) -> None:
    await wire.stream(*CUT, b'data: {"choices":[{"index":0,"delta":{"content":"x')


async def say_error(seen: Seen, wire: Wire) -> None:
    await wire.stream(*CUT, event({"error": {"message": "out of memory", "code": 500}}), DONE)


async def say_error_flat(seen: Seen, wire: Wire) -> None:
    await wire.stream(*CUT, event({"object": "error", "message": "out of memory"}), DONE)


async def say_error_as_text(seen: Seen, wire: Wire) -> None:
    await wire.stream(*CUT, event({"error": "out of memory", "error_type": "generation"}))


BREAKS = [
    reset_late,
    hang_up_late,
    end_early,
    end_inside_an_event,
    say_error,
    say_error_flat,
    say_error_as_text,
]


@pytest.mark.parametrize("break_off", BREAKS)
async def test_a_stream_that_breaks_ends_in_one_error_frame(break_off: Answer) -> None:
    """After content of an answer that can't go on elsewhere has gone out: one error frame, no
    [DONE], no made-up finish reason, no second attempt, one row with what was delivered."""
    async with (
        stub(break_off) as server,
        stub() as other,
        gate(furnished(replica(server.url, name="a"), replica(other.url, name="b"))) as gateway,
    ):
        body = await gateway.streamed(logprobs=True)
        assert body.startswith(b"".join(CUT))
        error = in_band_error(body)
        assert error["code"] == "upstream_error"
        if "error" in break_off.__name__:
            assert "out of memory" in str(error["message"])
        row = await gateway.row()
        assert (row.status, row.attempts, row.completion_tokens) == ("upstream_error", 1, 2)
        assert not other.seen


async def reset_early(seen: Seen, wire: Wire) -> None:
    wire.reset()


async def hang_up_early(seen: Seen, wire: Wire) -> None:
    wire.hang_up()


async def head_only(seen: Seen, wire: Wire) -> None:
    await wire.begin_stream()
    wire.hang_up()


async def heartbeat_only(seen: Seen, wire: Wire) -> None:
    await wire.begin_stream()
    await wire.chunk(b": ping\n\n")
    await asyncio.sleep(0.05)
    wire.reset()


async def error_first(seen: Seen, wire: Wire) -> None:
    await wire.stream(event({"error": {"message": "no", "code": 500}}))


async def nonsense(seen: Seen, wire: Wire) -> None:
    await wire.send(b"SSH-2.0-OpenSSH_9.2\r\n")
    wire.hang_up()


async def endless_header(seen: Seen, wire: Wire) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        await wire.send(b"x" * 4096)


async def short_body(seen: Seen, wire: Wire) -> None:
    await wire.head(200, ("Content-Type", "application/json"), ("Content-Length", "500"))
    await wire.send(b'{"choices"')
    wire.hang_up()


async def bad_gzip(seen: Seen, wire: Wire) -> None:
    await wire.answer(b"this is no gzip", 200, ("Content-Encoding", "gzip"))


async def cut_gzip(seen: Seen, wire: Wire) -> None:
    whole = gzip.compress(json.dumps(chat_answer()).encode())
    await wire.answer(whole[:-12], 200, ("Content-Encoding", "gzip"))


async def gzip_bomb(seen: Seen, wire: Wire) -> None:
    squeeze = zlib.compressobj(wbits=31)
    body = b"".join([squeeze.compress(bytes(1 << 20)) for _ in range(70)]) + squeeze.flush()
    await wire.answer(body, 200, ("Content-Encoding", "gzip"))


FAILURES = [
    reset_early,
    hang_up_early,
    head_only,
    heartbeat_only,
    error_first,
    nonsense,
    endless_header,
    short_body,
    bad_gzip,
    cut_gzip,
    gzip_bomb,
]


@pytest.mark.parametrize("fail", FAILURES)
@pytest.mark.parametrize("engine", ["vllm", "llamacpp"])
async def test_a_failure_before_the_first_content_byte_is_healed_elsewhere(
    fail: Answer, engine: str
) -> None:
    """Whatever the replica did wrong, the caller sees the other's answer and nothing else."""
    async with (
        stub(fail) as bad,
        stub() as good,
        gate(
            furnished(
                replica(bad.url, name="a", engine=engine),
                replica(good.url, name="b", engine=engine),
            )
        ) as gateway,
    ):
        assert await gateway.streamed() == FINISHED
        assert (await gateway.chat()).json()["choices"][0]["message"]["content"] in (
            "hello",
            "hel" + "lo",
        )
        rows = await gateway.rows(2)
        assert {row.status for row in rows} == {"ok"}
        assert {row.completion_tokens for row in rows} == {3}
        assert len(bad.seen) >= 1


@pytest.mark.parametrize("fail", FAILURES)
async def test_a_failure_with_nowhere_else_to_go_is_one_clean_error(fail: Answer) -> None:
    """A whole 502 in OpenAI's shape, nothing charged, at once."""
    async with (
        stub(fail) as server,
        gate(furnished(replica(server.url))) as gateway,
    ):
        for stream in (False, True):
            call = asyncio.create_task(gateway.chat(stream=stream))
            await gateway.until(call.done)
            response = await call
            assert response.status_code in (502, 503)
            assert response.json()["error"]["code"] in ("upstream_error", "no_capacity")
        for row in await gateway.rows(2):
            assert (row.prompt_tokens, row.completion_tokens) == (0, 0)
            assert row.status in ("upstream_error", "refused")


@pytest.mark.parametrize("form", ["plain", "stream"])
async def test_an_answer_cut_at_any_byte_ends_cleanly(form: str) -> None:
    """Every prefix of a whole answer, then a hang-up: the caller gets a complete answer, or an
    error, and there is one row each."""
    body = json.dumps(chat_answer()).encode()
    if form == "plain":
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        whole = head % len(body) + body
    else:
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(e), e) for e in FINISHED.splitlines(keepends=True))
        kind = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        whole = kind + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    cut = 0

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.send(whole[:cut])
        wire.hang_up()

    async with (
        stub(answer) as server,
        gate(furnished(replica(server.url), policy=unbroken())) as gateway,
    ):
        cuts = range(0, len(whole), 3)
        for cut in cuts:  # noqa: B007 - read by the stub
            # A replica that closes without an answer is suspect: have it back at once.
            gateway.runtime.health._report(gateway.runtime.health.watches["r1"])
            response = await gateway.chat(stream=form == "stream")
            complete = response.content == (FINISHED if form == "stream" else body)
            if not complete:
                assert b'"error"' in response.content
                assert b"[DONE]" not in response.content
        rows = await gateway.rows(len(cuts))
        assert {row.status for row in rows} <= {"ok", "upstream_error"}
