"""What the scheduler is told of how a prompt begins, and of which conversation it is a part."""

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from scheduler.core.ticket import PREFIX_BLOCK
from scheduler.gateway.payload import parse
from scheduler.gateway.prefix import MOST_BLOCKS, blocks_of

from .engines import Served
from .harness import KEY, LOW_KEY, chat_body, furnished, gate, replica
from .raw import CHAT
from .spying import Told
from .stub import Stub

BLOCK_BYTES = PREFIX_BLOCK * 4
Json = dict[str, object]
SYSTEM: Json = {"role": "system", "content": "You are a patient clerk of a small railway. " * 40}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def compact(value: object) -> bytes:
    """As JSON.stringify and OpenAI's Python client write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def spaced(value: object) -> bytes:
    """As Python's json and requests write it: spaces, and escapes for what is not ASCII."""
    return json.dumps(value).encode()


def pretty(value: object) -> bytes:
    return json.dumps(value, indent=2).encode()


def chat(
    messages: list[Json], write: Callable[[object], bytes] = compact, /, **more: object
) -> tuple[int, ...]:
    """The blocks of a chat call with these messages."""
    body = {"model": "chat", **more, "messages": messages}
    return blocks_of(parse(write(body), "chat"), "chat")


def completion(prompt: object, **more: object) -> tuple[int, ...]:
    """The blocks of a completion call."""
    body = compact({"model": "chat", "prompt": prompt, **more})
    return blocks_of(parse(body, "text_completion"), "text_completion")


def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    """How many blocks two prompts begin with alike. Beyond the first difference none may match."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    assert not set(one[count:]) & set(other[count:])
    return count


TURNS: list[Json] = [
    SYSTEM,
    user('When does the first train leave? 几点 \U0001f682 \\ " </script>\n'),
    {"role": "assistant", "content": "At six in the morning, from the second platform. " * 20},
    user("And the last one?"),
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
    {"role": "tool", "tool_call_id": "1", "content": "23:40"},
    user("Thank you."),
]


@pytest.mark.parametrize("write", [compact, spaced, pretty])
def test_a_later_turn_begins_with_all_blocks_of_the_earlier_ones(
    write: Callable[[object], bytes],
) -> None:
    """However its client writes JSON, so long as it writes it always so."""
    longer = chat(TURNS, write)
    assert len(longer) > 10
    for turns in range(1, len(TURNS)):
        blocks = chat(TURNS[:turns], write)
        assert blocks
        assert longer[: len(blocks)] == blocks


def test_there_is_one_block_for_each_full_sixty_four_tokens() -> None:
    """By the estimate that the ticket's prompt has too, so that the two can be compared."""
    for size in (0, 100, 1000, 5000):
        body = compact({"model": "chat", "messages": [user("x" * size)]})
        payload = parse(body, "chat")
        assert len(blocks_of(payload, "chat")) in (
            payload.prompt_tokens // PREFIX_BLOCK,
            (payload.prompt_tokens - 1) // PREFIX_BLOCK,
        )


def test_the_shared_beginning_of_different_conversations_is_shared() -> None:
    one, other = chat([SYSTEM, user("a" * 1000)]), chat([SYSTEM, user("b" * 1000)])
    same = len(compact([SYSTEM, user("")])) - len('"}]')
    assert shared(one, other) == same // BLOCK_BYTES


def test_another_system_prompt_shares_nothing_behind_the_change() -> None:
    changed = {**SYSTEM, "content": str(SYSTEM["content"]).replace("patient", "hurried", 1)}
    assert shared(chat([SYSTEM, *TURNS[1:]]), chat([changed, *TURNS[1:]])) == 0
    late = {**SYSTEM, "content": f"{SYSTEM['content']}It is Tuesday."}
    later = {**SYSTEM, "content": f"{SYSTEM['content']}It is Wednesday."}
    found = shared(chat([late, *TURNS[1:]]), chat([later, *TURNS[1:]]))
    assert found == len(compact([SYSTEM])) // BLOCK_BYTES


def test_one_conversation_written_in_two_ways_is_two() -> None:
    """A client that puts other spaces between turns loses its place, and nothing else."""
    assert shared(chat(TURNS, compact), chat(TURNS, spaced)) == 0
    assert shared(chat(TURNS, spaced), chat(TURNS, pretty)) == 0


def test_parts_and_pictures_are_like_text() -> None:
    def looking(picture: str, question: str) -> list[Json]:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
        parts: list[object] = [{"type": "text", "text": "What is it? "}, image]
        parts.append({"type": "text", "text": question})
        return [SYSTEM, {"role": "user", "content": parts}]

    one = chat(looking("A" * 9000, "a fox?"))
    assert shared(one, chat(looking("A" * 9000, "a dog? " * 99))) >= len(one) - 1
    head = len(compact(looking("", ""))) // BLOCK_BYTES
    assert head - 1 <= shared(one, chat(looking("B" * 9000, "a fox?"))) <= head


