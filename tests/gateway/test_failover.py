"""Replicas that are away, busy, broken or silent, and what callers see of it."""

import asyncio
import gzip
import json
import time
import zlib
from dataclasses import replace

import pytest

from .harness import KEY, Gate, chat_body, free_port, furnished, gate, limits, replica
from .stub import (
    DONE,
    Held,
    Seen,
    Wire,
    chat_answer,
    delta,
    event,
    polite,
    stub,
)

FINISHED = [delta("hel"), delta("lo"), delta(None, finish="stop"), DONE]


def states(gateway: Gate) -> dict[str, str]:
    """Replicas' states by name."""
    return {name: watch.state for name, watch in gateway.runtime.health.watches.items()}


def in_band_error(body: bytes) -> dict[str, object]:
    """The error in a stream's last frame: nothing after it, no [DONE], no finish reason."""
    assert DONE not in body
    assert b'"finish_reason": "' not in body
    frames = [frame for frame in body.split(b"\n\n") if frame]
    assert [b'"error"' in frame for frame in frames].count(True) == 1
    found: dict[str, object] = json.loads(frames[-1].removeprefix(b"data: "))["error"]
    assert found.keys() == {"message", "type", "param", "code"}
    return found


async def test_a_replica_that_refuses_connections_is_out_and_comes_back() -> None:
    """Out within 5 s of its death, without a request's help; back when it answers."""
    port = free_port()
    facts = replica(f"http://127.0.0.1:{port}")
    async with gate(furnished(facts)) as gateway:
        assert states(gateway) == {"r1": "down"}
        response = await gateway.chat()
        assert response.status_code == 503
        assert response.headers["x-fairlane-reason"] == "no_capacity"
        async with stub(port=port):
            await gateway.until(lambda: states(gateway)["r1"] == "ready", within=5)
            assert (await gateway.chat()).status_code == 200
        await gateway.until(lambda: states(gateway)["r1"] == "down", within=5)


@pytest.mark.parametrize("say", ["503", "silence", "hang-up"])
async def test_a_replica_that_is_not_well_is_out_within_5_seconds(say: str) -> None:
    """Listening is not enough: it must say that it is ready, and in time."""

    async def unwell(seen: Seen, wire: Wire) -> None:
        if say == "503":
            await wire.json({"status": "loading model"}, 503)
        elif say == "hang-up":
            wire.hang_up()
        else:
            await wire.head(200, ("Transfer-Encoding", "chunked"))
            while True:
                # An answer that never ends must not keep the probe waiting either.
                await wire.chunk(b" ")
                await asyncio.sleep(0.2)

    async with stub() as server, gate(furnished(replica(server.url))) as gateway:
        assert states(gateway) == {"r1": "ready"}
        well, server.health = server.health, unwell
        await gateway.until(lambda: states(gateway)["r1"] == "down", within=5)
        server.health = well
        await gateway.until(lambda: states(gateway)["r1"] == "ready", within=5)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_request_with_no_byte_sent_moves_to_another_replica(stream: bool) -> None:
    """The first replica dies between two probes: the caller sees one clean answer, and there
    is one usage row."""
    async with (
        stub() as alive,
        stub() as dying,
        gate(furnished(replica(alive.url, name="b"), replica(dying.url, name="a"))) as gateway,
    ):
        dead = free_port()
        # As a crash between two probes: the port is closed, and nobody has noticed yet.
        facts = replica(f"http://127.0.0.1:{dead}", name="a")
        pool = gateway.memory.pools["pool"]
        watch = gateway.runtime.health.watches["a"]
        watch.facts = facts
        gateway.runtime.health._report(watch)
        if stream:
            assert await gateway.streamed() == b"".join(FINISHED)
        else:
            assert (await gateway.chat()).json() == chat_answer()
        row = await gateway.row()
        assert (row.status, row.attempts, row.replica) == ("ok", 2, "b")
        assert pool.name == "pool"
        assert len(alive.seen) == 1
        await gateway.until(lambda: states(gateway)["a"] == "down", within=1)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_engine_costs_an_attempt_elsewhere_and_no_trust(status: int) -> None:
    """429 and 503 from an engine mean busy: another replica serves, none is taken out."""

    async def busy(seen: Seen, wire: Wire) -> None:
        await wire.json({"error": {"message": "busy", "type": "x", "code": status}}, status)

    async with (
        stub(busy) as full,
        stub() as free,
        gate(furnished(replica(full.url, name="a"), replica(free.url, name="b"))) as gateway,
    ):
        assert await gateway.streamed() == b"".join(FINISHED)
        row = await gateway.row()
        assert (row.status, row.replica) == ("ok", "b")
        assert states(gateway) == {"a": "ready", "b": "ready"}
        # The busy one is left alone for a moment, and asked again later.
        full.answer = polite
        await gateway.until(lambda: not gateway.queued)
        while len(full.seen) < 2:
            assert (await gateway.chat()).status_code == 200
            assert len(gateway.usage.rows) < 2000


