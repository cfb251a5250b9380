"""Pause and continue on the real llama.cpp server, through the gateway."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from scheduler.core.policy import Policy
from scheduler.gateway.exchange import Exchange
from tests.gateway.harness import LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from tests.gateway.test_resume import Chunk, events, text_of
from tests.support.engines import EngineProcess, llama_process

pytestmark = [pytest.mark.llama, pytest.mark.timeout(600)]

TOKENS = 28
PATIENCE_S = 60.0
EMPTY = 64
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


@dataclass
class Site:
    """A gateway over one real server, whose slots are saved to ``folder``."""

    gateway: Gate
    engine: EngineProcess
    folder: Path

    @property
    def snapshots(self) -> list[int]:
        """Sizes of the files that hold something."""
        sizes = [path.stat().st_size for path in self.folder.glob("fairlane-*.bin")]
        return [size for size in sizes if size > EMPTY]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server of this module saves its slots."""
    return tmp_path_factory.mktemp("slots")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[EngineProcess]:
    """A server of its own: two slots."""
    with llama_process("--slot-dir", str(folder)) as server:
        yield server


@asynccontextmanager
async def site(engine: EngineProcess, folder: Path, slots: int = 2) -> AsyncIterator[Site]:
    """A gateway that pauses each request once at most."""
    policy = Policy()
    rules = replace(policy.preemption, max_per_request=1)
    facts = replica(engine.url, engine="llamacpp", slots=slots, served=engine.model)
    memory = furnished(facts, policy=replace(policy, preemption=rules))
    async with gate(memory) as running:
        yield Site(running, engine, folder)


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


async def uninterrupted(there: Site, prompt: str, tokens: int = TOKENS) -> str:
    """The text that nobody paused."""
    return text_of(events(await there.gateway.streamed(**low(prompt, tokens))))  # type: ignore[arg-type]


class Stream:
    """A low stream being read, and its text so far."""

    def __init__(self, there: Site, prompt: str, tokens: int = TOKENS) -> None:
        self.body = b""
        self._there = there
        self._ask = low(prompt, tokens)

    async def read(self) -> bytes:
        async with self._there.gateway.stream(**self._ask) as response:  # type: ignore[arg-type]
            assert response.status_code == 200
            async for chunk in response.aiter_bytes():
                self.body += chunk
        return self.body

    @property
    def pieces(self) -> int:
        return self.body.count(b'"content":"')


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
    assert not any("timings" in chunk for chunk in chunks if chunk["choices"])
    usage: Chunk = chunks[-1]["usage"]
    return usage


LONG = "The river runs past the old mill and the boy counts the boats. " * 72


async def paused_with_a_long_prompt(there: Site, number: int, spoil: bytes | None) -> float:
    """Seconds from the end of the urgent call to the paused stream's next text. Meanwhile the
    snapshot is overwritten with ``spoil``."""
    gateway = there.gateway
    prompt = f"Story {number}. {LONG}"
    whole = await uninterrupted(there, prompt, 16)
    stream = Stream(there, prompt, 16)
    task = asyncio.create_task(stream.read())
    await gateway.until(lambda: stream.pieces >= 4, PATIENCE_S)
    urgent = asyncio.create_task(gateway.chat("Hi", key=URGENT_KEY, max_tokens=6, ignore_eos=True))
    await gateway.until(lambda: there.snapshots, PATIENCE_S)
    seen = stream.pieces
    if spoil is not None:
        for path in there.folder.glob("fairlane-*.bin"):
            if path.stat().st_size > EMPTY:
                path.write_bytes(spoil)
    assert (await urgent).status_code == 200
    took = await gateway.until(lambda: stream.pieces > seen, PATIENCE_S)
    body = await task
    assert checked(body)["completion_tokens"] == 16
    assert checked(body)["prompt_tokens"] > 1000
    text = text_of(events(body))
    assert text.startswith(whole[:8])
    await gateway.until(lambda: gateway.idle)
    row = next(r for r in reversed(gateway.usage.rows) if r.business == "low")
    if spoil is None:
        assert text == whole
        assert row.recomputed_tokens <= 4
    else:
        assert row.recomputed_tokens >= row.prompt_tokens
    await gateway.until(lambda: gateway.idle and not there.snapshots)
    return took


