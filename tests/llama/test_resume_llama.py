"""Pause and continue on the real llama.cpp server, through the gateway."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from scheduler.gateway.exchange import Exchange
from tests.gateway.harness import LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from tests.gateway.pausing import (
    LONG,
    MOST_TOKENS,
    PATIENCE_S,
    Stream,
    checked,
    once,
    pause_all,
    uninterrupted,
)
from tests.gateway.test_resume import events, text_of
from tests.support.engines import EngineProcess, llama_process

pytestmark = [pytest.mark.llama, pytest.mark.timeout(600)]

EMPTY = 64


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
async def site(
    engine: EngineProcess, folder: Path, slots: int = 2, *, eager: bool = False
) -> AsyncIterator[Site]:
    """A gateway that pauses each request once at most."""
    facts = replica(engine.url, engine="llamacpp", slots=slots, served=engine.model)
    async with gate(furnished(facts, policy=once(eager=eager))) as running:
        yield Site(running, engine, folder)


async def paused_with_a_long_prompt(there: Site, number: int, spoil: bytes | None) -> None:
    """A stream is paused and goes on. Meanwhile the snapshot is overwritten with ``spoil``."""
    gateway = there.gateway
    prompt = f"Story {number}. {LONG}"
    tokens = 16
    while (body := await paused(there, prompt, tokens, spoil)) is None:
        # A fast model's answer was over before its pause came.
        tokens *= 2
        assert tokens <= MOST_TOKENS
    usage = checked(body)
    assert usage["completion_tokens"] == tokens
    assert usage["prompt_tokens"] > 1000
    row = next(r for r in reversed(gateway.usage.rows) if r.business == "low")
    whole, text = await uninterrupted(gateway, prompt, tokens), text_of(events(body))
    assert text.startswith(whole[:8])
    if spoil is None:
        assert text == whole
        assert row.recomputed_tokens <= 4
    else:
        assert row.recomputed_tokens >= row.prompt_tokens
    await gateway.until(lambda: gateway.idle and not there.snapshots)


async def paused(there: Site, prompt: str, tokens: int, spoil: bytes | None) -> bytes | None:
    """The answer of a stream that was paused once; None: it was over too soon."""
    gateway, stream = there.gateway, Stream(there.gateway, prompt, tokens)
    before = len(gateway.usage.rows)
    task = asyncio.create_task(stream.read())
    await gateway.until(lambda: stream.pieces >= 4, PATIENCE_S)
    urgent = asyncio.create_task(gateway.chat("Hi", key=URGENT_KEY, max_tokens=6, ignore_eos=True))
    await gateway.until(lambda: there.snapshots or task.done(), PATIENCE_S)
    for path in there.folder.glob("fairlane-*.bin"):
        if spoil is not None and path.stat().st_size > EMPTY:
            path.write_bytes(spoil)
    assert (await urgent).status_code == 200
    body = await task
    rows = (await gateway.rows(before + 2))[before:]
    return body if any(row.preempted for row in rows) else None


async def test_what_was_saved_is_restored_and_what_cannot_be_is_computed_again(
    engine: EngineProcess, folder: Path
) -> None:
    """A context of more than 1,000 tokens."""
    async with site(engine, folder, slots=1, eager=True) as there:
        await paused_with_a_long_prompt(there, 1, None)
        await paused_with_a_long_prompt(there, 2, b"no snapshot at all")


async def test_a_paused_plain_answer_is_whole(engine: EngineProcess, folder: Path) -> None:
    """Streamed from the server, put together here: no echo of its beginning in it."""
    async with site(engine, folder, slots=1, eager=True) as there:
        tokens = 64
        while not await paused_plain(there.gateway, tokens):
            tokens *= 2
            assert tokens <= MOST_TOKENS


async def paused_plain(gateway: Gate, tokens: int) -> bool:
    """Whether a plain answer was paused before it was over; if so, it is as if it had not been."""
    prompt, before = "Tell me about bridges, please.", len(gateway.usage.rows)
    ask = {"key": LOW_KEY, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    whole = (await gateway.chat(prompt, **ask)).json()  # type: ignore[arg-type]
    low = asyncio.create_task(gateway.chat(prompt, **ask))  # type: ignore[arg-type]
    await gateway.until(
        lambda: (
            low.done() or any(e.attempts and e.attempts.produced > 5 for e in _exchanges(gateway))
        ),
        PATIENCE_S,
    )
    urgent = await gateway.chat("Hi", key=URGENT_KEY, max_tokens=2, ignore_eos=True)
    assert urgent.status_code == 200
    paused = (await low).json()
    assert paused["choices"] == whole["choices"]
    assert paused["usage"]["completion_tokens"] == tokens
    assert paused["usage"]["prompt_tokens"] == whole["usage"]["prompt_tokens"]
    return sorted(row.preempted for row in (await gateway.rows(before + 3))[before:]) == [0, 0, 1]


def _exchanges(gateway: Gate) -> list[Exchange]:
    return list(gateway.runtime.gateway.exchanges)


async def test_twenty_prompts_paused_once_each(
    engine: EngineProcess, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both slots are filled by low streams; an urgent call pauses one of them at a random
    point. Each text equals the one that nobody paused, or does so up to a first difference.
    What was restored is not computed again, but for a token or two at the seam."""
    # However fast the model is, and however little of an answer is left.
    async with site(engine, folder, eager=True) as there:
        tally, differences = await pause_all(there.gateway, recomputed=4)
        await there.gateway.until(lambda: there.gateway.idle and not there.snapshots)
    with capsys.disabled():
        print(f"\n  {tally.exact} of 20 exact, {tally.differing} differ from some token on")
        print("".join(f"  {line}\n" for line in differences))
    assert tally.exact + tally.differing == 20
    assert tally.differing <= 5
