"""A lighter model answers in place of a refusal: told to the caller, written down, charged for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from metering.core.facts import BusinessFacts
from metering.core.prices import ModelPrices, PriceList
from metering.core.purse import parts
from scheduler.core.fleet import ModelFacts
from scheduler.core.policy import Policy
from scheduler.testing import MemoryBooks

from .harness import KEY, Gate, furnished, gate, replica
from .stub import Held, Stub, stub

HEADER = "x-fairlane-degraded"


def rules(*, degrade: bool = True) -> Policy:
    policy = Policy()
    return replace(policy, admission=replace(policy.admission, degrade=degrade))


def facts(*, degrade: bool = True, models: frozenset[str] | None = None) -> BusinessFacts:
    return BusinessFacts("owner", grade="premium", ceiling=1, degrade=degrade, models=models)


@asynccontextmanager
async def without_chat(
    policy: Policy | None = None,
    business: BusinessFacts | None = None,
    *,
    served: str = "lite",
    task: str = "chat",
) -> AsyncIterator[tuple[Gate, Stub]]:
    """No replica serves ``chat``, but one its stand-in ``lite``, under its own name or another."""
    async with stub() as server:
        light = replace(replica(server.url, name="small"), models={"lite": served})
        memory = furnished(light, policy=policy or rules())
        memory.business(business or facts(), KEY)
        memory.model(ModelFacts("lite", task=task, lighter_of="chat"))
        async with gate(memory) as gateway:
            yield gateway, server


@pytest.mark.parametrize("served", ["lite", "org/Lite-1B"])
async def test_the_replica_is_asked_for_its_own_model_and_the_caller_is_told(served: str) -> None:
    async with without_chat(served=served) as (gateway, server):
        answer = await gateway.chat(max_tokens=3)
        assert answer.status_code == 200
        assert answer.headers[HEADER] == "lite"
        assert answer.headers["x-replica"] == "small"
        assert "x-fairlane-reason" not in answer.headers
        assert answer.json()["model"] == "lite"
        assert msgspec.json.decode(server.seen[-1].body)["model"] == served
        events = (await gateway.streamed()).decode()
        assert '"model":"lite"' in events.replace(" ", "")
        assert '"chat"' not in events
        rows = await gateway.rows(2)
        assert {(row.requested_model, row.degraded_to) for row in rows} == {("chat", "lite")}
        assert {row.model for row in rows} == {"lite"}
        (first, second) = [row for row in gateway.decisions.rows if row.kind == "degrade"]
        assert (first.model, first.reason, first.request) == ("chat", "no_capacity", rows[0].id)
        assert first.detail is not None
        assert first.detail["answered_by"] == "lite"
        assert second.business == "owner"


async def test_who_gets_what_was_asked_for_is_told_nothing() -> None:
    async with without_chat() as (gateway, _):
        answer = await gateway.chat(model="lite")
        assert answer.json()["model"] == "lite"
        assert HEADER not in answer.headers
        assert (await gateway.row()).degraded_to == ""


@pytest.mark.parametrize(
    ("policy", "business", "task"),
    [
        (rules(degrade=False), facts(), "chat"),
        (rules(), facts(degrade=False), "chat"),
        (rules(), facts(models=frozenset({"chat"})), "chat"),
        (rules(), facts(), "code"),
    ],
)
async def test_without_leave_it_is_a_refusal(
    policy: Policy, business: BusinessFacts, task: str
) -> None:
    async with without_chat(policy, business, task=task) as (gateway, server):
        answer = await gateway.chat()
        assert answer.status_code == 503
        assert answer.headers["x-fairlane-reason"] == "no_capacity"
        assert not server.seen


async def test_another_embedding_is_no_stand_in() -> None:
    async with without_chat() as (gateway, _):
        body = {"model": "chat", "input": "x"}
        answer = await gateway.client.post("/v1/embeddings", json=body, headers=gateway.headers())
        assert answer.status_code == 503


async def test_over_its_latency_budget_the_lighter_model_answers_in_time() -> None:
    """Its own has one slot, which is taken, and is known to need far longer than there is."""
    held = Held()
    async with stub(held) as heavy, stub() as small:
        memory = furnished(
            replica(heavy.url, name="big", slots=1),
            replace(replica(small.url, name="small"), models={"lite": "lite"}),
            policy=rules(),
        )
        memory.business(facts(), KEY)
        memory.model(ModelFacts("lite", lighter_of="chat"))
        async with gate(memory) as gateway:
            estimates: Any = gateway.runtime.scheduler.state.estimates
            tasks = [asyncio.create_task(gateway.streamed(f"n{n}")) for n in range(2)]
            await gateway.until(lambda: gateway.running == 1 and gateway.queued == 1)
            state = gateway.runtime.scheduler.state
            for _ in range(8):
                estimates.decoded("chat", "big", 1, 1.0, 600_000_000.0, state.now)
            group = state.replicas["big"].group
            assert group is not None
            group.turnover = 1.0 / 60e9
            answer = await gateway.chat(headers={"X-Latency-Budget-Ms": "2000"})
            assert answer.status_code == 200
            assert answer.headers[HEADER] == "lite"
            (row,) = [row for row in gateway.decisions.rows if row.kind == "degrade"]
            assert row.reason == "latency_budget_unreachable"
            assert row.detail is not None
            assert int(str(row.detail["late_ms"])) > 1000
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_budget_is_charged_for_what_ran() -> None:
    prices = PriceList(
        None, {"chat": ModelPrices(request=Decimal(100)), "lite": ModelPrices(request=Decimal(1))}
    )
    async with stub() as server:
        light = replace(replica(server.url, name="small"), models={"lite": "lite"})
        memory = furnished(light, policy=rules())
        memory.business(replace(facts(), monthly_budget=Decimal(1000)), KEY)
        memory.model(ModelFacts("lite", lighter_of="chat"))
        async with gate(memory, books=MemoryBooks(prices)) as gateway:
            assert (await gateway.chat()).status_code == 200
            limits: Any = gateway.runtime.gateway.limiter
            assert limits.purses()["owner"].spent == parts(Decimal(1))
