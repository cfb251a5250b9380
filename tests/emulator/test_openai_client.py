"""The official client runs against it unchanged."""

import contextlib
import math
from collections.abc import AsyncIterator

import openai
import pytest

from scheduler.emulator.answers import expected_ids, expected_text
from scheduler.emulator.embeddings import embed
from scheduler.emulator.settings import DEFAULT_MODEL
from scheduler.emulator.tokens import tokenize

from .servers import ASK, PROMPT, served


@contextlib.asynccontextmanager
async def client() -> AsyncIterator[openai.AsyncOpenAI]:
    """The client of a running emulator."""
    async with (
        served() as server,
        openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as found,
    ):
        yield found


MESSAGES: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": ASK}]


async def test_chat() -> None:
    async with client() as api:
        answer = await api.chat.completions.create(model=DEFAULT_MODEL, messages=MESSAGES)
    choice = answer.choices[0]
    assert choice.message.content == expected_text(PROMPT)
    assert choice.finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(PROMPT)
    # The closing end-of-text counts, as with the real one.
    assert answer.usage.completion_tokens == len(expected_ids(PROMPT))
    assert answer.usage.total_tokens == len(PROMPT) + len(expected_ids(PROMPT))


@pytest.mark.parametrize("usage", [True, False])
async def test_chat_streamed(usage: bool) -> None:
    text, usages = "", 0
    async with client() as api:
        events = await api.chat.completions.create(
            model=DEFAULT_MODEL,
            messages=MESSAGES,
            stream=True,
            stream_options={"include_usage": True} if usage else openai.omit,
        )
        async for event in events:
            text += "".join(choice.delta.content or "" for choice in event.choices)
            usages += event.usage is not None
            assert bool(event.choices) == (event.usage is None)
    assert text == expected_text(PROMPT)
    assert usages == int(usage)


async def test_completions() -> None:
    prompt = tokenize("Once upon a time")
    async with client() as api:
        answer = await api.completions.create(
            model=DEFAULT_MODEL, prompt="Once upon a time", max_tokens=12
        )
        by_ids = await api.completions.create(model=DEFAULT_MODEL, prompt=prompt, max_tokens=12)
    assert answer.choices[0].text == by_ids.choices[0].text == expected_text(prompt, 12)
    assert answer.choices[0].finish_reason == "length"


async def test_embeddings_in_both_encodings() -> None:
    async with client() as api:
        # The client asks for base64 unless told otherwise and decodes it itself.
        packed = await api.embeddings.create(model=DEFAULT_MODEL, input=["a", "b c"])
        plain = await api.embeddings.create(
            model=DEFAULT_MODEL, input="b c", encoding_format="float"
        )
    assert [len(entry.embedding) for entry in packed.data] == [64, 64]
    assert packed.data[1].embedding == pytest.approx(plain.data[0].embedding, abs=1e-6)
    assert plain.data[0].embedding == pytest.approx(embed(tokenize("b c"), 64))
    assert math.hypot(*plain.data[0].embedding) == pytest.approx(1)
    assert plain.usage.prompt_tokens == len(tokenize("b c"))


async def test_models() -> None:
    async with client() as api:
        models = [model async for model in api.models.list()]
    assert [model.id for model in models] == [DEFAULT_MODEL]
    assert models[0].owned_by == "fairlane-emulator"


async def test_an_unknown_model_and_a_long_prompt() -> None:
    long: list[openai.types.chat.ChatCompletionMessageParam] = [
        {"role": "user", "content": "word " * 9000}
    ]
    async with client() as api:
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            await api.chat.completions.create(model="other", messages=MESSAGES)
        with pytest.raises(openai.BadRequestError, match="maximum context length is 8192"):
            await api.chat.completions.create(model=DEFAULT_MODEL, messages=long)
