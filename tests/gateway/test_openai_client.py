"""The official ``openai`` client, unchanged, against the gateway in front of both engines."""

import asyncio
from collections.abc import AsyncIterator

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from .engines import Served
from .harness import KEY, Gate

MESSAGES: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "Tell me a long story about a dragon."}
]


@pytest.fixture
async def running(engine_server: Served) -> AsyncIterator[Gate]:
    async with engine_server.gate() as found:
        yield found


@pytest.fixture
async def client(running: Gate) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        api_key=KEY, base_url=f"{running.url}/v1", max_retries=0, timeout=60
    ) as found:
        yield found


async def collect(
    client: AsyncOpenAI, **options: object
) -> tuple[list[ChatCompletionChunk], str, str | None]:
    """A stream's chunks, its text and its finish reason."""
    stream = await client.chat.completions.create(
        model="chat",
        messages=MESSAGES,
        max_tokens=12,
        temperature=0,
        stream=True,
        **options,  # type: ignore[call-overload]
    )
    chunks = [chunk async for chunk in stream]
    text, finish = "", None
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return chunks, text, finish


async def test_chat(client: AsyncOpenAI, running: Gate) -> None:
    answer = await client.chat.completions.create(
        model="chat", messages=MESSAGES, max_tokens=12, temperature=0
    )
    assert answer.model == "chat"
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.content
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 12
    row = await running.row()
    assert (row.status, row.completion_tokens, row.estimated) == ("ok", 12, False)
    assert row.prompt_tokens == answer.usage.prompt_tokens > 0
    assert row.served_model not in ("", "chat")
    assert answer.id


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, False),
        ({"stream_options": {"include_usage": False}}, False),
        ({"stream_options": {"include_usage": True}}, True),
    ],
    ids=["absent", "off", "on"],
)
async def test_streamed_chat_with_usage_on_off_and_absent(
    options: dict[str, object], shown: bool, client: AsyncOpenAI, running: Gate
) -> None:
    chunks, text, finish = await collect(client, **options)
    assert text
    assert finish == "length"
    assert {chunk.model for chunk in chunks} == {"chat"}
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    usages = [chunk for chunk in chunks if not chunk.choices]
    assert len(usages) == (1 if shown else 0)
    if shown:
        assert usages[0] is chunks[-1]
        assert usages[0].usage is not None
        assert usages[0].usage.completion_tokens == 12
    row = await running.row()
    assert (row.status, row.completion_tokens, row.estimated) == ("ok", 12, False)
    assert row.prompt_tokens > 0


@pytest.mark.parametrize("stream", [False, True])
async def test_completions(stream: bool, client: AsyncOpenAI, running: Gate) -> None:
    if stream:
        parts = await client.completions.create(
            model="chat", prompt="Once upon a time", max_tokens=8, temperature=0, stream=True
        )
        pieces = [part async for part in parts]
        assert {piece.model for piece in pieces} == {"chat"}
        text = "".join(choice.text for piece in pieces for choice in piece.choices)
    else:
        answer = await client.completions.create(
            model="chat", prompt="Once upon a time", max_tokens=8, temperature=0
        )
        assert (answer.model, answer.object) == ("chat", "text_completion")
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 8
        text = answer.choices[0].text
    assert text
    row = await running.row()
    assert (row.operation, row.status, row.completion_tokens) == ("text_completion", "ok", 8)


async def test_models(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["chat"]
    assert (await client.models.retrieve("chat")).id == "chat"
    with pytest.raises(openai.NotFoundError) as caught:
        await client.models.retrieve("gpt-9")
    assert caught.value.code == "model_not_found"


async def test_a_bad_key(client: AsyncOpenAI, running: Gate) -> None:
    stranger = client.with_options(api_key="fl_live_strangerstrangerstranger")
    with pytest.raises(openai.AuthenticationError) as caught:
        await stranger.chat.completions.create(model="chat", messages=MESSAGES)
    assert caught.value.code == "invalid_api_key"
    with pytest.raises(openai.AuthenticationError):
        await stranger.models.retrieve("chat")
    assert not running.usage.rows


async def test_an_unknown_model(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        await client.chat.completions.create(model="gpt-9", messages=MESSAGES)
    assert caught.value.code == "model_not_found"
    assert caught.value.param == "model"
    assert caught.value.request_id


@pytest.mark.parametrize("stream", [False, True])
async def test_an_over_long_prompt_is_the_engines_400(
    stream: bool, client: AsyncOpenAI, running: Gate
) -> None:
    """Passed on with the engine's own words, under the reason of the contract; the engine is
    none the worse for it."""
    long: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi " * 9000}]
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model="chat", messages=long, stream=stream)
    assert "context" in caught.value.message
    assert caught.value.response.headers["x-fairlane-reason"] == "context_length_exceeded"
    assert (await running.row()).reason == "context_length_exceeded"
    assert running.runtime.health.watches["engine"].state == "ready"
    answer = await client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=2)
    assert answer.choices[0].message.content


async def test_a_stream_that_is_closed_early_frees_its_slot(
    client: AsyncOpenAI, running: Gate
) -> None:
    async with await client.chat.completions.create(
        model="chat", messages=MESSAGES, max_tokens=400, stream=True
    ) as stream:
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
    await running.rest()
    row = await running.row()
    assert row.status == "client_disconnect"
    assert row.completion_tokens >= 1


async def test_the_blocking_client(running: Gate) -> None:
    """``OpenAI`` in a thread, as most programs use it."""

    def work() -> tuple[str, str]:
        with OpenAI(api_key=KEY, base_url=f"{running.url}/v1", max_retries=0) as client:
            answer = client.chat.completions.create(model="chat", messages=MESSAGES, max_tokens=4)
            raw = client.chat.completions.with_raw_response.create(
                model="chat", messages=MESSAGES, max_tokens=4
            )
            return answer.choices[0].message.content or "", raw.headers["x-lane"]

    text, lane = await asyncio.to_thread(work)
    assert text
    assert lane == "P1"


async def test_embeddings(emulator: Served) -> None:
    """On the engine that has them: as floats, and packed as the client asks by default."""
    async with (
        emulator.gate() as running,
        AsyncOpenAI(api_key=KEY, base_url=f"{running.url}/v1", max_retries=0) as client,
    ):
        packed = await client.embeddings.create(model="chat", input=["a", "b"])
        plain = await client.embeddings.create(
            model="chat", input=["a", "b"], encoding_format="float"
        )
        assert packed.model == plain.model == "chat"
        assert [item.index for item in plain.data] == [0, 1]
        assert packed.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-6)
        rows = await running.rows(2)
        assert {(row.operation, row.completion_tokens) for row in rows} == {("embeddings", 0)}
        assert {row.prompt_tokens for row in rows} == {plain.usage.prompt_tokens}


async def test_a_model_that_cannot_embed_is_the_gateways_502(llama: Served) -> None:
    """The engine's 501 is nothing that the caller could mend."""
    async with (
        llama.gate() as running,
        AsyncOpenAI(api_key=KEY, base_url=f"{running.url}/v1", max_retries=0) as client,
    ):
        with pytest.raises(openai.InternalServerError) as caught:
            await client.embeddings.create(model="chat", input="a")
        assert caught.value.status_code == 502
