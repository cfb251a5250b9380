"""Streams of a real model, read while they are paused: what they ask for, and what they must
look like in the end."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from metering.core.usage import UsageRow
from scheduler.core.policy import Policy

from .harness import LOW_KEY, URGENT_KEY, Gate
from .test_resume import Chunk, events, text_of

TOKENS = 28
# The longest answer that is tried where a fast model outruns the pause.
MOST_TOKENS = 32 * TOKENS
PATIENCE_S = 60.0
PROMPTS = [
    "Name three rivers of Europe.",
    "用中文写一句关于春天的话。",
    "Repeat after me: 🎉🎊🥳 party 🎉🎊🥳",
    "Write a haiku about the sea.",
    "中国的首都是哪里?请用中文回答。",
    "What is 12 times 12?",
    "Tell me a joke about cats 🐱.",
    "请把这句话重复三遍:你好,世界!",
    "List five fruits with an emoji each 🍎🍌.",
    "Explain gravity to a child.",
    "Translate to Chinese: good morning.",
    "Who wrote Faust?",
    "写出五个中国城市的名字。",
    "Give me a recipe for tea ☕.",
    "What is the capital of Japan? 日本の首都は?",
    "Count from one to ten.",
    "Describe the moon 🌕 in two sentences.",
    "天空为什么是蓝色的?",
    "Write the alphabet.",
    "Complete: Once upon a time",
]
LONG = "The river runs past the old mill and the boy counts the boats. " * 72


def once(*, eager: bool = False) -> Policy:
    """Pauses each request once at most; ``eager``: whenever there is anything to win."""
    policy = Policy()
    rules = replace(policy.preemption, max_per_request=1)
    if eager:
        rules = replace(rules, margin_ms=0, weights=replace(rules.weights, P0=10_000.0))
    return replace(policy, preemption=rules)


def low(prompt: str, tokens: int = TOKENS) -> dict[str, object]:
    """What is asked for: always the same answer, of so many tokens."""
    return {
        "prompt": prompt,
        "key": LOW_KEY,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream_options": {"include_usage": True},
    }


async def uninterrupted(gateway: Gate, prompt: str, tokens: int = TOKENS) -> str:
    """The text that nobody paused."""
    return text_of(events(await gateway.streamed(**low(prompt, tokens))))  # type: ignore[arg-type]


async def urgently(gateway: Gate, tokens: int = 2) -> None:
    """An urgent call, which takes somebody's slot."""
    answer = await gateway.chat("Hi", key=URGENT_KEY, max_tokens=tokens, ignore_eos=True)
    assert answer.status_code == 200


class Stream:
    """A low stream being read, and its text so far."""

    def __init__(self, gateway: Gate, prompt: str, tokens: int = TOKENS) -> None:
        self.body = b""
        self._gateway = gateway
        self._ask = low(prompt, tokens)

    async def read(self) -> bytes:
        """All of it."""
        async with self._gateway.stream(**self._ask) as response:  # type: ignore[arg-type]
            assert response.status_code == 200
            async for chunk in response.aiter_bytes():
                self.body += chunk
        return self.body

    @property
    def pieces(self) -> int:
        """Events with text."""
        return self.body.count(b'"content":"') - self.body.count(b'"content":""')


def checked(body: bytes) -> Chunk:
    """One answer in form: id, model, role, finish, [DONE], UTF-8; returns its usage."""
    chunks = events(body)
    assert body.count(b"data: [DONE]") == 1
    assert b"error" not in body
    assert b"\xef\xbf\xbd" not in body
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["model"] for chunk in chunks} == {"chat"}
    roles = [c["delta"].get("role") for chunk in chunks for c in chunk["choices"]]
    assert [role for role in roles if role] in ([], ["assistant"])
    finishes = [c["finish_reason"] for chunk in chunks for c in chunk["choices"]]
    assert [finish for finish in finishes if finish] == ["length"]
    for told in ("timings", "token_ids", "prompt_token_ids", "prompt_text"):
        assert f'"{told}"'.encode() not in body.split(b'"usage":{')[0], told
    usage: Chunk = chunks[-1]["usage"]
    return usage


@dataclass
class Tally:
    """How many paused answers equal the ones that nobody paused."""

    exact: int = 0
    differing: int = 0

    def compare(self, prompt: str, text: str, whole: str) -> str:
        """Count one; says where it differs."""
        if text == whole:
            self.exact += 1
            return ""
        self.differing += 1
        pairs = enumerate(zip(text, whole, strict=False))
        same = next((i for i, (a, b) in pairs if a != b), min(len(text), len(whole)))
        return f"differs after {same} characters of {len(whole)}: {prompt}"


async def pause_all(gateway: Gate, recomputed: int) -> tuple[Tally, list[str]]:
    """Two prompts at a time, each paused once by an urgent call at a random point. Checks form
    and rows, ``recomputed`` tokens at most; returns how the texts compare, and where not."""
    draw, tally, said = random.Random(20), Tally(), []
    for prompts in zip(PROMPTS[::2], PROMPTS[1::2], strict=True):
        points = sorted(draw.randrange(1, 7) for _ in range(2))
        tokens = TOKENS
        while (found := await pause_both(gateway, prompts, points, tokens)) is None:
            # A fast model's answer was over before its pause came.
            tokens *= 2
            assert tokens <= MOST_TOKENS, prompts
        rows, bodies, whole = found
        assert [r.attempts - 1 for r in rows if r.business == "low"] == [1, 1]
        assert max(r.recomputed_tokens for r in rows) <= recomputed
        for prompt, body, expected in zip(prompts, bodies, whole, strict=True):
            assert checked(body)["completion_tokens"] == tokens, prompt
            said.append(tally.compare(prompt, text_of(events(body)), expected))
    return tally, [line for line in said if line]


async def pause_both(
    gateway: Gate, prompts: Sequence[str], points: Sequence[int], tokens: int
) -> tuple[list[UsageRow], list[bytes], list[str]] | None:
    """Rows, answers, and the answers that nobody paused; None: one was over too soon."""
    before = len(gateway.usage.rows) + len(prompts)
    whole = await asyncio.gather(*(uninterrupted(gateway, prompt, tokens) for prompt in prompts))
    # A row may be written after its caller has read the answer.
    await gateway.rows(before)
    streams = [Stream(gateway, prompt, tokens) for prompt in prompts]
    tasks = [asyncio.create_task(stream.read()) for stream in streams]
    for at in points:
        await both_at(gateway, streams, tasks, at)
        await urgently(gateway)
    bodies = await asyncio.gather(*tasks)
    rows = (await gateway.rows(before + 4))[before:]
    if sorted(r.preempted for r in rows) != [0, 0, 1, 1]:
        return None
    return rows, bodies, whole


async def both_at(
    gateway: Gate, streams: list[Stream], tasks: list[asyncio.Task[bytes]], pieces: int
) -> None:
    """Wait until each has so many pieces of text, or has ended."""
    both = list(zip(streams, tasks, strict=True))
    await gateway.until(
        lambda: all(s.pieces >= pieces or task.done() for s, task in both), PATIENCE_S
    )
