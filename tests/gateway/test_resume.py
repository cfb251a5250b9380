"""A paused or interrupted answer goes on as if nothing had happened."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from scheduler.emulator.answers import expected_text
from scheduler.emulator.app import Listening, listen
from scheduler.emulator.engine import ServiceModel
from scheduler.emulator.faults import Faults
from scheduler.emulator.prompts import chat_prompt_ids
from scheduler.emulator.settings import Settings

from .harness import LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica

PROMPTS = [
    "Summarise the meeting",
    "用中文回答:今天的天气怎么样?",
    "Count the emoji 🎉🎊 in here",
    "List five rivers",
]


@asynccontextmanager
async def emulated(
    count: int, slots: int, *, step_ms: float = 4
) -> AsyncIterator[tuple[Gate, list[Listening]]]:
    """A gateway over so many emulators."""
    async with AsyncExitStack() as stack:
        model = ServiceModel(slots=slots, step_base_ms=step_ms, step_per_running_ms=0.1)
        cards = [
            await stack.enter_async_context(listen(Settings(service=model, models=("chat",))))
            for _ in range(count)
        ]
        replicas = [
            replica(card.url, name=f"card-{n}", slots=slots) for n, card in enumerate(cards)
        ]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        yield gateway, cards


Chunk = dict[str, Any]


def events(body: bytes) -> list[Chunk]:
    """The data events of a stream but for [DONE]."""
    return [
        json.loads(event[6:])
        for event in body.split(b"\n\n")
        if event.startswith(b"data: ") and event != b"data: [DONE]"
    ]


def text_of(chunks: list[Chunk]) -> str:
    return "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]
    )


def expected(prompt: str, tokens: int) -> str:
    return expected_text(chat_prompt_ids([("user", prompt)], add_generation_prompt=True), tokens)


def one_answer(body: bytes, prompt: str, tokens: int) -> Chunk:
    """Check that a stream looks like one uninterrupted answer; returns its usage."""
    chunks = events(body)
    assert body.count(b"data: [DONE]") == 1
    assert body.endswith(b"data: [DONE]\n\n")
    assert b"error" not in body
    assert b"token_ids" not in body
    assert text_of(chunks) == expected(prompt, tokens)
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["model"] for chunk in chunks} == {"chat"}
    roles = [c["delta"].get("role") for chunk in chunks for c in chunk["choices"]]
    assert [role for role in roles if role] == ["assistant"]
    finishes = [c["finish_reason"] for chunk in chunks for c in chunk["choices"]]
    assert len([finish for finish in finishes if finish]) == 1
    assert chunks[-1]["choices"] == []
    usage: Chunk = chunks[-1]["usage"]
    return usage


async def paused_once(gateway: Gate, prompt: str, tokens: int, after: int) -> bytes:
    """Stream a low answer, and make an urgent call when ``after`` chunks have come."""
    body = b""
    urgent = None
    async with gateway.stream(
        prompt,
        key=LOW_KEY,
        max_tokens=tokens,
        ignore_eos=True,
        stream_options={"include_usage": True},
    ) as response:
        assert response.status_code == 200
        async for chunk in response.aiter_bytes():
            body += chunk
            if urgent is None and body.count(b"data: ") >= after:
                urgent = asyncio.create_task(
                    gateway.chat("urgent", key=URGENT_KEY, max_tokens=5, ignore_eos=True)
                )
    assert urgent is not None
    assert (await urgent).status_code == 200
    return body


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("after", [2, 5, 17, 30])
async def test_a_paused_stream_goes_on_exactly(prompt: str, after: int) -> None:
    """The urgent request takes the only slot at once; the paused stream's text, usage, id and
    finish look like one answer, and both rows say what happened."""
    async with emulated(1, 1, step_ms=8) as (gateway, (card,)):
        body = await paused_once(gateway, prompt, 60, after)
        usage = one_answer(body, prompt, 60)
        assert usage["completion_tokens"] == 60
        rows = {row.business: row for row in await gateway.rows(2)}
        low = rows["low"]
        assert (low.status, low.attempts, low.completion_tokens) == ("ok", 2, 60)
        urgent = rows["urgent"]
        assert (low.preempted, low.preempted_for, low.displaced) == (1, urgent.id, "")
        assert (urgent.preempted, urgent.preempted_for, urgent.displaced) == (0, "", low.id)
        assert low.recomputed_tokens < low.prompt_tokens + 60
        assert urgent.recomputed_tokens == 0
        assert usage["prompt_tokens"] == low.prompt_tokens
        prompt_ids = chat_prompt_ids([("user", prompt)], add_generation_prompt=True)
        assert low.prompt_tokens == len(prompt_ids)
        assert not card.emulator.engine.running
        # The scheduler has learnt what going on costs there.
        (known,) = gateway.runtime.scheduler.state.estimates.resumes.items()
        assert known[0] == ("chat", "card-0")
        assert known[1].samples == 1
        await gateway.until(lambda: gateway.idle)


async def test_a_paused_plain_answer_goes_on_exactly() -> None:
    """The same for a plain call of the lowest lane: streamed from the engine, assembled here."""
    async with emulated(1, 1, step_ms=8) as (gateway, (card,)):
        low = asyncio.create_task(
            gateway.chat("plain", key=LOW_KEY, max_tokens=50, ignore_eos=True)
        )
        await gateway.until(lambda: card.emulator.engine.running)
        await gateway.until(lambda: card.emulator.engine.running[0].generated > 8)
        urgent = await gateway.chat("urgent", key=URGENT_KEY, max_tokens=5, ignore_eos=True)
        assert urgent.status_code == 200
        answer = (await low).json()
        assert answer["choices"][0]["message"]["content"] == expected("plain", 50)
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["completion_tokens"] == 50
        assert answer["object"] == "chat.completion"
        rows = {row.business: row for row in await gateway.rows(2)}
        assert (rows["low"].attempts, rows["low"].completion_tokens) == (2, 50)


async def test_a_stream_survives_its_replica() -> None:
    """The replica resets the connection half-way: another goes on, no token twice."""
    async with emulated(2, 2) as (gateway, cards):
        for card in cards:
            card.emulator.faults.set(Faults(reset_after_chunks=9, count=1))
        async with gateway.stream(
            "Tell me", max_tokens=40, ignore_eos=True, stream_options={"include_usage": True}
        ) as response:
            first = response.headers["x-replica"]
            # The other one is sound.
            cards[1 - int(first[-1])].emulator.faults.clear()
            body = await response.aread()
        assert one_answer(body, "Tell me", 40)["completion_tokens"] == 40
        row = await gateway.row()
        assert (row.status, row.completion_tokens, row.attempts) == ("ok", 40, 2)
        assert row.replica != first
        assert (row.preempted, row.preempted_for) == (0, "")
        # The other one had to read the prompt and the beginning of the answer.
        assert row.recomputed_tokens > row.prompt_tokens


async def test_what_can_not_go_on_is_left_alone() -> None:
    """With log probabilities asked for, a stream that has begun is no victim."""
    async with emulated(1, 1, step_ms=5) as (gateway, _):
        async with gateway.stream(
            "Tools", key=LOW_KEY, max_tokens=300, ignore_eos=True, tool_choice="none", tools=[]
        ) as response:
            await anext(response.aiter_bytes())
            urgent = await gateway.chat("urgent", key=URGENT_KEY, max_tokens=2)
            assert urgent.status_code == 200
        rows = {row.business: row for row in await gateway.rows(2)}
        assert (rows["low"].preempted, rows["low"].attempts) == (0, 1)


async def test_many_streams_under_many_preemptions() -> None:
    """Every low answer is complete and right although urgent calls keep pausing them."""
    async with emulated(2, 4, step_ms=3) as (gateway, _):

        async def low(number: int) -> None:
            prompt = f"story {number}"
            body = await gateway.streamed(
                prompt,
                key=LOW_KEY,
                max_tokens=40,
                ignore_eos=True,
                stream_options={"include_usage": True},
            )
            assert one_answer(body, prompt, 40)["completion_tokens"] == 40

        streams = [asyncio.create_task(low(number)) for number in range(24)]
        for number in range(60):
            urgent = await gateway.chat(
                f"now {number}", key=URGENT_KEY, max_tokens=3, ignore_eos=True
            )
            assert urgent.status_code == 200
        await asyncio.gather(*streams)
        rows = await gateway.rows(84)
        assert sum(r.completion_tokens for r in rows if r.business == "low") == 24 * 40
        await gateway.until(lambda: gateway.idle)
