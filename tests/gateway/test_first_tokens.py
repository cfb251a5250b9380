"""When the scheduler hears of an answer's tokens, and of what the engine had in its cache."""

import asyncio
from dataclasses import replace

import pytest

from scheduler.calls import Placed
from scheduler.core.events import Failed, Finished
from scheduler.emulator.app import listen
from scheduler.emulator.engine import ServiceModel
from scheduler.emulator.settings import Settings
from scheduler.gateway.asgi_types import Message
from scheduler.gateway.payload import parse
from scheduler.gateway.relay import Attempt
from scheduler.gateway.reply import Reply
from scheduler.gateway.sse import Tap
from scheduler.gateway.usage import Usage

from .harness import KEY, LOW_KEY, Gate, furnished, gate, replica
from .spying import Told
from .stub import DONE, Seen, Stub, Wire, chat_answer, delta, event, stub, usage_event

# Nothing could go on from an answer with tools: it has no story.
TOOLS: dict[str, object] = {"tools": [], "tool_choice": "none"}


class Paced:
    """A stream whose role comes at once, each token when it is let go."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.rest = asyncio.Event()
        self.begun = asyncio.Event()
        self.token = delta("Once")

    async def __call__(self, seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(event({**ROLE, "model": "chat"}))
        self.begun.set()
        await self.first.wait()
        await wire.chunk(self.token)
        await self.rest.wait()
        for piece in (delta(" upon"), delta(None, finish="stop"), usage_event(), DONE):
            await wire.chunk(piece)
        await wire.end_stream()


ROLE: dict[str, object] = {
    "id": "c-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
}


def reasoning(name: str) -> bytes:
    choice = {"index": 0, "delta": {name: "Hm"}, "finish_reason": None}
    return event({**ROLE, "model": "chat", "choices": [choice]})


@pytest.mark.parametrize(
    ("engine_name", "key", "more"),
    [
        ("vllm", KEY, {"stream": True}),
        ("vllm", KEY, {"stream": True, **TOOLS}),
        ("llamacpp", KEY, {"stream": True}),
        ("llamacpp", KEY, {"stream": True, **TOOLS}),
        # Plain for the caller, a stream upstream: as it may be paused, or as the engine wants it.
        ("vllm", LOW_KEY, {}),
        ("llamacpp", KEY, {}),
        ("llamacpp", LOW_KEY, TOOLS),
    ],
)
async def test_the_first_token_is_told_when_it_comes(
    core: Told, engine_name: str, key: str, more: dict[str, object]
) -> None:
    """Not at the head, not at the end, and once; who reads the answer makes no difference."""
    paced = Paced()
    async with (
        stub(paced) as server,
        gate(furnished(replica(server.url, engine=engine_name))) as running,
    ):
        call = asyncio.create_task(running.chat("hello", key=key, headers=None, **more))
        await paced.begun.wait()
        await running.until(lambda: running.running == 1)
        assert core.progress == []
        before = running.runtime.gateway.clock.now()
        paced.first.set()
        await running.until(lambda: core.progress)
        [first] = core.progress
        assert (first.attempt, first.tokens) == (1, 1)
        assert core.of(Finished) == []
        told_at = core.timed[core.events.index(first)][0]
        paced.rest.set()
        assert (await call).status_code == 200
        await running.rest()
        assert before <= core.finished.first <= told_at
        assert len(core.progress) == 1 or core.progress[1].tokens == 2


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("more", [{}, TOOLS])
async def test_a_thought_is_a_token_too(core: Told, name: str, more: dict[str, object]) -> None:
    paced = Paced()
    paced.token = reasoning(name)
    paced.first.set()
    async with stub(paced) as server, gate(furnished(replica(server.url))) as running:
        call = asyncio.create_task(running.streamed("hello", key=KEY, **more))
        await running.until(lambda: core.progress)
        assert core.progress[0].tokens == 1
        paced.rest.set()
        assert b'"Hm"' in await call


async def test_a_thought_stays_in_an_answer_that_is_put_together(core: Told) -> None:
    """Under the name that the engine gave it."""
    paced = Paced()
    paced.token = reasoning("reasoning")
    paced.first.set()
    paced.rest.set()
    async with (
        stub(paced) as server,
        gate(furnished(replica(server.url, engine="llamacpp"))) as running,
    ):
        message = (await running.chat()).json()["choices"][0]["message"]
        assert (message["reasoning"], message["content"]) == ("Hm", " upon")
        assert "reasoning_content" not in message


async def test_of_a_plain_answer_nothing_is_told(core: Told, engine: Stub) -> None:
    """It comes as a whole: its end must not be taken for its first token."""
    async with gate(furnished(replica(engine.url))) as running:
        assert (await running.chat()).status_code == 200
        row = await running.row()
        await running.rest()
    assert core.progress == []
    assert core.finished.first == 0
    assert core.finished.output == row.completion_tokens > 0
    # The caller's own first byte is on the books all the same.
    assert row.first_byte > row.received


async def test_an_embedding_s_answer_is_its_first_word(core: Told) -> None:
    """It has no tokens: what counts is when it came."""
    async with listen(Settings()) as emulator:
        facts = replica(emulator.url, served="org/Model-7B")
        async with gate(furnished(facts)) as running:
            answer = await running.client.post(
                "/v1/embeddings",
                json={"model": "chat", "input": "hello"},
                headers=running.headers(),
            )
            assert answer.status_code == 200
            row = await running.row()
            await running.rest()
    assert core.progress == []
    # The row's dates are those of the wall clock, which is another one.
    assert abs(core.finished.first - row.first_byte) < 1_000_000_000
    assert row.first_byte > 0


async def test_a_long_answer_is_told_of_once_a_second(core: Told) -> None:
    """With the tokens so far, from events that pass."""
    enough = asyncio.Event()

    async def talk(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        while not enough.is_set():
            await wire.chunk(delta("word "))
            await asyncio.sleep(0.01)
        for piece in (delta(None, finish="stop"), usage_event(), DONE):
            await wire.chunk(piece)
        await wire.end_stream()

    async with stub(talk) as server, gate(furnished(replica(server.url))) as running:
        call = asyncio.create_task(running.streamed())
        await running.until(lambda: len(core.progress) >= 3)
        enough.set()
        await call
        await running.rest()
    tokens = [item.tokens for item in core.progress]
    assert tokens[0] == 1
    assert tokens == sorted(set(tokens))


async def test_however_many_come_it_is_told_once_a_second() -> None:
    """A hundred events a second, by a clock that the test moves."""

    async def send(message: Message) -> None:
        pass

    facts = replica("http://127.0.0.1:1")
    payload = parse(b'{"model":"chat","messages":[],"stream":true}', "chat")
    attempt = Attempt(Placed(facts, 1, 1, 0, 0), payload, "chat", Usage(), Reply(send, list), {})
    told: list[tuple[int, int]] = []
    attempt.on_tokens = lambda tokens: told.append((centiseconds, tokens))
    tap = Tap(attempt.usage, show_usage=False, rename=None)
    for centiseconds in range(400):
        attempt.touched = 1000 + centiseconds / 100
        await attempt._move(tap.feed(delta("word ")), tap, None)
    assert told == [(0, 1), (100, 101), (200, 201), (300, 301)]


async def test_each_attempt_tells_its_own_first_token(core: Told) -> None:
    """The first breaks off after two tokens; the second goes on from there."""
    calls = 0

    async def once_broken(seen: Seen, wire: Wire) -> None:
        nonlocal calls
        calls += 1
        await wire.begin_stream()
        if calls == 1:
            await wire.chunk(delta("Once ") + delta("upon "))
            wire.reset()
            return
        for piece in (delta("a time"), delta(None, finish="stop"), usage_event(), DONE):
            await wire.chunk(piece)
        await wire.end_stream()

    async with stub(once_broken) as one, stub(once_broken) as two:
        facts = [replica(server.url, name=name) for name, server in (("r1", one), ("r2", two))]
        async with gate(furnished(*facts)) as running:
            text = await running.streamed()
            await running.rest()
    assert b"a time" in text
    assert core.of(Failed)[0].produced == 2
    assert [(item.attempt, item.tokens) for item in core.progress] == [(1, 2), (2, 1)]
    # Of the whole answer it is the first attempt's that counts, and of no cache anything is known.
    first_at = core.timed[core.events.index(core.progress[0])][0]
    assert 0 < core.finished.first <= first_at
    assert core.finished.cached is None


# What the engine had in its cache.


def card(*, details: bool = True) -> Settings:
    fast = ServiceModel(step_base_ms=1.0, prefill_tokens_per_s=1e6)
    return Settings(service=fast, details=details)


async def found(running: Gate, core: Told, prompt: str, **more: object) -> int | None:
    """What the core is told of one call's cached tokens."""
    ended = len(core.of(Finished))
    answer = await running.chat(
        prompt, key=KEY, headers=None, **{"max_tokens": 3, "ignore_eos": True, **more}
    )
    assert answer.status_code == 200
    await running.until(lambda: len(core.of(Finished)) > ended)
    return core.finished.cached


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"stream": True, **TOOLS}])
async def test_cached_tokens_are_told_as_the_engine_counts_them(
    core: Told, more: dict[str, object]
) -> None:
    """It says nothing where it has found nothing; once it has told, that means nothing found."""
    async with listen(card()) as emulator:
        facts = replica(emulator.url, served="org/Model-7B")
        async with gate(furnished(facts)) as running:
            prompt = "The quick brown fox jumps over the lazy dog. " * 20
            assert await found(running, core, prompt, **more) is None
            told = await found(running, core, prompt, **more)
            row = (await running.rows(2))[-1]
            assert told == row.cached_tokens == (row.prompt_tokens - 1) // 16 * 16
            assert await found(running, core, "Something else altogether.", **more) == 0
            # Another salt finds nothing of it, in the engine as in the ticket.
            assert await found(running, core, prompt, cache_salt="a", **more) == 0
            blocks = [ticket.blocks for ticket in core.tickets]
            assert blocks[0] == blocks[1] != ()
            assert not set(blocks[3]) & set(blocks[0])


