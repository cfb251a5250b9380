"""Each reason of the contract once, on a gateway at work; and whoever waits as it was told, with
nobody else about, is served."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from decimal import Decimal

import httpx
import pytest

from metering.core.facts import Rates
from metering.core.prices import ModelPrices, PriceList
from scheduler.core.policy import Policy
from scheduler.gateway.errors import STATUS
from scheduler.testing import MemoryBooks
from tests.meta.test_readme import used

from .harness import Gate, furnished, gate, replica
from .raw import CHAT
from .stub import Seen, Stub, Wire, polite

SERVICE_S = 0.25
PATIENT = {
    *("rate_limit_requests", "rate_limit_tokens", "concurrency_exceeded", "queue_full"),
    *("queue_timeout", "backpressure", "latency_budget_unreachable"),
}
HASTE = {"x-latency-budget-ms": str(round(SERVICE_S * 600))}
# Told by the program itself, beside what it says no to.
BESIDE = {"not_found", "method_not_allowed", "internal_error"}
Provoke = Callable[[Gate, Stub], Awaitable[httpx.Response]]
PROVOKED: dict[str, Provoke] = {}


def provokes(code: str) -> Callable[[Provoke], Provoke]:
    """This is how to get it."""

    def note(provoke: Provoke) -> Provoke:
        PROVOKED[code] = provoke
        return provoke

    return note


async def limit(running: Gate, /, **changes: object) -> None:
    """Other facts about the business."""
    held = running.memory.businesses
    held["owner"] = replace(held["owner"], **changes)  # type: ignore[arg-type]
    await running.runtime.reload("access")


async def rule(running: Gate, change: Callable[[Policy], Policy]) -> None:
    """Other rules."""
    running.memory.rules = change(running.memory.rules)
    await running.runtime.reload("policy")


async def queue(running: Gate, **changes: int) -> None:
    """Another queue for the business's lane."""

    def change(policy: Policy) -> Policy:
        lane = replace(policy.queues.P1, **changes)  # type: ignore[arg-type]
        return replace(policy, queues=replace(policy.queues, P1=lane))

    await rule(running, change)


async def last_of(running: Gate, number: int, **body: object) -> httpx.Response:
    """So many calls at once; the one that is refused."""
    answers = await asyncio.gather(*(running.chat(**body) for _ in range(number)))  # type: ignore[arg-type]
    (refused,) = [answer for answer in answers if answer.status_code != 200]
    return refused


@provokes("rate_limit_requests")
async def too_often(running: Gate, engine: Stub) -> httpx.Response:
    await limit(running, rates=Rates(requests_per_s=1.0, burst=2))
    return await last_of(running, 3)


@provokes("rate_limit_tokens")
async def too_many_tokens(running: Gate, engine: Stub) -> httpx.Response:
    await limit(running, rates=Rates(tokens_per_min=6000))
    return await last_of(running, 2, max_tokens=3100)


@provokes("concurrency_exceeded")
async def too_many_at_once(running: Gate, engine: Stub) -> httpx.Response:
    await limit(running, running=1, queued=1)
    return await last_of(running, 3)


@provokes("budget_exhausted")
async def too_dear(running: Gate, engine: Stub) -> httpx.Response:
    running.books.prices = PriceList(None, {"": ModelPrices(request=Decimal(1))})
    await limit(running, monthly_budget=Decimal(2))
    return await last_of(running, 3)


@provokes("queue_full")
async def full(running: Gate, engine: Stub) -> httpx.Response:
    await queue(running, max_queue=1)
    return await last_of(running, 3)


@provokes("queue_timeout")
async def too_long(running: Gate, engine: Stub) -> httpx.Response:
    await queue(running, queue_timeout_ms=round(SERVICE_S * 400))
    return await last_of(running, 2)


@provokes("latency_budget_unreachable")
async def too_late(running: Gate, engine: Stub) -> httpx.Response:
    others = [asyncio.create_task(running.chat()) for _ in range(2)]
    await running.until(lambda: running.queued == 1)
    refused = await running.chat(headers=HASTE)
    await asyncio.gather(*others)
    return refused


@provokes("backpressure")
async def too_large_together(running: Gate, engine: Stub) -> httpx.Response:
    running.runtime.gateway.bodies.most_held = 200_000
    return await last_of(running, 2, user="x" * 150_000)


