"""Requests that are odd rather than wrong, and faults of the gateway's own."""

import asyncio

import httpx
import pytest

from scheduler.testing import Memory

from .harness import KEY, Gate, chat_body
from .stub import Seen, Stub, Wire, polite

COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"


async def test_a_fault_of_the_gateways_own_is_a_clean_500(
    running: Gate, engine: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception nobody foresaw costs its request and no other: a whole answer, a row, and
    everything given back."""

    def fault(*_: object) -> None:
        raise KeyError("unforeseen")

    monkeypatch.setattr("scheduler.gateway.relay.read_plain", fault)
    response = await running.chat()
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal_error"
    assert "unforeseen" not in response.text
    assert (await running.row()).status == "internal_error"
    monkeypatch.undo()
    assert (await running.chat()).status_code == 200


async def test_a_business_that_is_gone_is_nobody(running: Gate, memory: Memory) -> None:
    """A key whose business was deleted: the same 401."""
    del memory.businesses["owner"]
    memory.tell("access")
    await running.until(lambda: running.runtime.gateway.access.version == 1)
    assert (await running.chat()).status_code == 401


async def test_requests_over_one_connection_do_not_mix(running: Gate, engine: Stub) -> None:
    """A refused body, left unread, must not be taken for the next request."""
    smuggled = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n"
    async with running.raw() as client:
        await client.begin("fl_live_wrong", f"Content-Length: {len(smuggled)}")
        await client.send(smuggled)
        assert (await client.answer()).status == 401
        try:
            await client.post(KEY, chat_body())
            answer = await client.answer()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # closed: as good
        else:
            assert answer.status == 200
    assert len(engine.seen) <= 1
    assert len(running.usage.rows) <= 1


async def test_odd_http_is_refused_by_the_server_itself(running: Gate) -> None:
    """Two lengths, a length and chunks, a negative length, a null in a header."""
    for head in (
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: abc\r\n",
        b"Authorization: Bearer \x00\r\n",
    ):
        async with running.raw() as client:
            await client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n")
            line = await client.reader.readline()
            assert line == b"" or line.startswith(b"HTTP/1.1 4")
    assert (await running.chat()).status_code == 200


async def test_a_business_without_a_replica_for_its_model(running: Gate) -> None:
    """503 no_capacity at once, with a time to come back: it may come up."""
    response = await running.chat(model="elsewhere")
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "no_capacity"
    assert int(response.headers["retry-after"]) >= 1
    assert int(response.headers["retry-after-ms"]) >= 1


async def polite_embedding(seen: Seen, wire: Wire) -> None:
    data = [{"object": "embedding", "index": 0, "embedding": [0.25]}]
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    await wire.json({"object": "list", "data": data, "model": "chat", "usage": usage})


async def test_embeddings_and_completions_pass(running: Gate, engine: Stub) -> None:
    """The two other endpoints, with what their rows say."""
    engine.answer = polite_embedding
    headers: httpx.Headers = httpx.Headers(running.headers())
    body: dict[str, object] = {"model": "chat", "input": ["a", "b"], "stream": True}
    response = await running.client.post(EMBEDDINGS, json=body, headers=headers)
    assert response.json()["data"][0]["embedding"] == [0.25]
    assert engine.seen[0].path == EMBEDDINGS
    engine.answer = polite
    body = {"model": "chat", "prompt": "once"}
    assert (await running.client.post(COMPLETIONS, json=body, headers=headers)).status_code == 200
    assert engine.seen[1].path == COMPLETIONS
    embedding, completion = await running.rows(2)
    assert (embedding.operation, embedding.prompt_tokens) == ("embeddings", 5)
    assert (completion.operation, completion.completion_tokens) == ("text_completion", 3)
