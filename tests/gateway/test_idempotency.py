"""Calls that are repeated: charged each time, or once where they carry an ``Idempotency-Key``."""

import asyncio
from pathlib import Path

import httpx
import pytest

from scheduler.answers import DAY_NS, AnswerFiles
from scheduler.gateway.recording import MOST_KEPT_BYTES, Recording
from scheduler.testing import ManualClock, Memory, MemoryAnswers

from .harness import LOW_KEY, Gate, chat_body, gate
from .raw import CHAT
from .stub import Held, Seen, Stub, Wire, delta, polite

SAME = {"idempotency-key": "order-17"}
BODIES: dict[str, dict[str, object]] = {
    CHAT: chat_body(),
    "/v1/completions": {"model": "chat", "prompt": "hello"},
    "/v1/embeddings": {"model": "chat", "input": "hello"},
}


async def again(running: Gate, path: str = CHAT, **more: object) -> httpx.Response:
    """One call with the key."""
    headers = {**running.headers(), **SAME}
    return await running.client.post(path, json={**BODIES[path], **more}, headers=headers)


async def test_a_repeated_request_id_is_charged_each_time(running: Gate, engine: Stub) -> None:
    for _ in range(2):
        answer = await running.chat(headers={"x-request-id": "mine"})
        assert answer.headers["x-client-request-id"] == "mine"
    rows = await running.rows(2)
    assert rows[0].id != rows[1].id
    assert {(row.client_request_id, row.prompt_tokens) for row in rows} == {("mine", 7)}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("streamed", [False, True])
async def test_e05_a_repeated_key_is_charged_once(
    running: Gate, engine: Stub, path: str, streamed: bool
) -> None:
    more: dict[str, object] = {"stream": True} if streamed and path != "/v1/embeddings" else {}
    first = await again(running, path, **more)
    headers = {**running.headers(), **SAME, "x-request-id": "second"}
    body = {**BODIES[path], **more}
    second = await running.client.post(path, json=body, headers=headers)
    assert first.status_code == second.status_code == 200
    assert second.content == first.content
    for name in ("x-request-id", "content-type", "x-replica", "x-lane"):
        assert second.headers[name] == first.headers[name]
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["x-client-request-id"] == "second"
    assert (await running.row()).id == first.headers["x-request-id"]
    assert len(engine.seen) == 1


async def test_two_businesses_with_the_same_value_never_meet(running: Gate, engine: Stub) -> None:
    answers = [await running.chat(headers=SAME), await running.chat(key=LOW_KEY, headers=SAME)]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 2
    assert {row.business for row in await running.rows(2)} == {"owner", "low"}
    assert len(engine.seen) == 2


@pytest.mark.parametrize("streamed", [False, True])
async def test_those_that_come_while_the_first_runs_hear_what_it_hears(
    running: Gate, engine: Stub, streamed: bool
) -> None:
    held = engine.answer = Held()
    calls = [asyncio.create_task(again(running, stream=streamed)) for _ in range(6)]
    await running.until(lambda: held.order)
    late = asyncio.create_task(again(running, stream=streamed))
    held.finish("hello")
    answers = await asyncio.gather(*calls, late)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotent-replayed" in answer.headers for answer in answers) == 6
    await running.row()
    assert len(engine.seen) == 1


async def test_who_lost_the_connection_gets_the_answer_all_the_same(
    running: Gate, engine: Stub
) -> None:
    held = engine.answer = Held()
    headers = {**SAME, **running.headers()}
    body = chat_body(stream=True)
    async with running.client.stream("POST", CHAT, json=body, headers=headers) as answer:
        assert b"<hello" in await anext(answer.aiter_bytes())
    held.finish("hello")
    row = await running.row()
    assert (row.status, row.completion_tokens) == ("ok", 3)
    second = await again(running, stream=True)
    assert second.headers["x-request-id"] == row.id
    assert second.content.endswith(b"data: [DONE]\n\n")
    await running.row()


