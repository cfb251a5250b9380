"""Cards come when P0 waits and go when it is calm: what the core asks for, carried out."""

import asyncio
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest

from scheduler.core.decisions import Scale
from scheduler.core.policy import Policy
from scheduler.scaling import CardState
from tests.gateway.harness import URGENT_KEY

from .test_local_processes import site, spare

pytestmark = pytest.mark.timeout(180)


def eager() -> Policy:
    """Looks for help after a tenth of a second, and is calm after one."""
    policy = Policy()
    pressure = policy.backpressure
    scale = replace(pressure.scale, drain_s=1.0, cooldown_s=1.0)
    return replace(policy, backpressure=replace(pressure, p0_wait_ms=100, clear_ms=50, scale=scale))


async def test_a_backlog_of_p0_starts_cards_and_calm_drains_them_with_no_request_lost(
    tmp_path: Path,
) -> None:
    async with site(tmp_path, *(spare(f"spare-{number}") for number in range(1, 4))) as there:
        gateway = there.gateway
        gateway.runtime.scheduler.set_policy(eager())
        asked: list[Scale] = []
        formula: list[int] = []
        state = gateway.runtime.scheduler.state
        carry = gateway.runtime.scheduler.on_scale

        def note(scale: Scale) -> None:
            asked.append(scale)
            waiting = [r for r in state.requests.values() if not r.running]
            if waiting:
                each = state.estimates.typical(waiting[0].ticket, waiting[0].answer)
                slots, drain_s, headroom = 2, 1.0, 0.2
                cards = len(waiting) * each / 1e9 / (slots * drain_s) * (1 + headroom)
                formula.append(scale.ready + ceil(cards))
            carry(scale)

        gateway.runtime.scheduler.on_scale = note
        assert there.cards.start("spare-1")
        await there.ready()
        calls = [
            asyncio.create_task(
                gateway.chat(f"n{number}", key=URGENT_KEY, max_tokens=60, ignore_eos=True)
            )
            for number in range(24)
        ]
        await gateway.until(lambda: len(asked) > 0)
        answers = await asyncio.gather(*calls)
        assert [answer.status_code for answer in answers] == [200] * 24
        assert asked[0].pool == "pool"
        assert asked[0].ready == 1
        assert asked[0].desired == formula[0] > 1
        await gateway.until(lambda: asked[-1].desired == 1, 60.0)
        names = [card.facts.name for card in there.cards.cards()]
        await gateway.until(
            lambda: sum(there.state(name) is CardState.UP for name in names) <= 1, 60.0
        )
        assert (await gateway.chat(key=URGENT_KEY, max_tokens=2)).status_code == 200
