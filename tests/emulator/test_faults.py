"""Each fault does what it says, ends when it should, and leaves no slot taken."""

import asyncio
import contextlib
import gzip
import json
from time import monotonic
from typing import cast

import httpx
import pytest

from scheduler.emulator.answers import expected_text

from .servers import ASK, CHAT, PROMPT, Json, Served, chat, content, named, served, until


async def test_busy_with_and_without_a_hint() -> None:
    async with served() as server:
        await server.fault(refuse=503, retry_after=7)
        hinted = await server.chat()
        await server.fault(refuse=429)
        plain = await server.chat()
        assert server.emulator.engine.counters.prompt_tokens == 0
    assert (hinted.status_code, hinted.headers["retry-after"]) == (503, "7")
    assert plain.status_code == plain.json()["error"]["code"] == 429
    assert "retry-after" not in plain.headers


async def test_an_error_for_the_next_two_requests() -> None:
    async with served() as server:
        await server.fault(error=500, count=2, error_message="CUDA error")
        answers = [await server.chat(max_tokens=1) for _ in range(2)]
        assert (await server.http.get("/emulator/faults")).json() == {}
        answers.append(await server.chat(max_tokens=1))
    assert [answer.status_code for answer in answers] == [500, 500, 200]
    assert answers[0].json()["error"]["message"] == "CUDA error"


async def test_faults_are_cleared_and_checked() -> None:
    async with served() as server:
        await server.fault(error=500)
        await server.http.delete("/emulator/faults")
        assert (await server.chat(max_tokens=1)).status_code == 200
        wrong = [{"no_such_fault": 1}, {"refuse": "x"}, {"count": 0}, {"usage": "odd"}, []]
        for body in wrong:
            assert (await server.http.post("/emulator/faults", json=body)).status_code == 400


async def test_a_stall_before_the_headers_which_a_leaving_client_ends() -> None:
    async with served() as server:
        await server.fault(stall_before_headers_s=0.2)
        begun = monotonic()
        assert (await server.chat(max_tokens=1)).status_code == 200
        assert monotonic() - begun >= 0.2
        await server.fault(stall_before_headers_s=600)
        call = asyncio.create_task(server.chat())
        await until(lambda: server.emulator.recorder.in_flight == 1)
        call.cancel()
        await until(lambda: server.emulator.recorder.in_flight == 0)


async def test_never_ready_concerns_health_alone() -> None:
    async with served() as server:
        assert (await server.http.get("/health")).status_code == 200
        await server.fault(never_ready=True)
        assert (await server.http.get("/health")).status_code == 503
        assert (await server.chat(max_tokens=1)).status_code == 200


async def test_a_stall_after_some_tokens() -> None:
    async with served() as server:
        await server.fault(stall_after_tokens=3, stall_s=0.2)
        begun = monotonic()
        assert content(await server.chunks(max_tokens=6)) == expected_text(PROMPT, 6)
        assert monotonic() - begun >= 0.2
        await server.fault(stall_after_tokens=3)
        text = ""
        async with opened(server) as response:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    async for piece in response.aiter_text():
                        text += piece
        assert text.count('"content"') == 4
        assert "[DONE]" not in text


def opened(
    server: Served, path: str = CHAT, **body: object
) -> contextlib.AbstractAsyncContextManager[httpx.Response]:
    """A stream."""
    asked = chat(**body) if path == CHAT else named({"prompt": ASK, **body})
    return server.http.stream("POST", path, json={"stream": True, **asked})


async def read_until_it_breaks(server: Served, path: str = CHAT) -> str:
    """What comes before the connection fails, which it has to."""
    text = ""
    try:
        async with opened(server, path) as response:
            async for piece in response.aiter_text():
                text += piece
    except httpx.ReadError:
        return text
    raise AssertionError("the stream came to an end")


async def test_a_reset_after_some_chunks() -> None:
    async with served() as server:
        await server.fault(reset_after_chunks=3)
        assert (await read_until_it_breaks(server)).count("data: ") == 3
        await until(lambda: not server.emulator.engine.running)


async def test_an_error_frame_in_the_middle() -> None:
    async with served() as server:
        await server.fault(error_after_chunks=2, error_message="engine died")
        *_, last = await server.events()
    assert json.loads(last)["error"]["message"] == "engine died"


async def test_a_line_of_a_mebibyte() -> None:
    async with served() as server:
        await server.fault(huge_line_bytes=1 << 20)
        async with opened(server, max_tokens=3) as response:
            lines = [line async for line in response.aiter_lines()]
    assert max(map(len, lines)) == 1 << 20
    assert lines[-2] == "data: [DONE]"


