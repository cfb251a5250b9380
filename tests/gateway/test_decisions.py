"""Decisions of the running scheduler: written down, and told in the contract's words."""

import asyncio
import logging
import re
import time
from dataclasses import replace

import httpx
import pytest

from scheduler.core.policy import Policy
from scheduler.testing import Memory

from .harness import LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from .stub import Seen, Wire, chat_answer, stub


class Held:
    """An engine that answers low-priority requests when told to, others at once."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, seen: Seen, wire: Wire) -> None:
        if seen.prompt == "slow":
            await self.go.wait()
        await wire.json(chat_answer())


def slow(running: Gate) -> asyncio.Task[httpx.Response]:
    """A plain call of the P2 business that runs until told."""
    messages = [{"role": "user", "content": "slow"}]
    return asyncio.create_task(running.chat(key=LOW_KEY, messages=messages, max_tokens=2000))


async def test_each_dispatch_is_a_row_and_a_refusal_a_full_one() -> None:
    async with stub() as engine, gate(furnished(replica(engine.url))) as running:
        answer = await running.chat(headers={"priority": "P2"})
        request = answer.headers["x-request-id"]
        assert running.decisions.of(request) == ["dispatch"]
        row = next(each for each in running.decisions.rows if each.request == request)
        assert (row.business, row.model, row.lane, row.replica) == ("owner", "chat", 2, "r1")
        held = running.memory.businesses
        held["owner"] = replace(held["owner"], running=0, queued=0)
        running.runtime.scheduler.set_access(running.memory.access())
        refused = await running.chat(headers={"priority": "P2"})
        row = running.decisions.rows[-1]
        assert (row.kind, row.request) == ("refuse", refused.headers["x-request-id"])
        assert row.reason == "concurrency_exceeded"
        assert row.detail is not None
        assert row.detail["claim"] == "P2"
        assert row.detail["features"] == {
            "realtime": "medium",
            "model_weight": "medium",
            "grade": "premium",
            "offline": False,
            "billing_sla": False,
        }


async def test_a_preemption_is_told_and_judged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "scheduler.actor")
    held = Held()
    async with (
        stub(held) as engine,
        gate(furnished(replica(engine.url, slots=1))) as running,
    ):
        waiting = slow(running)
        await running.until(lambda: len(engine.seen) == 1)
        urgent = await running.chat(key=URGENT_KEY, max_tokens=1)
        assert urgent.status_code == 200
        held.go.set()
        victim = await waiting
        assert victim.status_code == 200
        bid, req = victim.headers["x-request-id"], urgent.headers["x-request-id"]
        told = [r.getMessage() for r in caplog.records if "preempt" in r.getMessage()]
        assert len(told) == 1
        assert re.fullmatch(
            rf"preempt P2 batch bid={bid} to serve P0 req={req}"
            r" kv_snapshot_saved=false est_remain=\d+ms gain>cost",
            told[0],
        )
        assert running.decisions.of(bid) == ["dispatch", "preempt", "dispatch", "outcome"]
        outcome = running.decisions.rows[-1]
        assert (outcome.reason, outcome.other) == ("resumed", req)
        assert outcome.detail is not None
        assert outcome.detail["gain_ms"] > outcome.detail["cost_ms"]  # type: ignore[operator]
        assert isinstance(outcome.detail["freed_after_ms"], int)
        assert isinstance(outcome.detail["served_after_ms"], int)
        metrics = (await running.client.get("/metrics")).text
        assert 'fairlane_preemptions_total{outcome="resumed",pool="pool"} 1.0' in metrics
        assert "fairlane_preemption_gain_seconds_count 1.0" in metrics


async def test_a_promotion_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "scheduler.actor")
    policy = Policy()
    overdue = replace(policy.queues.P2, max_wait_ms=50)
    rules = replace(policy, queues=replace(policy.queues, P2=overdue))
    held = Held()
    memory: Memory = furnished(policy=rules)
    async with stub(held) as engine:
        memory.replica(replica(engine.url, slots=1))
        async with gate(memory) as running:
            first = slow(running)
            await running.until(lambda: len(engine.seen) == 1)
            second = slow(running)
            await running.until(lambda: running.runtime.scheduler.state.lane_queued[2] == 1)
            overdue_at = time.monotonic() + 0.06
            await running.until(lambda: time.monotonic() > overdue_at)
            held.go.set()
            await first
            request = (await second).headers["x-request-id"]
            expected = f"P2 req {request} hit max_wait_ms, promote to P1 once (starvation guard)"
            told = [r for r in caplog.records if r.getMessage() == expected]
            assert [r.levelname for r in told] == ["WARNING"]
            assert sorted(running.decisions.of(request)) == ["dispatch", "promote"]
            metrics = (await running.client.get("/metrics")).text
            assert 'fairlane_promotions_total{lane="P2"} 1.0' in metrics
