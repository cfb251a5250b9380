"""Many pauses at once, and the loss of a whole model server.

``FAIRLANE_LONG_TESTS=1`` runs the pauses at full size: 100 streams, 500 preemptions.
"""

import asyncio
import os
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import pytest

from scheduler.core.policy import Policy
from scheduler.emulator.app import listen
from scheduler.emulator.engine import ServiceModel
from scheduler.emulator.settings import Settings
from tests.support.engines import emulator_process

from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from .test_resume import events, expected, one_answer, text_of

LONG = os.environ.get("FAIRLANE_LONG_TESTS") == "1"
STREAMS, PREEMPTIONS, CARDS, SLOTS = (100, 500, 4, 8) if LONG else (20, 50, 2, 4)
TOKENS = 600 if LONG else 250
URGENT_AT_ONCE = 8 if LONG else 2
USAGE = {"include_usage": True}


def eager() -> Policy:
    """Pauses whenever there is anything to win, however often."""
    policy = Policy()
    weights = replace(policy.preemption.weights, P0=10_000.0)
    rules = replace(
        policy.preemption, max_per_request=10_000, cooldown_ms=0, margin_ms=0, weights=weights
    )
    return replace(policy, preemption=rules)


async def one_low(gateway: Gate, number: int) -> None:
    prompt = f"report {number} 🎉 报告"
    async with asyncio.timeout(200):
        body = await gateway.streamed(
            prompt, key=LOW_KEY, max_tokens=TOKENS, ignore_eos=True, stream_options=USAGE
        )
    assert one_answer(body, prompt, TOKENS)["completion_tokens"] == TOKENS


def preemptions(gateway: Gate) -> int:
    return sum(row.kind == "preempt" for row in gateway.decisions.rows)


async def urgent_until(gateway: Gate, lows: list[asyncio.Task[None]]) -> int:
    """Urgent calls, one after the other, until there were enough preemptions."""
    made = 0
    while preemptions(gateway) < PREEMPTIONS and not all(task.done() for task in lows):
        answer = await gateway.chat("now", key=URGENT_KEY, max_tokens=2, ignore_eos=True)
        assert answer.status_code == 200
        made += 1
    return made


@pytest.mark.timeout(400)
async def test_steady_urgent_calls_cost_no_low_answer_a_token(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every low answer is complete and right, nobody sees an error, all is free at the end,
    and what is billed is what was delivered."""
    model = ServiceModel(slots=SLOTS, step_base_ms=15, step_per_running_ms=0.3)
    async with AsyncExitStack() as stack:
        cards = [
            await stack.enter_async_context(listen(Settings(service=model, models=("chat",))))
            for _ in range(CARDS)
        ]
        replicas = [replica(c.url, name=f"card-{n}", slots=SLOTS) for n, c in enumerate(cards)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas, policy=eager())))
        gateway.client.timeout = 200
        lows = [asyncio.create_task(one_low(gateway, number)) for number in range(STREAMS)]
        await gateway.until(lambda: gateway.running == CARDS * SLOTS)
        urgent = await asyncio.gather(*(urgent_until(gateway, lows) for _ in range(URGENT_AT_ONCE)))
        await asyncio.gather(*lows)
        rows = await gateway.rows(STREAMS + sum(urgent))
        assert {row.status for row in rows} == {"ok"}
        low = [row for row in rows if row.business == "low"]
        assert sum(row.completion_tokens for row in low) == STREAMS * TOKENS
        paused = [row for row in gateway.decisions.rows if row.kind == "outcome"]
        resumed = sum(row.reason == "resumed" for row in paused)
        await gateway.rest()
        assert not any(card.emulator.engine.running for card in cards)
    with capsys.disabled():
        print(f"\n  {len(paused)} preemptions of {STREAMS} streams, {resumed} went on")
    assert len(paused) >= PREEMPTIONS
    assert resumed >= 0.9 * PREEMPTIONS


@dataclass
class Watched:
    """One stream as its reader sees it: where it runs, its bytes, its longest silence (s)."""

    number: int
    fixed: bool
    replica: str = ""
    body: bytes = b""
    silence: float = 0.0

    @property
    def prompt(self) -> str:
        return f"watch {self.number}"

    async def read(self, gateway: Gate, tokens: int) -> None:
        # What says how tools are to be used can't be continued elsewhere.
        more: dict[str, object] = {"tool_choice": "none", "tools": []} if self.fixed else {}
        async with gateway.stream(
            self.prompt,
            key=KEY if self.number % 2 else LOW_KEY,
            max_tokens=tokens,
            ignore_eos=True,
            stream_options=USAGE,
            **more,  # type: ignore[arg-type]
        ) as response:
            assert response.status_code == 200
            self.replica = response.headers["x-replica"]
            last = time.monotonic()
            async for chunk in response.aiter_bytes():
                self.body += chunk
                now = time.monotonic()
                self.silence, last = max(self.silence, now - last), now


@pytest.mark.timeout(120)
async def test_a_killed_replica_ends_only_what_can_not_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``kill -9`` of one of three servers of 32 slots under 60 streams. Those that can go on
    do, elsewhere; each of the others there gets one error frame, and those on the two that
    live notice nothing."""
    tokens = 60
    arguments = ("--slots", "32", "--step-base-ms", "40", "--step-per-running-ms", "0.1")
    async with AsyncExitStack() as stack:
        servers = [
            stack.enter_context(emulator_process(*arguments, model="chat")) for _ in range(3)
        ]
        replicas = [replica(s.url, name=f"card-{n}", slots=32) for n, s in enumerate(servers)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        streams = [Watched(number, fixed=number % 6 == 0) for number in range(60)]
        tasks = [asyncio.create_task(stream.read(gateway, tokens)) for stream in streams]
        await gateway.until(lambda: all(s.body.count(b"data: ") > 3 for s in streams))
        killed = streams[0].replica
        await asyncio.to_thread(servers[int(killed[-1])].kill)
        await asyncio.gather(*tasks)
        there = [stream for stream in streams if stream.replica == killed]
        lost = [stream for stream in there if stream.fixed]
        assert lost
        assert len(there) > len(lost)
        for stream in streams:
            if stream in lost:
                assert stream.body.count(b'"error"') == 1
                assert b"[DONE]" not in stream.body
                whole = stream.body[: stream.body.index(b'data: {"error"')]
                assert expected(stream.prompt, tokens).startswith(text_of(events(whole)))
            else:
                usage = one_answer(stream.body, stream.prompt, tokens)
                assert usage["completion_tokens"] == tokens
        rows = await gateway.rows(60)
        assert sum(row.status == "upstream_error" for row in rows) == len(lost)
        assert sum(row.status == "ok" for row in rows) == 60 - len(lost)
        carried = [stream.silence for stream in there if not stream.fixed]
        await gateway.rest()
    with capsys.disabled():
        print(
            f"\n  {len(carried)} streams carried over, silent for {max(carried):.2f} s at most;"
            f" {len(lost)} ended with an error frame"
        )
    assert max(carried) < 5
