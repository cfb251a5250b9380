"""Within which time a request is due: said by its caller, its business or its lane."""

import asyncio
from dataclasses import replace

import pytest

from metering.core.facts import BusinessFacts
from scheduler.core.policy import Policy

from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from .stub import Held, stub

MS = 1_000_000
NAME = "X-Latency-Budget-Ms"


async def budget(gateway: Gate, key: str = KEY, **headers: str) -> int | None:
    """What the scheduler is told, for a call with these headers (``_`` is ``-``)."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with gateway.stream("hi", key=key, headers=named) as response:
        (call,) = gateway.runtime.scheduler.calls.values()
        assert response.status_code == 200
        found = call.ticket.budget
    await gateway.until(lambda: gateway.idle)
    return found


def policy(**lanes: int | None) -> Policy:
    """The default policy with other budgets."""
    rules = Policy()
    queues = rules.queues
    for lane, millis in lanes.items():
        found = replace(getattr(queues, lane), latency_budget_ms=millis)
        queues = replace(queues, **{lane: found})
    return replace(rules, queues=queues)


async def test_the_caller_comes_before_the_business_and_that_before_the_lane() -> None:
    async with stub(Held()) as server:
        memory = furnished(replica(server.url), policy=policy(P0=7000, P1=50_000, P2=None))
        async with gate(memory) as gateway:
            assert await budget(gateway) == 50_000 * MS
            assert await budget(gateway, URGENT_KEY) == 7000 * MS
            assert await budget(gateway, LOW_KEY) is None
            assert await budget(gateway, LOW_KEY, X_Latency_Budget_Ms="250") == 250 * MS
            memory.business(
                BusinessFacts("owner", grade="premium", ceiling=1, latency_budget_ms=900), KEY
            )
            memory.tell("access")
            known = gateway.runtime.gateway
            await gateway.until(lambda: known.access.businesses["owner"].latency_budget_ms)
            assert await budget(gateway) == 900 * MS
            assert await budget(gateway, priority="P2") is None
            assert await budget(gateway, X_Latency_Budget_Ms="1200.5") == 1_200_500_000
            assert await budget(gateway, latency_budget_ms="80") == 80 * MS


async def test_a_claim_into_another_lane_takes_that_lanes_budget() -> None:
    async with (
        stub(Held()) as server,
        gate(furnished(replica(server.url))) as gateway,
    ):
        assert await budget(gateway, URGENT_KEY) == 10_000 * MS
        assert await budget(gateway, URGENT_KEY, priority="P1") == 60_000 * MS
        assert await budget(gateway, URGENT_KEY, priority="P2") is None


@pytest.mark.parametrize("said", ["soon", "-1", "0", "", "1e3", "inf", "nan", "9" * 40])
async def test_what_is_no_time_is_refused(said: str) -> None:
    """Silently taking the default would look like a promise."""
    async with stub() as server, gate(furnished(replica(server.url))) as gateway:
        answer = await gateway.chat(headers={NAME: said})
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "invalid_request"
        assert answer.json()["error"]["param"] == NAME
        assert not server.seen


async def test_of_two_budgets_the_one_that_asks_for_less_holds() -> None:
    async with (
        stub(Held()) as server,
        gate(furnished(replica(server.url))) as gateway,
    ):
        both = {"X_Latency_Budget_Ms": "100", "latency_budget_ms": "300"}
        assert await budget(gateway, **both) == 300 * MS


async def test_a_mean_that_is_far_too_high_corrects_itself_as_calls_come_in() -> None:
    """More at once than the slot takes: some are refused by the wrong mean, and those let in to
    see whether it is true put it right."""
    async with stub() as server:
        memory = furnished(replace(replica(server.url), slots=1), policy=policy(P1=20_000))
        async with gate(memory) as gateway:
            for _ in range(6):
                assert (await gateway.chat()).status_code == 200
            estimates = gateway.runtime.scheduler.state.estimates
            step = estimates.models["chat"].step
            true = step.at(1.0)
            for speeds in (
                estimates.models,
                *estimates.kinds.values(),
                *estimates.replicas.values(),
            ):
                each = speeds["chat"].step
                each.base = each.y = 1e6 * max(true, MS)
            calls = 0
            while step.at(1.0) > 10 * max(true, MS):
                assert calls < 600, "a minute's calls, and it is not right again"
                answers = await asyncio.gather(*(gateway.chat() for _ in range(3)))
                calls += len(answers)
                assert {answer.status_code for answer in answers} <= {200, 429}
            answers = await asyncio.gather(*(gateway.chat() for _ in range(3)))
            assert {answer.status_code for answer in answers} == {200}
            assert (
                'fairlane_predictor_error_ratio{lane="P1"}'
                in (await gateway.client.get("/metrics")).text
            )