async def test_a_failure_is_not_repeated(running: Gate, engine: Stub) -> None:
    async def cut(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(delta("a", finish=None).replace(b'"content"', b'"tool_calls"'))
        wire.reset()

    engine.answer = cut
    failed = await again(running, stream=True)
    assert b"[DONE]" not in failed.content
    engine.answer = polite
    assert (await again(running, stream=True)).content.endswith(b"data: [DONE]\n\n")
    assert (await again(running, stream=True)).headers["idempotent-replayed"] == "true"
    rows = await running.rows(2)
    assert rows[0].status != "ok"
    assert rows[0].id != rows[1].id


async def test_another_request_under_the_same_key_is_refused(running: Gate) -> None:
    await again(running)
    other = await again(running, temperature=1)
    assert (other.status_code, other.json()["error"]["param"]) == (400, "Idempotency-Key")
    path = "/v1/completions"
    assert (await again(running, path)).status_code == 400
    rows = await running.rows(3)
    assert [row.reason for row in rows] == ["", "invalid_request", "invalid_request"]


async def test_a_body_that_cannot_be_had_has_its_row_too(running: Gate) -> None:
    headers = {**running.headers(), **SAME}
    long = await running.client.post(CHAT, content=b"x" * (1 << 21), headers=headers)
    assert long.status_code == 413
    packed = {**headers, "content-encoding": "gzip"}
    assert (await running.client.post(CHAT, content=b"x", headers=packed)).status_code == 415
    assert {row.http_status for row in await running.rows(2)} == {413, 415}
    assert running.runtime.gateway.bodies.held == 0


async def test_good_for_a_day_and_over_a_restart(
    memory: Memory, engine: Stub, tmp_path: Path
) -> None:
    clock, files = ManualClock(), AnswerFiles(tmp_path)
    async with gate(memory, clock=clock, answers=files) as running:
        first = await again(running)
    clock.advance(86_399)
    async with gate(memory, clock=clock, answers=AnswerFiles(tmp_path)) as running:
        second = await again(running)
        assert second.content == first.content
        assert second.headers["x-request-id"] == first.headers["x-request-id"]
        assert not running.usage.rows
        clock.advance(1)
    async with gate(memory, clock=clock, answers=AnswerFiles(tmp_path)) as running:
        assert (await again(running)).headers["x-request-id"] != first.headers["x-request-id"]
        await running.row()


async def test_after_a_crash_in_its_midst_it_is_made_again_in_the_same_row(
    memory: Memory, engine: Stub
) -> None:
    """What a process that died had begun is charged in the row that it may have written."""
    answers = MemoryAnswers()
    held = engine.answer = Held()
    async with gate(memory, answers=answers) as running:
        call = asyncio.create_task(again(running))
        await running.until(lambda: held.order)
        left = dict(answers.kept)
        held.finish("hello")
        first = await call
    assert len(left) == 1
    answers.kept = left
    async with gate(memory, answers=answers) as running:
        second = await again(running)
        assert "idempotent-replayed" not in second.headers
        assert second.headers["x-request-id"] == first.headers["x-request-id"]
        assert (await running.row()).id == first.headers["x-request-id"]


async def test_without_a_disk_it_is_served_all_the_same(memory: Memory, engine: Stub) -> None:
    async with gate(memory, answers=MemoryAnswers(away=True)) as running:
        assert (await again(running)).status_code == 200
        # It is at hand for some seconds.
        assert (await again(running)).headers["idempotent-replayed"] == "true"
        await running.row()


def test_files_are_the_owner_s_own_and_go_in_time(tmp_path: Path) -> None:
    files = AnswerFiles(tmp_path / "answers", most_bytes=250)
    names = [bytes([number]) * 32 for number in range(4)]
    for number, name in enumerate(names):
        files.keep(name, b"%d" % number * 100, number)
    kept = next(path for path in (tmp_path / "answers").rglob("*") if path.is_file())
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    files.keep(names[3], b"new", 3)
    assert files.find(names[3], 4) == b"new"
    files.sweep(4)
    assert [files.find(name, 4) is not None for name in names] == [False, True, True, True]
    assert files.find(names[1], DAY_NS + 1) is None
    files.sweep(DAY_NS + 2)
    files.drop(names[3])
    files.drop(names[3])
    assert [path for path in (tmp_path / "answers").rglob("*") if path.is_file()] == []


async def test_what_is_too_long_is_given_and_not_kept() -> None:
    recording = Recording("r", b"")
    await recording.send({"type": "http.response.start", "status": 200, "headers": []})
    part = b"x" * (MOST_KEPT_BYTES // 2 + 1)
    seen: list[object] = []

    async def send(message: object) -> None:
        seen.append(message)

    following = asyncio.create_task(recording.follow(send))
    for more in (True, False):
        body = {"type": "http.response.body", "body": part, "more_body": more}
        await recording.send(body)
    await following
    assert len(seen) == 4
    assert recording.answer() is None