@provokes("tenant_suspended")
async def suspended(running: Gate, engine: Stub) -> httpx.Response:
    await limit(running, suspended=True)
    return await running.chat()


@provokes("no_capacity")
async def nowhere(running: Gate, engine: Stub) -> httpx.Response:
    running.memory.replicas.clear()
    await running.runtime.reload("fleet")
    return await running.chat()


@provokes("shutting_down")
async def closing(running: Gate, engine: Stub) -> httpx.Response:
    running.runtime.gateway.drain()
    return await running.chat()


@provokes("upstream_error")
async def broken(running: Gate, engine: Stub) -> httpx.Response:
    async def fail(seen: Seen, wire: Wire) -> None:
        await wire.json({"error": "broken"}, 500)

    engine.answer = fail
    return await running.chat()


@provokes("upstream_timeout")
async def silent(running: Gate, engine: Stub) -> httpx.Response:
    async def wait(seen: Seen, wire: Wire) -> None:
        await seen.closed.wait()

    engine.answer = wait
    await rule(running, lambda p: replace(p, failover=replace(p.failover, first_byte_ms=300)))
    return await running.chat()


@provokes("context_length_exceeded")
async def endless(running: Gate, engine: Stub) -> httpx.Response:
    async def refuse(seen: Seen, wire: Wire) -> None:
        said = "This model's maximum context length is 8192 tokens."
        # Its callers get it as it is.
        await wire.json({"error": {"message": said, "code": "context_length_exceeded"}}, 400)

    engine.answer = refuse
    return await running.chat()


@provokes("invalid_request")
async def no_json(running: Gate, engine: Stub) -> httpx.Response:
    return await running.client.post(CHAT, content=b"{", headers=running.headers())


@provokes("invalid_api_key")
async def nobody(running: Gate, engine: Stub) -> httpx.Response:
    return await running.chat(key="fl_live_nobody")


@provokes("priority_not_allowed")
async def presumptuous(running: Gate, engine: Stub) -> httpx.Response:
    def refuse(policy: Policy) -> Policy:
        changed = replace(policy.classification, on_escalation="refuse")
        return replace(policy, classification=changed)

    await rule(running, refuse)
    return await running.chat(headers={"priority": "P0"})


@provokes("model_not_allowed")
async def forbidden(running: Gate, engine: Stub) -> httpx.Response:
    await limit(running, models=frozenset({"other"}))
    return await running.chat()


@provokes("model_not_found")
async def unknown(running: Gate, engine: Stub) -> httpx.Response:
    return await running.chat(model="nothing")


@provokes("biz_tag_mismatch")
async def another_s(running: Gate, engine: Stub) -> httpx.Response:
    return await running.chat(headers={"biz-tag": "urgent"})


@provokes("body_too_large")
async def too_large(running: Gate, engine: Stub) -> httpx.Response:
    return await running.chat("x" * (1 << 20))


@provokes("unsupported_media_type")
async def packed(running: Gate, engine: Stub) -> httpx.Response:
    return await running.chat("x", headers={"content-encoding": "gzip"})


def test_all_that_the_program_gives_are_here() -> None:
    assert PROVOKED.keys() == {code for code in STATUS if used(code)} - BESIDE


@pytest.mark.parametrize("code", PROVOKED)
async def test_b07_provoked_once_and_gone_after_the_time_named(engine: Stub, code: str) -> None:
    async def steady(seen: Seen, wire: Wire) -> None:
        await asyncio.sleep(SERVICE_S)
        await polite(seen, wire)

    engine.answer = steady
    memory = furnished(replica(engine.url, slots=1))
    async with gate(memory, books=MemoryBooks()) as running:
        # It knows how long such a request takes.
        for _ in range(5):
            assert (await running.chat()).status_code == 200
        refused = await PROVOKED[code](running, engine)
        assert refused.status_code == STATUS[code]
        assert refused.json()["error"]["code"] == code
        if refused.status_code in (429, 503):
            assert refused.headers["x-fairlane-reason"] == code
            assert int(refused.headers["retry-after"]) >= 1
            retry = refused.headers.get("x-should-retry") != "false"
            assert retry == (code in PATIENT | {"shutting_down", "no_capacity"})
        if code in PATIENT:
            await asyncio.sleep(int(refused.headers["retry-after-ms"]) / 1000)
            haste = HASTE if code == "latency_budget_unreachable" else None
            assert (await running.chat(headers=haste)).status_code == 200
