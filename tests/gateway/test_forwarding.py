"""What of a request reaches a replica, and what of a replica's answer reaches the caller."""

import json
import zlib
from pathlib import Path

import pytest

from .harness import KEY, LOW_KEY, URGENT_KEY, chat_body, furnished, gate, replica
from .stub import Seen, Wire, chat_answer, polite, stub

FORGED = [
    "X-Priority: 0",
    "priority: P0",
    "PRIORITY: 0",
    "X-Tier: vip",
    "X-Lane: P0",
    "X-Priority-Level: 0",
    "X-Business: urgent",
    "X-Tenant: urgent",
    "X-Replica: card-7",
    "X-Worker-Id: 7",
    "X-Routing-Key: pinned",
    "X-Data-Parallel-Rank: 3",
    "X-Session-Id: s",
    "X-Forwarded-For: 10.0.0.1",
    "Forwarded: for=10.0.0.1",
    "X-Real-IP: 10.0.0.1",
    "Cookie: session=secret",
    "Via: 1.1 proxy",
    "Proxy-Authorization: Basic c2VjcmV0",
    "X-Api-Base: http://127.0.0.1:9",
    "OpenAI-Organization: org-secret",
    "OpenAI-Beta: assistants=v2",
    "Connection: close, X-Custom-Hop",
    "X-Custom-Hop: secret",
    "Keep-Alive: timeout=99",
    "TE: trailers",
    "Accept-Encoding: gzip, br",
    "User-Agent: secret-agent",
    "Accept-Language: fr",
    "Referer: http://secret/",
    "Range: bytes=0-1",
    "If-None-Match: x",
    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate: vendor=value",
]
PASSED_ON = {
    "host",
    "content-type",
    "content-length",
    "accept",
    "accept-encoding",
    "user-agent",
    "x-request-id",
    "traceparent",
    "tracestate",
}


@pytest.mark.parametrize("value", ["0", "-100", '"P0"', "null", "1e9"])
async def test_f04_a_p2_caller_stays_one_whatever_it_sends(value: str) -> None:
    """F04: forged headers of every kind and case, twice, and a ``priority`` in the body: the
    request runs in P2, and what reaches the replica comes from a list or from the gateway."""
    body = b'{"model":"chat","messages":[],"priority":%s,"service_tier":"priority"}'
    async with (
        stub() as server,
        gate(furnished(replica(server.url))) as gateway,
        gateway.raw() as client,
    ):
        await client.post(LOW_KEY, body % value.encode(), *FORGED, *reversed(FORGED[:2]))
        answer = await client.answer()
        assert answer.status == 200
        assert (answer.headers["x-lane"], answer.headers["x-priority-level"]) == ("P2", "7")
        seen = server.seen[0]
        assert {name for name, _ in seen.headers} <= PASSED_ON
        assert "priority" not in seen.json
        assert "secret" not in str(seen.headers)
        assert seen.header("accept-encoding") == "identity"
        names = [name for name, _ in seen.headers]
        assert len(names) == len(set(names))


async def test_f04_engine_priority_is_the_gateways_own() -> None:
    """F04: where a replica minds priorities, it gets the level; the caller's word never."""
    async with (
        stub() as server,
        gate(furnished(replica(server.url, engine_priority=True))) as gateway,
    ):
        for key, level in ((URGENT_KEY, 0), (KEY, 3), (LOW_KEY, 8)):
            await gateway.chat(key=key, priority=-100)
            assert server.seen[-1].json["priority"] == level


@pytest.mark.parametrize(
    "trace", ["", "nonsense", "00-XYZ-b7ad6b7169203331-01", "00-" + "0" * 400, "a\x01b"]
)
async def test_a_traceparent_that_is_none_goes_nowhere(trace: str) -> None:
    """Only the form that the standard gives it is passed on."""
    async with (
        stub() as server,
        gate(furnished(replica(server.url))) as gateway,
        gateway.raw() as client,
    ):
        await client.post(KEY, chat_body(), f"traceparent: {trace}")
        answer = await client.answer()
        if answer.status == 200:
            assert server.seen[0].header("traceparent") is None
            assert (await gateway.row()).trace_id == ""
        else:
            assert answer.status == 400


