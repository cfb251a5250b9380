"""A thousand replicas under watch beside the relaying loop."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from scheduler.core.fleet import ModelFacts, ReplicaFacts
from scheduler.testing import Memory
from tests.probing.crowd import Crowd

from .answers import states
from .harness import furnished, gate, replica
from .stub import stub

MANY = 1000
# Such as end by themselves soon.
PASSING = 5


def watched(urls: list[str]) -> list[ReplicaFacts]:
    """A replica at each URL, with a model that nobody asks for."""
    return [
        replace(replica(url, name=f"r{number:04}"), models={"other": "other"})
        for number, url in enumerate(urls)
    ]


def fleet(*replicas: ReplicaFacts) -> Memory:
    memory = furnished(*replicas)
    memory.model(ModelFacts("other"))
    return memory


@pytest.mark.timeout(300)
async def test_a_thousand_replicas_are_no_tasks_and_a_hung_half_delays_no_verdict() -> None:
    async with stub() as own, gate(fleet(replica(own.url))):
        alone = len(asyncio.all_tasks())
    async with AsyncExitStack() as stack:
        crowd = stack.enter_context(Crowd(MANY).listening())
        mortal = await stack.enter_async_context(AsyncExitStack())
        dying = replica((await mortal.enter_async_context(stub())).url, name="dying")
        gateway = await stack.enter_async_context(gate(fleet(dying, *watched(crowd.urls))))

        def found() -> Counter[str]:
            return Counter(states(gateway).values())

        await gateway.until(lambda: found()["ready"] == MANY + 1, 60)
        assert len(asyncio.all_tasks()) <= alone + PASSING

        crowd.hung.update(crowd.urls[::2])
        await gateway.until(lambda: found()["down"] == MANY // 2, 60)
        asked = crowd.asked.copy()
        await mortal.aclose()
        await gateway.until(lambda: states(gateway)["dying"] == "down")
        assert found() == {"down": MANY // 2 + 1, "ready": MANY // 2}
        watches = gateway.runtime.health.watches
        assert not [n for n, w in watches.items() if w.downs and w.ready]
        assert (crowd.asked - asked).total() > 0

        crowd.hung.clear()
        await gateway.until(lambda: found()["ready"] == MANY, 60)
        assert len(asyncio.all_tasks()) <= alone + PASSING
