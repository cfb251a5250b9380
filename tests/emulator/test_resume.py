"""An answer that is cut and continued equals one that was not."""

import asyncio
import json
import random
from typing import cast

import pytest

from scheduler.emulator.answers import expected_ids, expected_text, is_open
from scheduler.emulator.prompts import chat_prompt_ids
from scheduler.emulator.settings import Settings

from .servers import CHAT, SLOW, Json, Served, chat, content, served

ASKS = ["What is a queue?", "请说明优先级。", "Tell me about 👩‍💻 and 🚦"]
LENGTH = 200


def turns(ask: str) -> list[Json]:
    return [{"role": "user", "content": ask}]


@pytest.mark.parametrize("ask", ASKS)
async def test_by_token_ids_at_any_cut_between_characters(ask: str) -> None:
    prompt = chat_prompt_ids([("user", ask)])
    whole = expected_ids(prompt, LENGTH)
    cuts = [cut for cut in range(1, LENGTH) if not is_open(whole[:cut])]
    async with served() as server:

        async def rest(cut: int) -> str:
            answer = await server.http.post(
                "/v1/completions",
                json={
                    "model": "org/Model-7B",
                    "prompt": [*prompt, *whole[:cut]],
                    "max_tokens": LENGTH - cut,
                    "ignore_eos": True,
                },
            )
            return str(answer.json()["choices"][0]["text"])

        picked = random.Random(1).sample(cuts, 20)
        found = await asyncio.gather(*map(rest, picked))
    text = expected_text(prompt, LENGTH)
    for cut, more in zip(picked, found, strict=True):
        assert expected_text(prompt, cut) + more == text


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("ask", ASKS)
async def test_by_a_trailing_assistant_message_at_any_cut(ask: str, stream: bool) -> None:
    text = expected_text(chat_prompt_ids([("user", ask)]))
    async with served() as server:
        for cut in random.Random(2).sample(range(1, len(text)), 8):
            partial: Json = {"role": "assistant", "content": text[:cut]}
            more = await continued(server, [*turns(ask), partial], stream=stream)
            assert text[:cut] + more == text


async def continued(server: Served, messages: list[Json], *, stream: bool) -> str:
    wish = {"continue_final_message": True, "add_generation_prompt": False}
    if stream:
        return content(await server.chunks(CHAT, messages=messages, **wish))
    answer = (await server.chat(messages=messages, **wish)).json()
    return str(answer["choices"][0]["message"]["content"])


async def test_a_stream_broken_off_and_continued_on_another_server() -> None:
    ask = ASKS[0]
    async with served(Settings(service=SLOW)) as one, served() as other:
        ids: list[int] = []
        prompt: list[int] = []
        body = chat(messages=turns(ask), stream=True, return_token_ids=True)
        async with one.http.stream("POST", "/v1/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: "):
                    continue
                chunk = cast("Json", json.loads(line.removeprefix("data: ")))
                prompt = prompt or cast("list[int]", chunk["prompt_token_ids"])
                (choice,) = cast("list[Json]", chunk["choices"])
                ids += cast("list[int]", choice.get("token_ids", []))
                if len(ids) >= 12:
                    break
        rest = await other.http.post(
            "/v1/completions",
            json={"model": "org/Model-7B", "prompt": prompt + ids, "max_tokens": 4000},
        )
    choice = rest.json()["choices"][0]
    assert expected_text(prompt, len(ids)) + choice["text"] == expected_text(prompt)
    assert choice["finish_reason"] == "stop"
    usage = rest.json()["usage"]
    assert usage["prompt_tokens"] == len(prompt) + len(ids)
    assert len(ids) + usage["completion_tokens"] == len(expected_ids(prompt))


async def test_on_the_same_server_it_is_a_prefix_hit() -> None:
    ask = "word " * 100
    prompt = chat_prompt_ids([("user", ask)])
    ids = expected_ids(prompt, 50)
    async with served() as server:
        await server.chat(messages=turns(ask), max_tokens=50, ignore_eos=True)
        rest = await server.http.post(
            "/v1/completions",
            json={"model": "org/Model-7B", "prompt": prompt + ids, "max_tokens": 5},
        )
    cached = rest.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached == (len(prompt) + 49) // 16 * 16