async def test_a_byte_at_a_time_and_compressed() -> None:
    async with served() as server:
        expected = expected_text(PROMPT, 120)
        await server.fault(byte_writes=True)
        assert content(await server.chunks(max_tokens=120, ignore_eos=True)) == expected
        await server.fault(gzip=True)
        assert content(await server.chunks(max_tokens=120, ignore_eos=True)) == expected
        async with opened(server, max_tokens=3) as response:
            assert response.headers["content-encoding"] == "gzip"
            raw = b"".join([piece async for piece in response.aiter_raw()])
        assert gzip.decompress(raw).endswith(b"data: [DONE]\n\n")


async def test_a_compressed_plain_answer_with_headers_of_the_connection() -> None:
    async with served() as server:
        await server.fault(gzip=True)
        async with server.http.stream("POST", CHAT, json=chat(max_tokens=3)) as response:
            raw = b"".join([piece async for piece in response.aiter_raw()])
    assert int(response.headers["content-length"]) == len(raw)
    assert json.loads(gzip.decompress(raw))["usage"]["completion_tokens"] == 3
    assert response.headers["connection"] == "keep-alive, X-Hop"
    for name in ("x-hop", "keep-alive", "proxy-authenticate", "trailer", "set-cookie"):
        assert name in response.headers


USAGE = {
    "zeros_first": ([0, 0, 0, 0, 3], 4),
    "null_until_end": ([None, None, None, None, 3], 4),
    "running_totals": ([1, 1, 2, 3, 3], 4),
    "on_finish_chunk": ([None, None, None, 3], 3),
    "none": ([None, None, None, None], None),
}


@pytest.mark.parametrize("manner", USAGE)
async def test_usage_in_the_manner_of_others(manner: str) -> None:
    expected, last = USAGE[manner]
    async with served() as server:
        await server.fault(usage=manner)
        # Whether or not the caller asked makes no difference to such servers.
        chunks = await server.chunks(max_tokens=3)
        plain = (await server.chat(max_tokens=3)).json()
    counts = [cast("Json", chunk.get("usage") or {}).get("completion_tokens") for chunk in chunks]
    assert counts == expected
    assert ("usage" in plain) == (manner != "none")
    if last is not None:
        assert cast("Json", chunks[last]["usage"])["prompt_tokens"] == len(PROMPT)


async def test_more_cached_than_there_was() -> None:
    async with served() as server:
        await server.fault(usage="cached_over_prompt")
        *_, last = await server.chunks(max_tokens=3)
        plain = (await server.chat(max_tokens=3)).json()
    for usage in (cast("Json", last["usage"]), plain["usage"]):
        details = cast("Json", usage["prompt_tokens_details"])
        assert details["cached_tokens"] == len(PROMPT) + 100


async def test_plain_json_though_a_stream_was_asked_for() -> None:
    async with served() as server:
        await server.fault(plain_for_stream=True)
        answer = await server.chat(stream=True, max_tokens=3)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["choices"][0]["message"]["content"] == expected_text(PROMPT, 3)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_continuation_that_repeats_what_it_was_given(stream: bool) -> None:
    partial = expected_text(PROMPT)[:40]
    messages = [{"role": "user", "content": ASK}, {"role": "assistant", "content": partial}]
    wish = {"continue_final_message": True, "add_generation_prompt": False}
    async with served() as server:
        await server.fault(echo_partial=True)
        if stream:
            text = content(await server.chunks(CHAT, messages=messages, **wish))
        else:
            answer = (await server.chat(messages=messages, **wish)).json()
            text = answer["choices"][0]["message"]["content"]
    assert text == expected_text(PROMPT)


async def test_a_stream_of_given_bytes() -> None:
    script = ['data: {"a": 1}\n\n', ": comment\n", "\ndata: [DONE]\n\n"]
    async with served() as server:
        await server.fault(raw_events=script)
        async with opened(server) as response:
            text = (await response.aread()).decode()
        assert server.emulator.engine.counters.prompt_tokens == 0
    assert text == "".join(script)


async def test_an_engine_that_goes_on_when_its_client_has_left() -> None:
    async with served() as server:
        await server.fault(ignore_disconnect=True)
        counters = server.emulator.engine.counters
        call = asyncio.create_task(server.chat(max_tokens=150, ignore_eos=True))
        await until(lambda: counters.generation_tokens >= 2)
        call.cancel()
        await until(lambda: counters.generation_tokens == 150)
        assert counters.finished["abort"] == 0


async def test_completions_have_the_same_faults() -> None:
    async with served() as server:
        await server.fault(huge_line_bytes=5000, reset_after_chunks=2)
        first, second, rest = (await read_until_it_breaks(server, "/v1/completions")).split("\n\n")
    assert (len(first), rest) == (5000, "")
    assert len(second) < 500
