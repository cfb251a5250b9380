"""Hot and cold replicas of a model: emulators that fail, are slow, or are not ready."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from scheduler.core.policy import Policy
from tests.support.engines import EngineProcess, emulator_process

from .harness import KEY, LOW_KEY, Gate, furnished, gate, replica, unbroken
from .test_unsteady_replicas import QUICK, fault, several

pytestmark = pytest.mark.timeout(90)


@dataclass
class Site:
    """A gateway with one replica of each kind."""

    gateway: Gate
    hot: EngineProcess

    @property
    def switches(self) -> list[tuple[str, str]]:
        """What the decision log has of them, and why."""
        rows = [row for row in self.gateway.decisions.rows if row.reason.startswith("path_")]
        assert all(row.model == "chat" for row in rows)
        return [(row.reason, str((row.detail or {})["cause"])) for row in rows]

    async def until(self, *kinds: str) -> None:
        """Wait for these switches, and no others."""
        await self.gateway.until(lambda: [kind for kind, _ in self.switches] == list(kinds))

    async def until_hot(self) -> None:
        """Call until the hot path is back."""
        before = len(self.switches)
        while len(self.switches) == before:
            await several(self.gateway, 1)


def rules() -> Policy:
    """Hot replicas that were left are tried again soon. Breakers stay shut; and a busy machine
    makes calls of a few milliseconds take several times as long."""
    policy = unbroken()
    return replace(policy, paths=replace(policy.paths, probe_s=0.5, latency_factor=20.0))


@asynccontextmanager
async def both() -> AsyncIterator[Site]:
    with (
        emulator_process(*QUICK, model="chat") as hot,
        emulator_process(*QUICK, model="chat") as cold,
    ):
        facts = [
            replica(hot.url, name="hot"),
            replace(replica(cold.url, name="cold"), hot=False),
        ]
        async with gate(furnished(*facts, policy=rules())) as gateway:
            yield Site(gateway, hot)


async def test_what_keeps_failing_is_left_and_comes_back_when_a_try_goes_well() -> None:
    async with both() as site:
        gateway = site.gateway
        assert await several(gateway) == {"hot": 12}
        fault(site.hot, error=500)
        for number in range(20):
            if site.switches:
                break
            # What has no room in the budget of retries is an error, the others go to the cold one.
            answer = await gateway.chat(key=(KEY, LOW_KEY)[number % 2], max_tokens=2)
            assert answer.status_code in {200, 502}
        assert site.switches == [("path_cold", "5 failures in a row")]
        fault(site.hot)
        await site.until_hot()
        assert site.switches[1:] == [("path_hot", "1 requests that tried it have gone well")]
        assert await several(gateway) == {"hot": 12}


async def test_what_is_slow_is_left_for_what_is_quicker() -> None:
    async with both() as site:
        assert await several(site.gateway, 16) == {"hot": 16}
        fault(site.hot, stall_before_headers_s=1.0)
        while not site.switches:
            await several(site.gateway, 1)
        ((kind, cause),) = site.switches
        assert kind == "path_cold"
        assert cause.endswith("times as long as usual")
        fault(site.hot)
        await site.until_hot()
        assert await several(site.gateway) == {"hot": 12}


async def test_what_is_not_ready_is_stood_in_for_until_it_is() -> None:
    async with both() as site:
        fault(site.hot, never_ready=True)
        await site.until("path_cold")
        assert site.switches == [("path_cold", "no hot replica is ready")]
        assert await several(site.gateway) == {"cold": 12}
        fault(site.hot)
        await site.until("path_cold", "path_hot")
        assert await several(site.gateway) == {"hot": 12}