async def test_an_engine_that_is_busy_alone_makes_callers_wait_not_fail() -> None:
    """With one replica, busy means later: the request stays and is served."""
    times = 0

    async def busy_twice(seen: Seen, wire: Wire) -> None:
        nonlocal times
        times += 1
        await (wire.json({}, 503) if times < 3 else wire.json(chat_answer()))

    async with stub(busy_twice) as server, gate(furnished(replica(server.url))) as gateway:
        assert (await gateway.chat()).status_code == 200
        assert (await gateway.row()).attempts == 3


async def test_an_engine_error_moves_on_and_is_not_made_public() -> None:
    """A 5xx before any content: another replica answers; its own words stay inside."""

    async def broken(seen: Seen, wire: Wire) -> None:
        await wire.json({"error": {"message": "CUDA error at /srv/models/org", "code": 500}}, 500)

    async with (
        stub(broken) as bad,
        stub() as good,
        gate(furnished(replica(bad.url, name="a"), replica(good.url, name="b"))) as gateway,
    ):
        assert (await gateway.chat()).status_code == 200
        good.answer = broken
        response = await gateway.chat()
        assert response.status_code == 502
        assert response.headers["x-fairlane-reason"] == "upstream_error"
        assert "CUDA" not in response.text
        served, failed = await gateway.rows(2)
        assert (served.status, served.replica, served.attempts) == ("ok", "b", 2)
        assert (failed.status, failed.completion_tokens) == ("upstream_error", 0)


async def test_other_answers_of_an_engine_are_a_failure_of_the_gateways_side() -> None:
    """The caller can do nothing about them: 502, and none of the engine's own words."""
    status = 0

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.answer(b"secret words", status, ("Location", "http://127.0.0.1:9/"))

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        statuses = (201, 204, 301, 302, 307, 401, 403, 404, 405, 418, 500, 501, 599)
        for status in statuses:  # noqa: B007 - read by the stub
            response = await gateway.chat()
            assert response.status_code == 502
            assert response.json()["error"]["code"] == "upstream_error"
            assert "secret" not in response.text
        assert len(server.seen) == len(statuses)


REFUSALS = [
    (b'{"error":{"message":"no","type":"t","param":null,"code":400}}', "no"),
    (b'{"object":"error","message":"no","type":"t","code":400}', "no"),
    (b'{"detail":"no"}', "no"),
    (b'{"error":"no","error_type":"validation"}', "no"),
    (b'{"detail":[{"loc":["body"],"msg":"no"}]}', '[{"loc":["body"],"msg":"no"}]'),
    (b"<html>no</html>", "The model server refused the request."),
    (b"", "The model server refused the request."),
]


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_an_engines_refusal_is_passed_on_in_one_shape(status: int) -> None:
    """The caller's own fault as the engine sees it: its status, its words, no retry."""
    body = b""

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.answer(body, status)

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        for body, message in REFUSALS:  # noqa: B007 - read by the stub
            for stream in (False, True):
                response = await gateway.chat(stream=stream)
                assert response.status_code == status
                assert response.json()["error"]["message"] == message
                assert response.headers["content-type"] == "application/json"
        count = 2 * len(REFUSALS)
        assert len(server.seen) == count
        rows = await gateway.rows(count)
        assert {(row.status, row.http_status) for row in rows} == {("client_error", status)}
        assert states(gateway) == {"r1": "ready"}


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
async def test_a_stream_that_breaks_ends_in_one_error_frame(break_off: Wire) -> None:
    """After content has gone out: one error frame, no [DONE], no made-up finish reason, no
    second attempt, one row with what was delivered."""
    async with (
        stub(break_off) as server,  # type: ignore[arg-type]
        stub() as other,
        gate(furnished(replica(server.url, name="a"), replica(other.url, name="b"))) as gateway,
    ):
        body = await gateway.streamed()
        assert body.startswith(b"".join(CUT))
        error = in_band_error(body)
        assert error["code"] == "upstream_error"
        if "error" in break_off.__name__:  # type: ignore[attr-defined]
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
    fail: Wire, engine: str
) -> None:
    """Whatever the replica did wrong, the caller sees the other's answer and nothing else."""
    async with (
        stub(fail) as bad,  # type: ignore[arg-type]
        stub() as good,
        gate(
            furnished(
                replica(bad.url, name="a", engine=engine),
                replica(good.url, name="b", engine=engine),
            )
        ) as gateway,
    ):
        assert await gateway.streamed() == b"".join(FINISHED)
        assert (await gateway.chat()).json()["choices"][0]["message"]["content"] in (
            "hello",
            "hel" + "lo",
        )
        rows = await gateway.rows(2)
        assert {row.status for row in rows} == {"ok"}
        assert {row.completion_tokens for row in rows} == {3}
        assert len(bad.seen) >= 1


