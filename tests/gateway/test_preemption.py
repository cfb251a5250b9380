"""Urgent calls take slots from plain ones, which run again; and no replica gets too much."""

import asyncio
from dataclasses import replace

import httpx
import pytest

from scheduler.core.events import Measured
from scheduler.core.policy import Policy
from scheduler.emulator.app import Listening, listen
from scheduler.emulator.engine import ServiceModel
from scheduler.emulator.settings import Settings

from .harness import LOW_KEY, URGENT_KEY, Gate, chat_body, furnished, gate, replica
from .test_resume import emulated, events, expected, text_of

# Tools make an answer one that nothing else could continue.
FIXED: dict[str, object] = {"tools": [], "tool_choice": "none"}
TOKENS = 300


def plain(gateway: Gate, prompt: str, **more: object) -> asyncio.Task[httpx.Response]:
    """A plain call of the lowest lane that can only be made again."""
    sizes = {"max_tokens": TOKENS, "ignore_eos": True}
    return asyncio.create_task(
        gateway.chat(prompt, key=LOW_KEY, headers=None, **{**FIXED, **sizes, **more})
    )


def untroubled() -> Policy:
    """Low calls are let in however long urgent ones wait: on a slow machine they may."""
    policy = Policy()
    return replace(policy, backpressure=replace(policy.backpressure, action=()))


async def urgent(gateway: Gate) -> httpx.Response:
    return await gateway.chat("urgent", key=URGENT_KEY, max_tokens=3, ignore_eos=True)


def content(answer: httpx.Response) -> str:
    assert answer.status_code == 200
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


def attempts(cards: list[Listening]) -> dict[str, int]:
    """How often a card was sent each low request, by its prompt."""
    found: dict[str, int] = {}
    for card in cards:
        for seen in card.emulator.recorder.recent:
            if "low " in seen.body:
                prompt = seen.body.partition("low ")[2][0]
                found[prompt] = found.get(prompt, 0) + 1
    return found


async def test_an_urgent_call_stops_one_plain_call_which_is_made_again() -> None:
    """Two full cards: the urgent call starts at once in one of the four slots. The call that
    had it is answered later as if nothing had been, and nobody else notices."""
    async with emulated(2, 2, step_ms=6) as (gateway, cards):
        lows = [plain(gateway, f"low {number}") for number in range(4)]
        await gateway.until(lambda: gateway.running == 4)
        answer = await urgent(gateway)
        assert answer.status_code == 200
        assert not any(low.done() for low in lows)
        answers = await asyncio.gather(*lows)
        for number, low in enumerate(answers):
            assert content(low) == expected(f"low {number}", TOKENS)
            assert low.json()["usage"]["completion_tokens"] == TOKENS
        rows = await gateway.rows(5)
        assert {row.status for row in rows} == {"ok"}
        assert [row.queue_wait_ms < 300 for row in rows if row.business == "urgent"] == [True]
        decided = [row for row in gateway.decisions.rows if row.kind == "preempt"]
        assert len(decided) == 1
        stopped = gateway.usage.by_id(decided[0].request)
        assert (stopped.attempts, stopped.completion_tokens) == (2, TOKENS)
        assert sorted(row.attempts for row in rows) == [1, 1, 1, 1, 2]
        assert sorted(attempts(cards).values()) == [1, 1, 1, 2]
        assert sum(len(card.emulator.recorder.aborted) for card in cards) == 1