APART: list[Json] = [
    {},
    {"model": "other"},
    {"cache_salt": "a"},
    {"cache_salt": "b"},
    {"extra_key": "a"},
    {"tools": [{"type": "function", "function": {"name": "time"}}]},
    {"tools": [{"type": "function", "function": {"name": "date"}}]},
    {"functions": [{"name": "time"}]},
    {"lora_path": "a"},
    {"chat_template": "{{ messages }}"},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"reasoning_effort": "low"},
    {"documents": [{"text": "a"}]},
    {"cache_salt": "a", "lora_path": "a"},
]


def test_what_an_engine_keeps_apart_shares_nothing() -> None:
    """Not a single block, whatever the prompts have in common."""
    found = [chat(TURNS, **more) for more in APART]
    assert len({block for blocks in found for block in blocks}) == sum(map(len, found))
    texts = [completion("word " * 500, **more) for more in APART]
    assert len({block for blocks in texts for block in blocks}) == sum(map(len, texts))


def test_what_no_engine_minds_is_shared_all_the_same() -> None:
    plain = chat(TURNS)
    for more in (
        {"temperature": 0.5},
        {"stream": True, "max_tokens": 7},
        {"cache_salt": None, "tools": None},
        {"user": "somebody", "prompt_cache_key": "x", "tool_choice": "none"},
    ):
        assert chat(TURNS, **more) == plain


def test_texts_and_token_ids_have_blocks_and_several_prompts_have_none() -> None:
    text = completion("word " * 500)
    assert len(text) == 2500 // BLOCK_BYTES
    assert completion("word " * 900)[: len(text)] == text
    ids = completion(list(range(1000, 2000)))
    assert len(ids) == 5000 // BLOCK_BYTES - (5000 % BLOCK_BYTES == 0)
    assert completion(list(range(1000, 2500)))[: len(ids)] == ids
    assert completion(["word " * 500]) == completion(["word " * 500, "more"]) == ()
    assert completion([[1, 2, 3] * 500, [4]]) == completion([]) == completion([" 1" * 900]) == ()


def test_embeddings_have_none() -> None:
    body = compact({"model": "chat", "input": "word " * 500})
    assert blocks_of(parse(body, "embeddings"), "embeddings") == ()


def test_a_huge_prompt_has_no_more_than_so_many_blocks() -> None:
    """The chain just ends: a longer prompt begins with the same ones."""
    found = chat([SYSTEM, user("x" * 3_000_000)])
    assert len(found) == MOST_BLOCKS
    assert chat([SYSTEM, user("x" * 3_000_000), user("more")]) == found
    assert shared(found, chat([SYSTEM, user("x" * 200_000)])) == MOST_BLOCKS
    for size in range(MOST_BLOCKS * BLOCK_BYTES - 40, MOST_BLOCKS * BLOCK_BYTES + 40):
        short, long = completion("y" * size), completion("y" * (size + BLOCK_BYTES))
        assert long[: len(short)] == short


def test_blanks_before_the_end_are_no_part_of_the_prompt() -> None:
    inner = compact([SYSTEM])[:-1]
    bodies = [b'{"model":"chat","messages":' + inner + b" " * n + b"]}" for n in (0, 700, 900_000)]
    first, second, third = (blocks_of(parse(body, "chat"), "chat") for body in bodies)
    assert first == second
    assert third[: len(first)] == first
    assert len(third) == MOST_BLOCKS


def test_what_is_too_long_to_be_told_apart_has_no_blocks() -> None:
    long = "x" * 300_000
    assert chat(TURNS, cache_salt=long) == chat(TURNS, tools=[long]) == ()
    assert chat(TURNS, cache_salt=long[:100_000], lora_path=long[:100_000]) != ()


PRINT = """
import json
from scheduler.gateway.payload import parse
from scheduler.gateway.prefix import blocks_of
body = json.dumps({"model": "chat", "messages": [{"role": "user", "content": "word " * 400}]})
print(*blocks_of(parse(body.encode(), "chat"), "chat"))
"""


