"""Idle cards beside a replica of the fleet's own: used for whatever lane has work, given back when
it is over; the running system, real processes."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.core.policy import Policy
from scheduler.scaling import CardSpec, CardState
from scheduler.scaling.processes import LocalProcesses
from tests.gateway.harness import KEY, LOW_KEY, Gate, furnished, gate, replica
from tests.support.engines import emulator_process

pytestmark = pytest.mark.timeout(180)

# A call of fifty tokens holds a slot for about a second.
SLOW = ("--step-base-ms", "20", "--step-per-running-ms", "0.1")
TOKENS, SLOTS, CARDS = 50, 2, 3


def rules() -> Policy:
    """What waits is soon due, and what is not needed soon goes."""
    policy = Policy()
    queues, pressure = policy.queues, policy.backpressure
    scale = replace(pressure.scale, drain_s=1.0, cooldown_s=1.0, settle_s=1.0)
    return replace(
        policy,
        queues=replace(
            queues,
            P1=replace(queues.P1, latency_budget_ms=2000),
            P2=replace(queues.P2, max_wait_ms=2000),
        ),
        # All calls are to be served, however long they wait.
        admission=replace(policy.admission, latency_budget=False),
        backpressure=replace(pressure, scale=scale),
    )


@pytest.mark.parametrize("key", [KEY, LOW_KEY])
async def test_idle_cards_are_used_for_p1_and_p2(key: str, tmp_path: Path) -> None:
    """Of all calls none is lost. (The same in the simulator: tests/simulation/test_scaling.py.)"""
    specs = [
        CardSpec(f"spare-{n}", "pool", "emulator", SLOTS, models={"chat": "chat"}, arguments=SLOW)
        for n in range(CARDS)
    ]
    cards = LocalProcesses(specs, logs=tmp_path)
    with emulator_process("--slots", str(SLOTS), *SLOW, model="chat") as own:
        memory = furnished(replica(own.url, name="own", slots=SLOTS), policy=rules())
        async with gate(memory, scaler=cards) as gateway:
            plans = gateway.runtime.scheduler.state.plans
            calls = [asyncio.create_task(call(gateway, key)) for _ in range(16 * SLOTS)]
            await gateway.until(lambda: plans["pool"].desired == 1 + CARDS, 60)
            await gateway.until(lambda: all(c.state is CardState.UP for c in cards.cards()), 60)
            where = set(await asyncio.gather(*calls))
            assert where > {"own"}
            await gateway.until(lambda: all(c.state is CardState.IDLE for c in cards.cards()), 90)
            assert plans["pool"].desired == 1
            assert await call(gateway, key) == "own"
            assert {row.status for row in gateway.usage.rows} == {"ok"}


async def call(gateway: Gate, key: str) -> str:
    """One call, which must be served; where it was."""
    answer = await gateway.chat("now", key=key, max_tokens=TOKENS, ignore_eos=True)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-replica"]


async def test_the_metric_tells_what_nobody_here_can_start(tmp_path: Path) -> None:
    """A fleet without cards: an autoscaler reads how many replicas there should be."""
    with emulator_process("--slots", str(SLOTS), *SLOW, model="chat") as own:
        memory = furnished(replica(own.url, name="own", slots=SLOTS), policy=rules())
        async with gate(memory) as gateway:

            async def metric(name: str) -> float:
                text = (await gateway.client.get("/metrics")).text
                lines = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
                return float(lines[0].split()[-1]) if lines else 0.0

            calls = [asyncio.create_task(call(gateway, KEY)) for _ in range(16 * SLOTS)]
            plans = gateway.runtime.scheduler.state.plans
            await gateway.until(lambda: "pool" in plans and plans["pool"].desired > 2, 60)
            assert await metric("fairlane_scale_desired_replicas") > 2
            assert await metric("fairlane_scale_ready_replicas") == 1
            (pool,) = gateway.runtime._publisher.frame().pools
            assert (pool.name, pool.ready) == ("pool", 1)
            assert pool.wanted == plans["pool"].desired
            await asyncio.gather(*calls)