async def test_restoring_beats_computing_again(
    engine: EngineProcess, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A context of more than 1,000 tokens. What can't be restored is computed again."""
    async with site(engine, folder, slots=1) as there:
        restored = await paused_with_a_long_prompt(there, 1, None)
        computed = await paused_with_a_long_prompt(there, 2, b"no snapshot at all")
    with capsys.disabled():
        print(
            f"\n  first token after a pause: {restored:.2f} s restored, {computed:.2f} s computed"
        )
    assert restored < computed / 2


async def test_a_paused_plain_answer_is_whole(engine: EngineProcess, folder: Path) -> None:
    """Streamed from the server, put together here: no echo of its beginning in it."""
    prompt = "Tell me about bridges, please."
    async with site(engine, folder, slots=1) as there:
        gateway = there.gateway
        ask = {"key": LOW_KEY, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
        whole = (await gateway.chat(prompt, **ask)).json()  # type: ignore[arg-type]
        low = asyncio.create_task(gateway.chat(prompt, **ask))  # type: ignore[arg-type]
        await gateway.until(
            lambda: any(e.attempts and e.attempts.produced > 5 for e in _exchanges(gateway)),
            PATIENCE_S,
        )
        urgent = await gateway.chat("Hi", key=URGENT_KEY, max_tokens=2, ignore_eos=True)
        assert urgent.status_code == 200
        paused = (await low).json()
        assert paused["choices"] == whole["choices"]
        assert paused["usage"]["completion_tokens"] == 24
        assert paused["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]
        assert sorted(row.preempted for row in await gateway.rows(3)) == [0, 0, 1]


def _exchanges(gateway: Gate) -> list[Exchange]:
    return list(gateway.runtime.gateway.exchanges)


async def both_at(there: Site, streams: list[Stream], pieces: int) -> None:
    """Wait until each has so many pieces of text."""
    await there.gateway.until(lambda: all(s.pieces >= pieces for s in streams), PATIENCE_S)


async def test_twenty_prompts_paused_once_each(
    engine: EngineProcess, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both slots are filled by low streams; an urgent call pauses one of them at a random
    point. Each text equals the one that nobody paused, or does so up to a first difference."""
    draw = random.Random(20)
    exact = differing = 0
    async with site(engine, folder) as there:
        for first, second in zip(PROMPTS[::2], PROMPTS[1::2], strict=True):
            whole = await asyncio.gather(
                *(uninterrupted(there, prompt) for prompt in (first, second))
            )
            before = len(there.gateway.usage.rows)
            streams = [Stream(there, prompt) for prompt in (first, second)]
            tasks = [asyncio.create_task(stream.read()) for stream in streams]
            for at in sorted(draw.randrange(1, 7) for _ in range(2)):
                await both_at(there, streams, at)
                urgent = await there.gateway.chat(
                    "Hi", key=URGENT_KEY, max_tokens=2, ignore_eos=True
                )
                assert urgent.status_code == 200
            bodies = await asyncio.gather(*tasks)
            rows = await there.gateway.rows(before + 4)
            paused = [r.attempts - 1 for r in rows[before:] if r.business == "low"]
            assert paused == [1, 1]
            assert sorted(r.preempted for r in rows[before:]) == [0, 0, 1, 1]
            # What was restored is not computed again, but for a token or two at the seam.
            assert max(r.recomputed_tokens for r in rows[before:]) <= 4
            for prompt, body, expected in zip((first, second), bodies, whole, strict=True):
                usage = checked(body)
                assert usage["completion_tokens"] == TOKENS, prompt
                text = text_of(events(body))
                if text == expected:
                    exact += 1
                    continue
                differing += 1
                same = next(
                    (i for i, (a, b) in enumerate(zip(text, expected, strict=False)) if a != b),
                    min(len(text), len(expected)),
                )
                with capsys.disabled():
                    print(f"\n  differs after {same} characters of {len(expected)}: {prompt}")
        await there.gateway.until(lambda: there.gateway.idle and not there.snapshots)
    with capsys.disabled():
        print(f"\n  {exact} of 20 exact, {differing} differ from some token on")
    assert exact + differing == 20
    assert differing <= 5