async def test_an_engine_that_never_tells_is_unknown(core: Told) -> None:
    async with listen(card(details=False)) as emulator:
        facts = replica(emulator.url, served="org/Model-7B")
        async with gate(furnished(facts)) as running:
            for _ in range(3):
                assert await found(running, core, "again and again " * 30) is None


async def test_what_one_process_tells_says_nothing_of_the_next(core: Told) -> None:
    """Nor of another replica: its flags may be others."""

    async def answer(seen: Seen, wire: Wire) -> None:
        told = {"cached_tokens": 64} if seen.prompt == "tell" else None
        usage = {"prompt_tokens": 80, "completion_tokens": 2, "prompt_tokens_details": told}
        await wire.json({**chat_answer(), "usage": usage})

    async with stub(answer) as server:
        facts = replica(server.url)
        async with gate(furnished(facts)) as running:
            assert await found(running, core, "no") is None
            assert await found(running, core, "tell") == 64
            assert await found(running, core, "no") == 0
            moved = replace(facts, url=server.url.replace("127.0.0.1", "localhost"))
            running.memory.replica(moved)
            running.memory.tell("fleet")
            state = running.runtime.scheduler.state
            await running.until(
                lambda: state.replicas["r1"].facts == moved and state.replicas["r1"].ready
            )
            assert await found(running, core, "no") is None
            assert await found(running, core, "tell") == 64
