"""Replicas that are away, busy or failing: another serves, or one clear error comes."""

import asyncio

import pytest

from .answers import FINISHED, states
from .harness import free_port, furnished, gate, replica, unbroken
from .stub import Seen, Wire, chat_answer, event, polite, stub


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
            await gateway.until(lambda: states(gateway)["r1"] == "ready")
            assert (await gateway.chat()).status_code == 200
        await gateway.until(lambda: states(gateway)["r1"] == "down")


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
        await gateway.until(lambda: states(gateway)["r1"] == "down")
        server.health = well
        await gateway.until(lambda: states(gateway)["r1"] == "ready")


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
        calls = attempts = 0
        while attempts < 2:
            # Between equals chance decides whose turn it is.
            calls += 1
            if stream:
                assert await gateway.streamed() == FINISHED
            else:
                assert (await gateway.chat()).json() == chat_answer()
            row = (await gateway.rows(calls))[-1]
            assert (row.status, row.replica) == ("ok", "b")
            attempts = row.attempts
        assert attempts == 2
        assert pool.name == "pool"
        assert len(alive.seen) == calls
        # The call has taken it out; its probes, which know no better, take it back.
        told = [row.reason for row in gateway.decisions.rows if row.replica == "a" and row.reason]
        assert "down" in told


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
        assert await gateway.streamed() == FINISHED
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

    async with (
        stub(answer) as server,
        gate(furnished(replica(server.url), policy=unbroken())) as gateway,
    ):
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
