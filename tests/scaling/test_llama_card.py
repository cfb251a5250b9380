"""A card with the real llama.cpp server on it."""

from pathlib import Path

import pytest

from scheduler.core.fleet import PoolFacts
from scheduler.scaling import CardSpec, CardState
from scheduler.scaling.processes import LocalProcesses
from tests.gateway.harness import URGENT_KEY, furnished, gate

pytestmark = [pytest.mark.llama, pytest.mark.timeout(180)]


async def test_it_serves_and_goes(tmp_path: Path) -> None:
    """Warmed up by a request of ours, it takes an urgent call."""
    card = CardSpec("spare", "pool", "llama", 1, models={"chat": "smollm2"})
    cards = LocalProcesses([card], logs=tmp_path)
    memory = furnished(warm_up=True)
    memory.pools["pool"] = PoolFacts("pool", False, frozenset({0, 1, 2}))
    async with gate(memory, scaler=cards) as gateway:
        replicas = gateway.runtime.scheduler.state.replicas
        assert cards.start("spare", "chat")
        await gateway.until(lambda: "spare" in replicas and replicas["spare"].serving(), 90)
        answer = await gateway.chat("Hi", key=URGENT_KEY, max_tokens=2)
        assert answer.status_code == 200
        assert answer.headers["x-replica"] == "spare"
        assert cards.drain("spare")
        await gateway.until(lambda: cards.cards()[0].state is CardState.IDLE, 60)