async def test_a_stream_that_has_begun_is_never_the_one_to_stop() -> None:
    """Beside a stream whose caller has seen a byte, the plain call goes; beside two such
    streams the urgent call waits."""
    async with emulated(1, 2, step_ms=6) as (gateway, (card,)):
        sizes = {"max_tokens": TOKENS, "ignore_eos": True, **FIXED}
        first = asyncio.create_task(gateway.streamed("low 1", key=LOW_KEY, **sizes))
        await gateway.until(lambda: card.emulator.engine.counters.generation_tokens > 5)
        second = plain(gateway, "low 2")
        await gateway.until(lambda: gateway.running == 2)
        assert (await urgent(gateway)).status_code == 200
        assert text_of(events(await first)) == expected("low 1", TOKENS)
        assert content(await second) == expected("low 2", TOKENS)
        assert attempts([card]) == {"1": 1, "2": 2}

    async with emulated(1, 2, step_ms=6) as (gateway, (card,)):
        streams = [
            asyncio.create_task(gateway.streamed(f"low {n}", key=LOW_KEY, **sizes))
            for n in range(2)
        ]
        await gateway.until(lambda: card.emulator.engine.counters.generation_tokens > 10)
        late = asyncio.create_task(urgent(gateway))
        await gateway.until(lambda: gateway.queued == 1)
        bodies = await asyncio.gather(*streams)
        assert (await late).status_code == 200
        assert [text_of(events(body)) for body in bodies] == [
            expected(f"low {n}", TOKENS) for n in range(2)
        ]
        assert attempts([card]) == {"0": 1, "1": 1}


class Crowd:
    """Callers of all kinds, some of whom leave before they are answered."""

    def __init__(self, gateway: Gate) -> None:
        self.gateway = gateway
        self.answered = 0

    async def caller(self, number: int) -> None:
        key = URGENT_KEY if number % 5 == 0 else LOW_KEY
        more = FIXED if number % 3 else {}
        body = chat_body(
            f"low {number}", max_tokens=20 + number, ignore_eos=True, stream=number % 2 == 0, **more
        )
        headers = self.gateway.headers(key)
        patience = 0.03 if number % 4 == 1 else 30
        try:
            async with asyncio.timeout(patience):
                answer = await self.gateway.client.post(
                    "/v1/chat/completions", json=body, headers=headers
                )
        except TimeoutError:
            return
        assert answer.status_code == 200
        self.answered += 1


@pytest.mark.parametrize("slots", [1, 8])
async def test_a_replica_never_gets_one_more_than_its_slots(slots: int) -> None:
    """The engine has room for twice as many and says it is idle; callers leave, urgent ones
    come, slots are taken back: it never holds one more than it was said to take."""
    model = ServiceModel(slots=2 * slots, step_base_ms=3, step_per_running_ms=0.1)
    async with (
        listen(Settings(service=model, models=("chat",))) as card,
        gate(furnished(replica(card.url, slots=slots), policy=untroubled())) as gateway,
    ):
        idle = Measured("r1", 0.0, 0.0, 0)
        crowd = Crowd(gateway)
        callers = []
        for number in range(60):
            callers.append(asyncio.create_task(crowd.caller(number)))
            gateway.runtime.scheduler.post(idle)
            if number % 5 == 4:
                await asyncio.sleep(0.02)
        await asyncio.gather(*callers)
        assert crowd.answered > 30
        assert card.emulator.driver.max_running == slots
        assert card.emulator.recorder.max_in_flight == slots


async def test_a_full_kv_cache_takes_no_more_however_many_slots_are_free() -> None:
    """Three calls of about 300 tokens fill a cache of 1,000: the fourth waits for room, while
    five slots are free and the engine says that all is."""
    model = ServiceModel(slots=8, step_base_ms=4, step_per_running_ms=0.1)
    async with listen(Settings(service=model, models=("chat",))) as card:
        facts = replace(replica(card.url, slots=8), kv_tokens=1000)
        async with gate(furnished(facts)) as gateway:
            lows = [plain(gateway, f"low {number}") for number in range(4)]
            await gateway.until(lambda: gateway.running == 3)
            gateway.runtime.scheduler.post(Measured("r1", 0.0, 0.0, 0))
            await gateway.until(lambda: gateway.queued == 1)
            for number, answer in enumerate(await asyncio.gather(*lows)):
                assert content(answer) == expected(f"low {number}", TOKENS)
            assert card.emulator.recorder.max_in_flight == 3
            waits = sorted(row.queue_wait_ms for row in await gateway.rows(4))
            assert waits[2] < 300 < waits[3]
