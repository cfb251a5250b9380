"""Pause and continue on a real vLLM, through the gateway. By `make test-vllm`."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import msgspec
import pytest

from scheduler.engines import Vllm
from scheduler.engines.continuation import Continuation, Partial, by_final_message, by_ids
from tests.gateway.harness import KEY, Gate, chat_body, furnished, gate, replica
from tests.gateway.pausing import (
    LONG,
    PATIENCE_S,
    PROMPTS,
    TOKENS,
    Stream,
    Tally,
    checked,
    low,
    once,
    pause_all,
    uninterrupted,
    urgently,
)
from tests.gateway.test_resume import Chunk, events, text_of

from .cutting import cutting
from .server import MODEL, VllmServer

pytestmark = pytest.mark.timeout(900)

BLOCK = 32


@asynccontextmanager
async def site(vllm: VllmServer, slots: int = 2, *urls: str) -> AsyncIterator[Gate]:
    """A gateway over the server, under so many names, that pauses each request once at most."""
    replicas = [
        replica(url, name=f"r{number}", slots=slots, served=MODEL)
        for number, url in enumerate(urls or (vllm.url,))
    ]
    async with gate(furnished(*replicas, policy=once(eager=True))) as running:
        running.client.timeout = httpx.Timeout(120)
        yield running


async def test_twenty_prompts_paused_once_each(
    vllm: VllmServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two low streams run; urgent calls pause each once at a random point. What was computed
    stays in the prefix cache, in whole blocks."""
    async with site(vllm) as gateway:
        tally, differences = await pause_all(gateway, recomputed=BLOCK + TOKENS)
    with capsys.disabled():
        print(f"\n  {tally.exact} of 20 exact, {tally.differing} differ from some token on")
        print("".join(f"  {line}\n" for line in differences))
    assert tally.exact >= 18


class Beginning:
    """The first tokens of an answer, as the gateway would have them when it is cut."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self.prompt_ids: list[int] = chunks[0]["prompt_token_ids"]
        self.pieces: list[tuple[str, list[int]]] = []
        pending: list[int] = []
        for chunk in chunks:
            for choice in chunk["choices"]:
                pending += choice.get("token_ids") or []
                if text := choice["delta"].get("content"):
                    self.pieces.append((text, pending))
                    pending = []

    def cut(self, at: int) -> Partial:
        """After so many pieces of text."""
        ids = [number for _, piece in self.pieces[:at] for number in piece]
        text = "".join(text for text, _ in self.pieces[:at])
        return Partial(text, self.prompt_ids, ids, len(ids))


async def asked(client: httpx.AsyncClient, onward: Continuation, body: Chunk) -> str:
    """What the server adds to a beginning."""
    whole = {**body, **onward.changes}
    sent = msgspec.json.encode({k: v for k, v in whole.items() if k not in onward.without})
    kind = {"content-type": "application/json"}
    answer = await client.post(Vllm().path(onward.operation), content=sent, headers=kind)
    choice = answer.json()["choices"][0]
    return str(choice["text"] if "text" in choice else choice["message"]["content"])


async def test_ids_carry_an_answer_on_more_exactly_than_text(
    vllm: VllmServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same cuts continued both ways, without a gateway between."""
    by = {"ids": Tally(), "text": Tally()}
    async with httpx.AsyncClient(base_url=vllm.url, timeout=120, trust_env=False) as client:
        for number, prompt in enumerate(PROMPTS):
            body: Chunk = {**chat_body(prompt), "model": MODEL, "temperature": 0}
            body |= {"max_tokens": TOKENS, "ignore_eos": True}
            whole = await client.post(
                "/v1/chat/completions", json={**body, "stream": True, "return_token_ids": True}
            )
            began = Beginning(events(whole.content))
            text = text_of(events(whole.content))
            partial = began.cut(1 + number % (len(began.pieces) - 1))
            fields = {key: msgspec.Raw(json.dumps(value).encode()) for key, value in body.items()}
            ways = {
                "ids": by_ids(fields, partial),
                "text": by_final_message(fields, "chat", partial, add_generation_prompt=False),
            }
            for name, onward in ways.items():
                rest = await asked(client, onward, body)
                by[name].compare(prompt, partial.text + rest, text)
    with capsys.disabled():
        print("\n  exact of 20: " + ", ".join(f"{t.exact} by {name}" for name, t in by.items()))
    assert by["ids"].exact >= 18
    assert by["ids"].exact >= by["text"].exact


