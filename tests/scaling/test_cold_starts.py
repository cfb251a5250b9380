"""P0 for a model that only idle cards have: started, awaited, given back; real processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from scheduler.core.fleet import ModelFacts, PoolFacts
from scheduler.core.policy import Policy
from scheduler.ports import Scaler
from scheduler.scaling import CardSpec, CardState, NoScaler
from scheduler.scaling.processes import LocalProcesses
from tests.gateway.harness import KEY, LOW_KEY, URGENT_KEY, Gate, furnished, gate
from tests.support.engines import emulator_process

from .test_local_processes import QUICK, Site, replica_of, spare

pytestmark = pytest.mark.timeout(180)

OTHER = PoolFacts("pool", False, frozenset({0, 1, 2}))


def rules(*, wait_s: float = 60.0, cooldown_s: float = 300.0, open_s: float = 30.0) -> Policy:
    """The default policy but for these times."""
    policy = Policy()
    pressure = policy.backpressure
    return replace(
        policy,
        cold_start=replace(policy.cold_start, wait_s=wait_s),
        failover=replace(policy.failover, open_s=open_s),
        backpressure=replace(
            pressure, scale=replace(pressure.scale, cooldown_s=cooldown_s, settle_s=1.0)
        ),
    )


@asynccontextmanager
async def cold(
    folder: Path, *specs: CardSpec, policy: Policy | None = None, warm_up: bool = False
) -> AsyncIterator[Site]:
    """A gateway whose fleet serves ``other`` alone, and cards for ``chat``."""
    cards = LocalProcesses(specs, logs=folder)
    with emulator_process("--slots", "2", *QUICK, model="other") as own:
        facts = replace(replica_of(own.url, "own"), models={"other": "other"})
        memory = furnished(facts, policy=policy or rules(), warm_up=warm_up)
        memory.model(ModelFacts("other"))
        async with gate(memory, scaler=cards) as gateway:
            yield Site(gateway, cards)


def reason(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.headers.get("x-fairlane-reason", "")


def causes(gateway: Gate) -> list[tuple[str, str]]:
    """Notices about models in the decision log: what, and about which."""
    rows = [row for row in gateway.decisions.rows if row.kind == "notice" and row.model]
    return [(row.reason, row.model) for row in rows]


async def urgent(gateway: Gate) -> httpx.Response:
    return await gateway.chat(key=URGENT_KEY, max_tokens=2)


async def test_p0_starts_a_card_for_its_model_and_is_served_there(tmp_path: Path) -> None:
    """Others are refused while it starts, served when it is there; it goes when P0 has not
    needed it for a while, and the next P0 starts it anew."""
    specs = (spare("wrong", models={"other": "other"}), spare("spare-1", "--load-s", "3"))
    async with cold(tmp_path, *specs, warm_up=True) as there:
        gateway = there.gateway
        assert reason(await gateway.chat()) == (503, "no_capacity")
        assert there.state("spare-1") is CardState.IDLE
        waiting = [asyncio.create_task(urgent(gateway)) for _ in range(3)]
        await there.reach(CardState.STARTING)
        assert there.state("wrong") is CardState.IDLE
        for key in (KEY, LOW_KEY):
            refused = await gateway.chat(key=key)
            assert reason(refused) == (503, "no_capacity")
            assert 1 <= int(refused.headers["retry-after"]) <= 60
        answers = await asyncio.gather(*waiting)
        assert [(a.status_code, a.headers["x-replica"]) for a in answers] == [(200, "spare-1")] * 3
        # Its first request was the warm-up's own.
        url = gateway.runtime.health.watches["spare-1"].facts.url
        assert gateway.runtime.health.watches["spare-1"].warm
        async with httpx.AsyncClient(trust_env=False) as client:
            seen = (await client.get(f"{url}/emulator/state")).json()["recent"]
        assert "Hello" in seen[0]["body"]
        assert (await gateway.chat(max_tokens=2)).headers["x-replica"] == "spare-1"
        assert (await gateway.chat(model="other", max_tokens=2)).headers["x-replica"] == "own"
        assert causes(gateway) == [("cold_start", "chat"), ("warm", "chat")]
        gateway.tell_policy(rules(cooldown_s=0.5))
        await there.reach(CardState.IDLE)
        assert causes(gateway)[2:] == [("cold_over", "chat")]
        assert (await urgent(gateway)).headers["x-replica"] == "spare-1"
        assert {row.status for row in gateway.usage.rows if row.dispatched} == {"ok"}


async def test_a_server_that_never_becomes_ready_is_given_up_and_put_away(tmp_path: Path) -> None:
    """Who waited is told so, with a time after which there is another try."""
    policy = rules(wait_s=3.0, open_s=2.0)
    async with cold(tmp_path, spare("spare-1", "--load-s", "3600"), policy=policy) as there:
        gateway = there.gateway
        answer = await urgent(gateway)
        assert reason(answer) == (503, "no_capacity")
        assert answer.headers["retry-after"] == "2"
        assert answer.json()["error"]["code"] == "no_capacity"
        await gateway.until(lambda: causes(gateway)[-1:] == [("cold_failed", "chat")])
        assert reason(await urgent(gateway)) == (503, "no_capacity")
        await there.reach(CardState.IDLE)
        refusals = [row for row in gateway.decisions.rows if row.kind == "refuse"]
        assert refusals[0].waited >= 3.0e9


async def test_a_card_that_breaks_is_tried_again_while_p0_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try ends by itself; the second may."""
    monkeypatch.setattr("scheduler.scaling.processes.BROKEN_FIRST_S", 0.5)
    async with cold(tmp_path, spare("spare-1", "--no-such-option")) as there:
        gateway = there.gateway
        call = asyncio.create_task(urgent(gateway))
        await there.reach(CardState.BROKEN)
        slot = there.cards._slots["spare-1"]
        slot.spec = spare("spare-1")
        assert (await call).headers["x-replica"] == "spare-1"


async def test_without_cards_p0_is_refused_at_once() -> None:
    memory = furnished()
    memory.pools["pool"] = OTHER
    none: Scaler = NoScaler()
    async with gate(memory, scaler=none) as gateway:
        answer = await urgent(gateway)
        assert reason(answer) == (503, "no_capacity")
        assert answer.headers["retry-after"] == "1"


async def test_p0_whose_caller_leaves_costs_a_card_no_longer_than_the_cooldown(
    tmp_path: Path,
) -> None:
    async with cold(tmp_path, spare("spare-1"), policy=rules(cooldown_s=1.0)) as there:
        call = asyncio.create_task(urgent(there.gateway))
        await there.reach(CardState.STARTING)
        call.cancel()
        await there.ready()
        await there.reach(CardState.IDLE)
        assert there.gateway.runtime.scheduler.state.cold == {}
