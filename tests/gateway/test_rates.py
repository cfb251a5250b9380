"""Rates of requests and tokens on the running gateway: told, settled, given back."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from metering.core.facts import Rates
from scheduler.limits import Limits
from scheduler.testing import Memory, MemoryLimiter

from .harness import KEY, LOW_KEY, Gate, furnished, gate, replica
from .signer import Signer
from .stub import Held, Seen, Stub, Wire, delta, stub


@pytest.fixture
async def engine() -> AsyncIterator[Stub]:
    async with stub() as running:
        yield running


@pytest.fixture
def memory(engine: Stub) -> Memory:
    return furnished(replica(engine.url))


@pytest.fixture
async def running(memory: Memory) -> AsyncIterator[Gate]:
    async with gate(memory) as found:
        yield found


def limit(running: Gate, business: str = "owner", **rates: float) -> None:
    """New limits, as an announced change brings them, at once."""
    held = running.memory.businesses
    held[business] = replace(held[business], rates=Rates(**rates))  # type: ignore[arg-type]
    running.runtime.gateway.access = running.memory.access()
    running.runtime.gateway.limiter.follow(running.memory.access())


async def test_answers_tell_what_is_left(running: Gate) -> None:
    plain = await running.chat()
    assert not [name for name in plain.headers if name.startswith("x-ratelimit")]
    limit(running, requests_per_s=0.001, burst=3, tokens_per_min=1_000_000)
    for left in (2, 1, 0):
        answer = await running.chat(max_tokens=5)
        assert answer.headers["x-ratelimit-limit-requests"] == "3"
        assert answer.headers["x-ratelimit-remaining-requests"] == str(left)
        assert answer.headers["x-ratelimit-reset-requests"].endswith("s")
        assert answer.headers["x-ratelimit-limit-tokens"] == "1000000"
    refused = await running.chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_requests")
    assert refused.headers["x-fairlane-reason"] == "rate_limit_requests"
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert 995 <= int(refused.headers["retry-after"]) <= 1000
    assert "x-should-retry" not in refused.headers
    row = (await running.rows(5))[-1]
    assert (row.status, row.reason, row.dispatched) == ("refused", "rate_limit_requests", 0)
    # Nobody else's matter.
    assert (await running.chat(key=LOW_KEY)).status_code == 200


async def test_b07_waiting_exactly_as_told_is_enough(running: Gate) -> None:
    limit(running, requests_per_s=4, burst=1)
    for _ in range(3):
        answer = await running.chat()
        while answer.status_code == 429:
            assert int(answer.headers["retry-after"]) == 1
            millis = int(answer.headers["retry-after-ms"])
            assert 1 <= millis <= 250
            await asyncio.sleep(millis / 1000)
            answer = await running.chat()
            assert answer.status_code == 200


async def test_a_blocked_business_is_told_not_to_retry(running: Gate) -> None:
    limit(running, tokens_per_min=0)
    refused = await running.chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_tokens")
    assert refused.headers["x-should-retry"] == "false"
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["x-ratelimit-limit-tokens"] == "0"


async def used(running: Gate, business: str = "owner") -> tuple[float, float]:
    """Requests and tokens taken of the business's buckets, once all is at rest."""
    await running.until(lambda: running.idle)
    limits = running.runtime.gateway.limiter
    assert isinstance(limits, Limits)
    party, now = limits._businesses[business], running.runtime.gateway.clock.now()
    assert party.requests is not None
    assert party.tokens is not None
    return (
        round(party.requests.burst - party.requests.left(now), 2),
        round(party.tokens.burst - party.tokens.left(now)),
    )


def barely_refilled(running: Gate) -> None:
    """So slow a refill that a test sees what was taken."""
    limit(running, requests_per_s=0.0001, burst=100, tokens_per_min=1)
    limits = running.runtime.gateway.limiter
    assert isinstance(limits, Limits)
    party = limits._businesses["owner"]
    assert party.tokens is not None
    party.tokens.change(0, 100_000, running.runtime.gateway.clock.now())
    party.tokens.give_back(100_000)


@pytest.mark.parametrize("streamed", [False, True])
async def test_b08_settled_to_the_true_figure_streamed_or_not(
    running: Gate, streamed: bool
) -> None:
    barely_refilled(running)
    for _ in range(3):
        if streamed:
            await running.streamed(max_tokens=4000)
        else:
            await running.chat(max_tokens=4000)
    rows = await running.rows(3)
    assert await used(running) == (3, sum(r.prompt_tokens + r.completion_tokens for r in rows))
    assert rows[0].completion_tokens == 3