async def test_a_prefix_in_the_cache_beats_computing_again(
    vllm: VllmServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A context of more than 1,000 tokens: how long the first token of the answer takes, when
    none of it is in the cache, and how long the first one after a pause."""
    await asyncio.to_thread(vllm.forget)
    async with site(vllm, 1) as gateway:
        stream = Stream(gateway, f"Story. {LONG}", 40)
        began = time.monotonic()
        task = asyncio.create_task(stream.read())
        await gateway.until(lambda: stream.pieces, PATIENCE_S)
        computed = time.monotonic() - began
        await gateway.until(lambda: stream.pieces >= 4, PATIENCE_S)
        urgent = asyncio.create_task(urgently(gateway, 30))
        await gateway.until(lambda: gateway.queued == 1, PATIENCE_S)
        seen = stream.pieces
        await gateway.until(lambda: not gateway.queued, PATIENCE_S)
        found = await gateway.until(lambda: stream.pieces > seen, PATIENCE_S)
        await urgent
        body = await task
        usage = checked(body)
        assert usage["prompt_tokens"] > 1000
        assert usage["completion_tokens"] == 40
        assert text_of(events(body)) == await uninterrupted(gateway, f"Story. {LONG}", 40)
        row = next(r for r in gateway.usage.rows if r.preempted)
        assert row.recomputed_tokens <= BLOCK + 40
    with capsys.disabled():
        print(f"\n  first token: {found:.2f} s after a pause, {computed:.2f} s from nothing")
    assert found < computed / 2


async def test_a_stream_survives_a_cut_connection(
    vllm: VllmServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line to one replica is cut in mid-answer; another one goes on from its token ids."""
    exact = 0
    async with cutting(vllm.url) as cutter, site(vllm, 1, cutter.url, cutter.url) as gateway:
        for number, prompt in enumerate(PROMPTS):
            whole = await uninterrupted(gateway, prompt)
            cutter.cut_after = 3 + number
            body = await gateway.streamed(**low(prompt))  # type: ignore[arg-type]
            assert checked(body)["completion_tokens"] == TOKENS
            exact += text_of(events(body)) == whole
        assert cutter.cuts == len(PROMPTS)
        assert {row.status for row in gateway.usage.rows} == {"ok"}
        assert sum(row.attempts - 1 for row in gateway.usage.rows) == cutter.cuts
    with capsys.disabled():
        print(f"\n  {exact} of {len(PROMPTS)} exact")
    assert exact >= 18


async def test_a_stopped_request_stops_at_once(vllm: VllmServer) -> None:
    """A caller leaves, plain and streamed: the server runs nothing soon after."""
    async with site(vllm) as gateway:
        for stream in (True, False):
            body = chat_body("Tell me all", max_tokens=1500, ignore_eos=True, stream=stream)
            async with gateway.raw() as client:
                await client.post(KEY, body)
                await gateway.until(lambda: gateway.running == 1, PATIENCE_S)
                await running(vllm, 1)
            began = time.monotonic()
            await running(vllm, 0)
            assert time.monotonic() - began < 30
            await gateway.until(lambda: gateway.idle, PATIENCE_S)


async def running(vllm: VllmServer, count: int) -> None:
    """Wait until the server says that it runs so many requests."""
    deadline = time.monotonic() + PATIENCE_S
    while await asyncio.to_thread(vllm.figure, "vllm:num_requests_running") != count:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_a_level_is_a_priority_that_the_server_takes(vllm: VllmServer) -> None:
    """Sent where the replica is marked; its own field is taken out otherwise."""
    facts = replica(vllm.url, served=MODEL)
    for marked in (True, False):
        memory = furnished(replace(facts, engine_priority=marked))
        async with gate(memory) as gateway:
            gateway.client.timeout = httpx.Timeout(120)
            answer = await gateway.chat("Hi", max_tokens=2, priority=77)
            assert answer.status_code == 200, answer.text
