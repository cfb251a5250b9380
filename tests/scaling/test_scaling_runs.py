"""P0 waits, cards come; it is calm again, and they go: the running system, real processes."""

import asyncio
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from scheduler.core.decisions import Scale
from scheduler.core.policy import Policy
from scheduler.scaling import CardSpec, CardState
from scheduler.scaling.processes import LocalProcesses
from tests.gateway.harness import URGENT_KEY, Gate, furnished, gate, replica
from tests.support.engines import emulator_process

pytestmark = pytest.mark.timeout(180)

# A call of fifty tokens holds a slot for about a second.
SLOW = ("--step-base-ms", "20", "--step-per-running-ms", "0.1")
TOKENS, CALLS, SLOTS = 50, 14, 2
DRAIN_S, HEADROOM = 0.5, 0.2


def rules(max_cards: int) -> Policy:
    """Pressure begins and ends soon."""
    policy = Policy()
    scale = replace(
        policy.backpressure.scale,
        drain_s=DRAIN_S,
        headroom=HEADROOM,
        max_cards=max_cards,
        cooldown_s=1.0,
    )
    pressure = replace(policy.backpressure, p0_wait_ms=300, clear_ms=200, scale=scale)
    return replace(policy, backpressure=pressure)


class Orders:
    """What the core has asked for, with the backlog and the service time it saw then (s)."""

    def __init__(self, gateway: Gate) -> None:
        self.seen: list[tuple[Scale, int, float]] = []
        self._scheduler = gateway.runtime.scheduler
        self._inner = self._scheduler.on_scale
        self._scheduler.on_scale = self._note

    def _note(self, scale: Scale) -> None:
        state = self._scheduler.state
        waiting = [r for r in state.requests.values() if r.replica is None]
        typical = 0.0
        if waiting:
            first = min(waiting, key=lambda r: r.sequence)
            typical = state.estimates.typical(first.ticket, first.answer) / 1e9
        self.seen.append((scale, len(waiting), typical))
        self._inner(scale)


async def urgent(gateway: Gate) -> str:
    """One urgent call, which must be served; where it was."""
    answer = await gateway.chat("now", key=URGENT_KEY, max_tokens=TOKENS, ignore_eos=True)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-replica"]


async def test_no_more_cards_come_than_the_policy_allows(tmp_path: Path) -> None:
    """However long the backlog. All calls are served, the cards go when they are not needed,
    the fleet's own replica stays, and their going costs no call."""
    most = 2
    specs = [
        CardSpec(f"spare-{n}", "pool", "emulator", SLOTS, models={"chat": "chat"}, arguments=SLOW)
        for n in range(3)
    ]
    cards = LocalProcesses(specs, logs=tmp_path)
    with emulator_process("--slots", str(SLOTS), *SLOW, model="chat") as own:
        memory = furnished(replica(own.url, name="own", slots=SLOTS), policy=rules(most))
        async with gate(memory, scaler=cards) as gateway:
            orders = Orders(gateway)
            await urgent(gateway)  # so that service times are known
            calls = [asyncio.create_task(urgent(gateway)) for _ in range(CALLS)]
            await gateway.until(lambda: orders.seen)
            first, waiting, service = orders.seen[0]
            short = ceil(waiting * service / (SLOTS * DRAIN_S) * (1 + HEADROOM))
            assert (first.pool, first.ready) == ("pool", 1)
            assert first.desired == min(1 + short, most) == most
            used = {c.facts.name for c in cards.cards() if c.state is not CardState.IDLE}
            assert len(used) == 1
            await asyncio.gather(*calls)
            await gateway.until(
                lambda: all(c.state in (CardState.IDLE, CardState.UP) for c in cards.cards()), 30
            )
            last = orders.seen[-1][0]
            while last.desired > last.ready or not orders.seen[1:]:
                await urgent(gateway)
                last = orders.seen[-1][0]
            await gateway.until(lambda: all(c.state is CardState.IDLE for c in cards.cards()))
            assert await urgent(gateway) == "own"
            assert {row.status for row in gateway.usage.rows} == {"ok"}