async def test_given_back_when_the_core_refuses(running: Gate) -> None:
    barely_refilled(running)
    held = running.memory.businesses
    held["owner"] = replace(held["owner"], running=0, queued=0)
    running.runtime.scheduler.set_access(running.memory.access())
    refused = await running.chat(max_tokens=4000)
    assert refused.json()["error"]["code"] == "concurrency_exceeded"
    assert refused.headers["x-ratelimit-remaining-requests"] == "100"
    assert await used(running) == (0, 0)


async def test_given_back_when_the_replica_produced_nothing(running: Gate, engine: Stub) -> None:
    async def fail(seen: Seen, wire: Wire) -> None:
        await wire.json({"error": "broken"}, 500)

    engine.answer = fail
    barely_refilled(running)
    assert (await running.chat(max_tokens=4000)).status_code == 502
    assert await used(running) == (0, 0)


@pytest.mark.parametrize("how", ["queue_timeout", "tenant_suspended", "no_capacity"])
async def test_e04_given_back_whatever_it_failed_of(running: Gate, engine: Stub, how: str) -> None:
    """E04: what came to nothing costs nothing, and its row is kept with its status."""
    barely_refilled(running)
    memory, held = running.memory, running.memory.businesses
    waits, others = Held(), list[asyncio.Task[httpx.Response]]()
    if how == "queue_timeout":
        policy = memory.rules
        queue = replace(policy.queues.P1, queue_timeout_ms=50)
        memory.rules = replace(policy, queues=replace(policy.queues, P1=queue))
        await running.runtime.reload("policy")
        memory.replicas["r1"] = replace(memory.replicas["r1"], slots=1)
        await running.runtime.reload("fleet")
        engine.answer = waits
        others.append(asyncio.create_task(running.chat("first", key=LOW_KEY)))
        await running.until(lambda: waits.order)
    elif how == "tenant_suspended":
        held["owner"] = replace(held["owner"], suspended=True)
        running.runtime.scheduler.set_access(memory.access())
    else:
        memory.replicas.clear()
        await running.runtime.reload("fleet")
    refused = await running.chat(max_tokens=4000)
    assert refused.json()["error"]["code"] == how
    waits.finish("first")
    assert {answer.status_code for answer in await asyncio.gather(*others)} <= {200}
    assert await used(running) == (0, 0)
    row = next(row for row in running.usage.rows if row.business == "owner")
    assert (row.reason, row.prompt_tokens, row.completion_tokens) == (how, 0, 0)
    assert row.gpu_seconds == 0


async def test_b01_aborted_streams_leave_only_what_they_delivered(
    running: Gate, engine: Stub
) -> None:
    """B01's flavour at the rates: twenty streams are left at their second chunk."""

    async def endless(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(delta("a"))
        await wire.chunk(delta("b"))
        await seen.closed.wait()

    engine.answer = endless
    barely_refilled(running)
    for _ in range(20):
        async with running.stream(max_tokens=4000) as answer:
            chunks = answer.aiter_bytes()
            await anext(chunks)
    rows = await running.rows(20)
    assert {row.status for row in rows} == {"client_disconnect"}
    delivered = sum(row.prompt_tokens + row.completion_tokens for row in rows)
    assert await used(running) == (20, delivered)
    assert delivered < 20 * 100


async def test_a_credential_as_the_bearer_has_a_quota_row_of_its_own(running: Gate) -> None:
    signer = Signer(running.memory)
    token = signer.issue("owner", rates=Rates(requests_per_s=0.001, burst=1))
    limit(running)
    assert (await running.chat(key=token)).status_code == 200
    assert (await running.chat(key=token)).status_code == 429
    # Beside a key it is not the bearer, and the key is not bound by its limits.
    beside = await running.chat(key=KEY, headers={"x-tier-credential": token})
    assert (beside.status_code, "x-ratelimit-limit-requests" in beside.headers) == (200, False)


async def test_the_gateway_needs_nothing_but_the_port(running: Gate) -> None:
    limiter = running.runtime.gateway.limiter = MemoryLimiter(left=1)
    assert (await running.chat()).status_code == 200
    assert (await running.chat()).status_code == 429
    await running.until(lambda: len(limiter.settled) == 1)
    assert limiter.settled == [(10, True)]
