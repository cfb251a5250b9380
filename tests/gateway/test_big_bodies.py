"""Large bodies: refused before they are read, bounded in memory, and nobody else's trouble."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from .harness import KEY, LOW_KEY, Gate, chat_body, furnished, gate, replica
from .process import PeakMemory
from .raw import CHAT, Answer, RawClient
from .stub import Seen, Wire, chat_answer, stub

MIB = 1024 * 1024
HUGE = 200 * MIB
BLOCK = b"x" * 65536
OPENING = b'{"model":"chat","messages":[{"role":"user","content":"'


async def push(client: RawClient, blocks: int, *, chunked: bool) -> int:
    """Send a body for as long as it is taken; returns the bytes that were."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        for index in range(blocks):
            block = OPENING if index == 0 else BLOCK
            await client.send(b"%x\r\n%s\r\n" % (len(block), block) if chunked else block)
            sent += len(block)
    return sent


async def huge(gateway: Gate, kind: str) -> tuple[Answer | None, int]:
    """A body of 200 MB of a kind: the answer, where one came through, and what was sent."""
    async with gateway.raw() as client:
        if kind == "with a length":
            await client.begin(KEY, f"Content-Length: {HUGE}")
        elif kind == "gzip bomb":
            await client.begin(KEY, "Content-Encoding: gzip", "Transfer-Encoding: chunked")
        else:
            await client.begin(KEY, "Transfer-Encoding: chunked")
        sending = asyncio.create_task(
            push(client, HUGE // len(BLOCK), chunked=kind != "with a length")
        )
        answer: Answer | None = None
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            answer = await client.answer()
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            return answer, await sending
        return answer, 0


KINDS = ["with a length", "chunked", "gzip bomb"]


@pytest.mark.parametrize("kind", KINDS)
async def test_f07_a_body_of_200_mb_is_refused_before_it_is_read(kind: str) -> None:
    """F07: by its length or its encoding at once, without either as soon as it is too long."""
    async with stub() as server, gate(furnished(replica(server.url))) as gateway:
        memory = PeakMemory()
        answer, _ = await huge(gateway, kind)
        assert answer is not None
        assert answer.status == (415 if kind == "gzip bomb" else 413)
        code = "unsupported_media_type" if kind == "gzip bomb" else "body_too_large"
        assert answer.error["code"] == code
        assert memory.grown < 16 * MIB
        row = await gateway.row()
        assert (row.status, row.bytes_in, row.dispatched) == ("client_error", 0, 0)
        assert not server.seen


async def test_f07_fifty_at_once_beside_normal_traffic() -> None:
    """F07: bodies too long and nested too deep, fifty at a time: memory stays bounded, no slot
    is taken, and other callers' calls are served as before."""
    async with stub() as server, gate(furnished(replica(server.url))) as gateway:
        assert (await gateway.chat(key=LOW_KEY)).status_code == 200
        brackets = b'{"model":"chat","messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}"

        async def deep() -> int:
            async with gateway.raw() as client:
                await client.post(KEY, brackets)
                return (await client.answer()).status

        memory = PeakMemory()
        storm = [asyncio.create_task(huge(gateway, KINDS[n % 3])) for n in range(25)]
        deeps = [asyncio.create_task(deep()) for _ in range(25)]
        served = 0
        while not all(task.done() for task in (*storm, *deeps)):
            response = await gateway.chat(key=LOW_KEY)
            assert response.status_code == 200
            served += 1
        assert served >= 1
        assert {await task for task in deeps} == {400}
        answers = [(await task)[0] for task in storm]
        statuses = {answer.status for answer in answers if answer is not None}
        assert statuses == {413, 415}
        assert memory.grown < 96 * MIB
        assert len(server.seen) == served + 1


async def test_f07_the_limit_is_exact_and_configurable() -> None:
    """F07: large bodies are legitimate where they are allowed: exactly the limit passes, one
    byte more does not, with a length and without."""
    limit = 3 * MIB
    async with (
        stub() as server,
        gate(furnished(replica(server.url)), max_body=limit) as gateway,
    ):
        for chunked in (False, True):
            for size, status in ((limit, 200), (limit + 1, 413)):
                frame = json.dumps(chat_body("")).encode()
                body = frame.replace(b'""', b'"' + b"x" * (size - len(frame)) + b'"')
                assert len(body) == size
                async with gateway.raw() as client:
                    if chunked:
                        await client.begin(KEY, "Transfer-Encoding: chunked")
                        half = b"%x\r\n%s\r\n" % (size // 2, body[: size // 2])
                        rest = b"%x\r\n%s\r\n" % (size - size // 2, body[size // 2 :])
                        await client.send(half + rest + b"0\r\n\r\n")
                    else:
                        await client.post(KEY, body)
                    assert (await client.answer()).status == status
        assert [len(seen.body) for seen in server.seen] == [limit, limit]


async def test_f07_many_bodies_within_the_limit_share_a_bound() -> None:
    """Sixteen full bodies are held at once and no more: the next is told to come back, and a
    small one is served all the while."""
    limit = 256 * 1024
    held = asyncio.Event()

    async def hold(seen: Seen, wire: Wire) -> None:
        if len(seen.body) > 100_000:
            await held.wait()
        await wire.json(chat_answer())

    async with (
        stub(hold) as server,
        gate(furnished(replica(server.url, slots=30)), max_body=limit) as gateway,
    ):
        text = "x" * (limit - 200)
        calls = [asyncio.create_task(gateway.chat(text)) for _ in range(16)]
        await gateway.until(lambda: gateway.running == 16)
        refused = await gateway.chat(text)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "backpressure"
        assert int(refused.headers["retry-after"]) >= 1
        assert (await gateway.chat("small")).status_code == 200
        held.set()
        assert {(await call).status_code for call in calls} == {200}
        assert (await gateway.chat(text)).status_code == 200


async def test_announcing_bodies_takes_nothing_from_others() -> None:
    """Forty callers name a length and send nothing: a large body is still taken."""
    limit = 256 * 1024
    async with (
        stub() as server,
        gate(furnished(replica(server.url)), max_body=limit) as gateway,
        contextlib.AsyncExitStack() as stack,
    ):
        for _ in range(40):
            client = await stack.enter_async_context(gateway.raw())
            await client.begin(KEY, f"Content-Length: {limit}", "X-Content-Length: 1")
        await gateway.until(lambda: len(gateway.runtime.gateway.exchanges) == 40)
        assert gateway.runtime.gateway.bodies.held == 0
        assert (await gateway.chat("x" * (limit - 200))).status_code == 200


@pytest.mark.parametrize("kind", ["with a length", "chunked"])
async def test_a_client_that_reads_after_sending_gets_its_refusal(kind: str) -> None:
    """Most clients do: closed under them, the connection would take the answer with it, and
    they would see a reset and send it all again."""
    body = OPENING + b"x" * (20 * MIB) + b'"}]}'

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), MIB):
            yield body[start : start + MIB]

    async with stub() as server, gate(furnished(replica(server.url))) as gateway:
        memory = PeakMemory()
        for key, status in ((KEY, 413), ("fl_live_wrong", 401)):
            headers = gateway.headers(key)
            if kind == "with a length":
                headers["content-length"] = str(len(body))
            # In parts either way: a client that hands over all at once copies it, and the copy
            # would be taken for the gateway's.
            response = await gateway.client.post(CHAT, content=parts(), headers=headers)
            assert response.status_code == status
        assert memory.grown < 32 * MIB
        assert (await gateway.row()).http_status == 413


async def test_a_client_that_waits_for_100_continue_is_told_first() -> None:
    """Whoever asks before it sends gets its refusal without having sent anything."""
    async with stub() as server, gate(furnished(replica(server.url))) as gateway:
        async with gateway.raw() as client:
            await client.begin(KEY, f"Content-Length: {HUGE}", "Expect: 100-continue")
            assert (await client.answer()).status == 413
        body = json.dumps(chat_body()).encode()
        async with gateway.raw() as client:
            await client.begin(KEY, f"Content-Length: {len(body)}", "Expect: 100-continue")
            assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
            await client.send(body)
            assert (await client.answer()).status == 200


async def test_a_large_answer_is_passed_on_and_a_larger_one_is_not() -> None:
    """64 MiB of plain answer are the most: beyond that the replica failed."""
    size = 0

    async def answer(seen: Seen, wire: Wire) -> None:
        head, _, tail = json.dumps(chat_answer("|")).encode().partition(b"|")
        length = ("Content-Length", str(len(head) + size + len(tail)))
        await wire.head(200, ("Content-Type", "application/json"), length)
        await wire.send(head)
        for _ in range(size // MIB):
            await wire.send(b"y" * MIB)
        await wire.send(tail)

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        size = 8 * MIB
        response = await gateway.chat()
        assert response.status_code == 200
        assert len(response.content) > size
        size = 80 * MIB
        assert (await gateway.chat()).status_code == 502


async def test_deep_nesting_is_refused() -> None:
    """No stack is climbed and none overflows, wherever the brackets stand."""
    async with stub() as server, gate(furnished(replica(server.url)), max_body=8 * MIB) as gateway:
        for body in (
            b"[" * (4 * MIB),
            b'{"a":' * MIB,
            b'{"model":"chat","messages":[],"stream_options":' + b"[" * (4 * MIB),
            b'{"model":"chat","messages":[' + b'{"content":' * (MIB // 4),
        ):
            async with gateway.raw() as client:
                await client.post(KEY, body)
                assert (await client.answer()).status == 400
        assert not server.seen