def test_nobody_outside_can_know_a_block() -> None:
    """Two processes give other ones to the same prompt, also where Python's own hashes are known:
    so nobody can make two prompts meet, or tell a prompt by its blocks."""
    found = [
        subprocess.run(
            [sys.executable, "-c", PRINT],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": "0"},
            capture_output=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert len(found[0]) == len(found[1]) == 7
    assert not set(found[0]) & set(found[1])


async def test_the_scheduler_is_told_by_openai_s_own_client(emulator: Served, core: Told) -> None:
    """Two turns as an application has them: the answer's message goes into the next call."""
    turns: list[ChatCompletionMessageParam] = [
        {"role": "system", "content": str(SYSTEM["content"])},
        {"role": "user", "content": "Sag: schöne Grüße \U0001f98a " * 30},
    ]
    async with emulator.gate() as running:
        client = AsyncOpenAI(api_key=KEY, base_url=f"{running.url}/v1", max_retries=0)
        async with client:
            for _ in range(3):
                answer = await client.chat.completions.create(
                    model="chat", messages=turns, max_tokens=300
                )
                said = answer.choices[0].message
                turns += [
                    said.to_dict(),  # type: ignore[list-item]
                    {"role": "user", "content": "Und weiter?"},
                ]
        first, second, third = (ticket.blocks for ticket in core.tickets)
        assert len(first) >= 10
        assert len(third) > len(second) > len(first)
        assert second[: len(first)] == first
        assert third[: len(second)] == second


async def test_an_embedding_s_ticket_has_no_blocks(emulator: Served, core: Told) -> None:
    async with emulator.gate() as running:
        answer = await running.client.post(
            "/v1/embeddings",
            json={"model": "chat", "input": "word " * 500},
            headers=running.headers(),
        )
        assert answer.status_code == 200
        [ticket] = core.tickets
        assert (ticket.blocks, ticket.prompt) == ((), 0)


# Conversations.


Call = tuple[str, dict[str, str], Json]
Sessions = Callable[..., Awaitable[tuple[list[str], list[httpx.Response]]]]


@pytest.fixture
def sessions(engine: Stub, core: Told) -> Sessions:
    """What the tickets of calls say, each with a key, headers and fields."""

    async def found(*calls: Call) -> tuple[list[str], list[httpx.Response]]:
        answers = []
        async with gate(furnished(replica(engine.url))) as running:
            for key, headers, more in calls:
                given = [(name.encode(), value.encode()) for name, value in headers.items()]
                answers.append(
                    await running.client.post(
                        CHAT,
                        content=compact(chat_body("hello", **more)),
                        headers=[
                            (b"content-type", b"application/json"),
                            (b"authorization", f"Bearer {key}".encode()),
                            *given,
                        ],
                    )
                )
        return [ticket.session for ticket in core.tickets], answers

    return found


async def test_a_conversation_is_named_by_header_or_by_openai_s_field(sessions: Sessions) -> None:
    found, _ = await sessions(
        (KEY, {}, {}),
        (KEY, {"X-Session-Id": "talk-7"}, {}),
        (KEY, {"session-id": "talk-7"}, {}),
        (KEY, {"x-SESSION-id": "talk-7"}, {"prompt_cache_key": "talk-8"}),
        (KEY, {}, {"prompt_cache_key": "talk-7"}),
        (KEY, {}, {"prompt_cache_key": "talk-8"}),
        (KEY, {}, {"user": "talk-7", "session_id": "talk-7"}),
    )
    nothing, first, *same, other, by_user = found
    assert nothing == by_user == ""
    assert first
    assert same == [first] * 3
    assert other not in ("", first)


async def test_businesses_never_meet_in_a_conversation(sessions: Sessions) -> None:
    found, _ = await sessions(
        (KEY, {"X-Session-Id": "1"}, {}),
        (LOW_KEY, {"X-Session-Id": "1"}, {}),
        (LOW_KEY, {}, {"prompt_cache_key": "owner:1"}),
        (LOW_KEY, {"X-Session-Id": "ner:1"}, {}),
    )
    assert len(set(found)) == 4


@pytest.mark.parametrize("name", ["x" * 257, "caf\u00e9", "a\tb", ""])
async def test_a_name_that_is_none_is_passed_over(sessions: Sessions, name: str) -> None:
    """A part of it could be somebody else's. It is no reason to refuse a call."""
    found, answers = await sessions(
        (KEY, {"X-Session-Id": name}, {}),
        (KEY, {}, {"prompt_cache_key": name}),
        (KEY, {}, {"prompt_cache_key": "x" * 256}),
    )
    assert found[:2] == ["", ""]
    assert found[2]
    assert [answer.status_code for answer in answers] == [200] * 3


@pytest.mark.parametrize("value", [7, None, ["a"], {"a": 1}, True])
async def test_what_is_no_name_is_the_engine_s_to_judge(
    engine: Stub, sessions: Sessions, value: object
) -> None:
    found, answers = await sessions((KEY, {}, {"prompt_cache_key": value}))
    assert (found, answers[0].status_code) == ([""], 200)
    assert engine.seen[0].json["prompt_cache_key"] == value


async def test_the_header_goes_no_further_and_the_field_as_it_came(
    engine: Stub, sessions: Sessions
) -> None:
    await sessions((KEY, {"X-Session-Id": "talk-7"}, {"prompt_cache_key": "talk-8"}))
    [seen] = engine.seen
    assert seen.header("x-session-id") is None
    assert seen.header("session-id") is None
    assert seen.json["prompt_cache_key"] == "talk-8"
    assert "talk-7" not in str(seen.json)