@pytest.mark.parametrize("fail", FAILURES)
async def test_a_failure_with_nowhere_else_to_go_is_one_clean_error(fail: Wire) -> None:
    """A whole 502 in OpenAI's shape, nothing charged, at once."""
    async with (
        stub(fail) as server,  # type: ignore[arg-type]
        gate(furnished(replica(server.url))) as gateway,
    ):
        for stream in (False, True):
            call = asyncio.create_task(gateway.chat(stream=stream))
            await gateway.until(call.done, within=5)
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
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(e), e) for e in (*FINISHED[:2], *FINISHED[2:]))
        kind = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        whole = kind + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    cut = 0

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.send(whole[:cut])
        wire.hang_up()

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        cuts = range(0, len(whole), 3)
        for cut in cuts:  # noqa: B007 - read by the stub
            # A replica that closes without an answer is suspect: have it back at once.
            gateway.runtime.health._report(gateway.runtime.health.watches["r1"])
            response = await gateway.chat(stream=form == "stream")
            complete = response.content == (b"".join(FINISHED) if form == "stream" else body)
            if not complete:
                assert b'"error"' in response.content
                assert b"[DONE]" not in response.content
        rows = await gateway.rows(len(cuts))
        assert {row.status for row in rows} <= {"ok", "upstream_error"}


async def test_a_connection_that_the_replica_closed_meanwhile_costs_no_request() -> None:
    """Servers close kept connections without a word: before any answer, that is no failure."""

    async def close_after(seen: Seen, wire: Wire) -> None:
        await wire.json(chat_answer())
        if len(server.seen) % 2 == 0:
            # The next request on this connection meets the close, as in any such race.
            server.answer = close_next

    async def close_next(seen: Seen, wire: Wire) -> None:
        server.answer = close_after
        wire.hang_up()

    async with stub(close_after) as server, gate(furnished(replica(server.url))) as gateway:
        for _ in range(10):
            assert (await gateway.chat()).status_code == 200
        assert states(gateway) == {"r1": "ready"}
        assert {row.attempts for row in await gateway.rows(10)} == {1}
        assert len(server.seen) > 10


async def test_a_new_connection_that_breaks_is_not_tried_again_in_silence() -> None:
    """Only a kept connection may have been closed before the request: on a new one, the
    engine had it, and may die of it again."""

    async def crash(seen: Seen, wire: Wire) -> None:
        wire.hang_up()

    async with stub(crash) as server, gate(furnished(replica(server.url))) as gateway:
        assert (await gateway.chat()).status_code == 502
        assert len(server.seen) == 1


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
        await gateway.until(server.seen[0].closed.is_set, within=1)
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
        await gateway.until(server.seen[0].closed.is_set, within=1)
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

    policy = limits(idle_ms=600, first_byte_ms=600)
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
        await gateway.until(server.seen[0].closed.is_set, within=1)


async def test_usage_of_a_failed_attempt_is_nobodys_debt() -> None:
    """What the first engine reported before it failed is not charged with the second's."""

    async def report_and_fail(seen: Seen, wire: Wire) -> None:
        broken = event({"choices": [], "usage": {"prompt_tokens": 99999, "completion_tokens": 1}})
        if seen.json.get("stream"):
            await wire.stream(broken, event({"error": {"message": "no"}}))
        else:
            await wire.json({"usage": {"prompt_tokens": 99999}}, 500)

    async with (
        stub(report_and_fail) as bad,
        stub() as good,
        gate(furnished(replica(bad.url, name="a"), replica(good.url, name="b"))) as gateway,
    ):
        await gateway.streamed()
        await gateway.chat()
        assert {row.prompt_tokens for row in await gateway.rows(2)} == {7}
        good.answer = report_and_fail
        assert (await gateway.chat()).status_code == 502
        assert gateway.usage.rows[2].prompt_tokens == 0
