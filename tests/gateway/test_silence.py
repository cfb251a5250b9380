"""A replica that hangs without closing: what can go on does so elsewhere."""

import asyncio
import signal
from contextlib import AsyncExitStack

import pytest

from scheduler.core.policy import Policy
from scheduler.emulator.app import Listening, listen
from scheduler.emulator.engine import ServiceModel
from scheduler.emulator.faults import Faults
from scheduler.emulator.settings import Settings
from tests.support.engines import emulator_process

from .answers import in_band_error
from .harness import LOW_KEY, Gate, furnished, gate, limits, replica
from .stub import DONE, Seen, Wire, delta, stub, usage_event
from .test_resume import events, expected, one_answer, text_of

USAGE = {"include_usage": True}


async def emulators(stack: AsyncExitStack, policy: Policy) -> tuple[Gate, list[Listening]]:
    """A gateway over two cards, each of which stalls in its next answer but one token past
    the seventh, once."""
    model = ServiceModel(slots=2, step_base_ms=4, step_per_running_ms=0.1)
    settings = Settings(service=model, models=("chat",))
    cards = [await stack.enter_async_context(listen(settings)) for _ in "ab"]
    replicas = [replica(card.url, name=f"card-{n}", slots=2) for n, card in enumerate(cards)]
    gateway = await stack.enter_async_context(gate(furnished(*replicas, policy=policy)))
    for card in cards:
        card.emulator.faults.set(Faults(stall_after_tokens=7, count=1))
    return gateway, cards


def mend_other(cards: list[Listening], name: str) -> None:
    """Only the card of this name goes on stalling."""
    cards[1 - int(name[-1])].emulator.faults.clear()


async def test_a04_a_stream_goes_on_when_its_replica_falls_silent() -> None:
    """A04's kind, for an answer that can go on: no token is lost or doubled, the silent one is
    told to stop, and one row says so."""
    async with AsyncExitStack() as stack:
        gateway, cards = await emulators(stack, limits(idle_ms=500))
        async with gateway.stream(
            "Tell me", max_tokens=40, ignore_eos=True, stream_options=USAGE
        ) as response:
            first = response.headers["x-replica"]
            mend_other(cards, first)
            body = await response.aread()
        assert one_answer(body, "Tell me", 40)["completion_tokens"] == 40
        row = await gateway.row()
        assert (row.status, row.attempts, row.completion_tokens) == ("ok", 2, 40)
        assert row.replica != first
        await gateway.until(lambda: not any(card.emulator.engine.running for card in cards))


async def test_a_plain_answer_goes_on_too() -> None:
    """Put together from what two replicas streamed."""
    async with AsyncExitStack() as stack:
        gateway, cards = await emulators(stack, limits(idle_ms=500))
        cards[0].emulator.faults.clear()
        for _ in range(4):
            answer = await gateway.chat("plain", key=LOW_KEY, max_tokens=30, ignore_eos=True)
            assert answer.json()["choices"][0]["message"]["content"] == expected("plain", 30)
        rows = await gateway.rows(4)
        assert {row.status for row in rows} == {"ok"}
        assert sum(row.attempts for row in rows) in (4, 5)


async def test_what_can_not_go_on_ends_with_one_error_frame() -> None:
    """A04: a stream with tools gets no second attempt; no made-up finish, no [DONE]."""
    async with AsyncExitStack() as stack:
        gateway, _ = await emulators(stack, limits(idle_ms=500))
        body = await gateway.streamed(
            "Tools", max_tokens=40, ignore_eos=True, tool_choice="none", tools=[]
        )
        assert in_band_error(body)["code"] == "upstream_timeout"
        row = await gateway.row()
        assert (row.status, row.attempts) == ("upstream_timeout", 1)
        assert 0 < row.completion_tokens <= 7


async def test_without_another_replica_the_silence_is_told() -> None:
    """The caller learns that it was a time-out, and is charged for what it has."""

    async def stall(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(delta("one") + delta(" two"))
        await seen.closed.wait()

    facts = limits(idle_ms=300)
    async with stub(stall) as server, gate(furnished(replica(server.url), policy=facts)) as gateway:
        assert in_band_error(await gateway.streamed())["code"] == "upstream_timeout"
        row = await gateway.row()
        assert (row.status, row.completion_tokens, row.estimated) == ("upstream_timeout", 2, True)


async def test_a_replica_that_never_answers_holds_up_no_answer_that_had_begun() -> None:
    """One breaks off, the next takes the rest and says nothing, the third goes on."""
    asked: list[Seen] = []

    async def answer(seen: Seen, wire: Wire) -> None:
        asked.append(seen)
        if len(asked) == 2:
            await seen.closed.wait()
            return
        await wire.begin_stream()
        if len(asked) == 1:
            await wire.chunk(delta("The quick brown"))
            wire.reset()
            return
        for event in (delta(" fox"), delta("", finish="stop"), usage_event(9, 1), DONE):
            await wire.chunk(event)
        await wire.end_stream()

    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(answer)) for _ in "abc"]
        replicas = [replica(s.url, name=f"r{n}") for n, s in enumerate(servers)]
        policy = limits(first_byte_ms=400, idle_ms=400)
        gateway = await stack.enter_async_context(gate(furnished(*replicas, policy=policy)))
        body = await gateway.streamed("hi", stream_options=USAGE)
        assert text_of(events(body)) == "The quick brown fox"
        assert asked[1].closed.is_set()
        row = await gateway.row()
        assert (row.status, row.attempts) == ("ok", 3)


@pytest.mark.timeout(120)
async def test_a_process_that_stands_still_holds_up_nothing() -> None:
    """``kill -STOP``: its connections stay open, and nothing comes. Long before the time limits
    on silence its probes fail: what can go on does so elsewhere, what has not begun begins
    again there, and it gets calls again when it goes on."""
    arguments = ("--slots", "8", "--step-base-ms", "20", "--step-per-running-ms", "0.1")
    async with AsyncExitStack() as stack:
        servers = [
            stack.enter_context(emulator_process(*arguments, model="chat")) for _ in range(2)
        ]
        replicas = [replica(s.url, name=f"card-{n}", slots=8) for n, s in enumerate(servers)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        watches = gateway.runtime.health.watches
        async with gateway.stream(
            "Watch", max_tokens=80, ignore_eos=True, stream_options=USAGE
        ) as response:
            number = int(response.headers["x-replica"][-1])
            name = f"card-{number}"
            stream = response.aiter_bytes()
            body = await anext(stream)
            servers[number].process.send_signal(signal.SIGSTOP)
            try:
                # As many as one of them gets: some are sent where nobody will read them.
                plain = [asyncio.create_task(gateway.chat(f"p{n}", max_tokens=2)) for n in range(6)]
                async for chunk in stream:
                    body += chunk
                assert one_answer(body, "Watch", 80)["completion_tokens"] == 80
                answers = await asyncio.gather(*plain)
                assert {answer.status_code for answer in answers} == {200}
                assert watches[name].state == "down"
                answer = await gateway.chat("now", max_tokens=2)
                assert answer.headers["x-replica"] != name
            finally:
                servers[number].process.send_signal(signal.SIGCONT)
            await gateway.until(lambda: watches[name].state == "ready")
        rows = await gateway.rows(8)
        assert {row.status for row in rows} == {"ok"}
        assert sum(row.attempts - 1 for row in rows) >= 2