async def test_f08_answers_lose_what_belongs_to_the_replicas_connection() -> None:
    """F08: hop-by-hop headers, cookies and the engine's name end at the gateway; the body is
    readable and its length right, packed or not."""

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.json(
            chat_answer(),
            200,
            ("Connection", "keep-alive, X-Inner"),
            ("X-Inner", "secret"),
            ("Keep-Alive", "timeout=5"),
            ("Set-Cookie", "session=secret"),
            ("Server", "secret-engine/1.0"),
            ("Via", "1.1 secret"),
            ("X-Request-Id", "secret"),
            ("Trailer", "X-Sum"),
            ("Proxy-Authenticate", "Basic"),
            ("ETag", "secret"),
        )

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        response = await gateway.chat()
        assert response.json() == chat_answer()
        assert int(response.headers["content-length"]) == len(response.content)
        assert "secret" not in str(response.headers)
        for name in ("connection", "keep-alive", "set-cookie", "content-encoding", "trailer"):
            assert name not in response.headers
        assert response.headers["server"] == "granian"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("packing", ["gzip", "deflate"])
async def test_f08_a_packed_answer_arrives_readable(stream: bool, packing: str) -> None:
    """F08: the engine packs although it was told not to: encoding and length match the bytes
    that are sent, and usage is found inside."""

    def pack(data: bytes) -> bytes:
        squeeze = zlib.compressobj(wbits=31 if packing == "gzip" else 15)
        return squeeze.compress(data) + squeeze.flush()

    plain = json.dumps(chat_answer()).encode()
    collected: list[bytes] = []

    async def answer(seen: Seen, wire: Wire) -> None:
        encoding = ("Content-Encoding", packing)
        if not stream:
            await wire.answer(pack(plain), 200, encoding)
            return
        recorder = Recorder()
        await polite(seen, recorder)  # type: ignore[arg-type]
        collected.append(recorder.data)
        body = pack(recorder.data)
        await wire.answer(body, 200, encoding, kind="text/event-stream")

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        if stream:
            received = await gateway.streamed("hello", stream_options={"include_usage": True})
            assert received == collected[0]
        else:
            response = await gateway.chat()
            assert response.content == plain
            assert "content-encoding" not in response.headers
        assert (await gateway.row()).completion_tokens == 3


class Recorder:
    """Takes a stream's events instead of a wire."""

    def __init__(self) -> None:
        self.data = b""

    async def stream(self, *events: bytes) -> None:
        """Keep the events."""
        self.data += b"".join(events)


async def test_f08_the_callers_credentials_never_reach_the_replica(tmp_path: Path) -> None:
    """F08: neither the key nor a cookie; the replica's own token does, and follows its file."""
    token = tmp_path / "token"
    token.write_text("replica-token-1\n", encoding="utf-8")
    async with (
        stub() as server,
        gate(furnished(replica(server.url, token_file=str(token)))) as gateway,
    ):
        headers = {"cookie": "a=b", "x-api-key": KEY}
        assert (await gateway.chat(headers=headers)).status_code == 200
        assert server.seen[0].header("authorization") == "Bearer replica-token-1"
        assert KEY not in str(server.seen[0].headers)
        assert server.seen[0].header("cookie") is None
        assert server.seen[0].header("x-api-key") is None
        token.unlink()
        response = await gateway.chat()
        assert response.status_code == 502
        assert str(tmp_path) not in response.text
        token.write_text("replica-token-2", encoding="utf-8")
        assert (await gateway.chat()).status_code == 200
        assert server.seen[1].header("authorization") == "Bearer replica-token-2"
