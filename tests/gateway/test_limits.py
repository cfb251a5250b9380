"""Rates of requests and tokens: exact, whole or not at all, given back, told to the caller."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from metering.core.facts import (
    UNLIMITED,
    AccessSnapshot,
    BusinessFacts,
    CredentialFacts,
    Rates,
)
from scheduler.gateway.ratelimit import duration
from scheduler.limits import Limits, Reserved, TypicalOutput
from scheduler.ports import Denied, Grant, Level, Standing
from scheduler.testing import ManualClock, Memory, MemoryLimiter

from .harness import KEY, LOW_KEY, Gate, furnished, gate, replica
from .signer import Signer
from .stub import Seen, Stub, Wire, delta, stub

SECOND = 1_000_000_000
LATER = 2**62


def limited(clock: ManualClock, rates: Rates, **credentials: CredentialFacts) -> Limits:
    limits = Limits(clock)
    limits.follow(access(rates, **credentials))
    return limits


def access(rates: Rates, **credentials: CredentialFacts) -> AccessSnapshot:
    business = BusinessFacts("owner", rates=rates)
    return AccessSnapshot(1, {"owner": business}, {}, credentials)


def credential(jti: str, rates: Rates = UNLIMITED, parent: str = "") -> CredentialFacts:
    return CredentialFacts(jti, "owner", "vip", 0, None, "", 0, LATER, parent, rates)


async def granted(limits: Limits, tokens: int = 1, bearer: str = "") -> Grant:
    outcome = await limits.reserve("owner", bearer, tokens)
    assert not isinstance(outcome, Denied)
    return outcome


async def denied(limits: Limits, tokens: int = 1, bearer: str = "") -> Denied:
    outcome = await limits.reserve("owner", bearer, tokens)
    assert isinstance(outcome, Denied)
    return outcome


async def test_b05_a_limit_that_is_used_exactly_never_refuses() -> None:
    """B05: 186 tokens a minute, a call of 31 every ten seconds, for five minutes."""
    clock = ManualClock()
    limits = limited(clock, Rates(requests_per_s=1000, tokens_per_min=186))
    for _ in range(31):
        grant = await granted(limits, 31)
        grant.settle(31, counted=True)
        clock.advance(10)
    for _ in range(6):
        await granted(limits, 31)
    assert (await denied(limits, 31)).retry_after == 10 * SECOND


@pytest.mark.parametrize(
    ("rates", "tokens", "reason"),
    [
        (Rates(requests_per_s=0.3), 1, "rate_limit_requests"),
        (Rates(requests_per_s=7, burst=3), 1, "rate_limit_requests"),
        (Rates(requests_per_s=1000, burst=1), 1, "rate_limit_requests"),
        (Rates(tokens_per_min=100), 7, "rate_limit_tokens"),
        (Rates(requests_per_s=5, burst=5, tokens_per_min=60), 31, "rate_limit_tokens"),
    ],
)
async def test_b07_after_the_time_named_a_single_request_succeeds(
    rates: Rates, tokens: int, reason: str
) -> None:
    clock = ManualClock()
    limits = limited(clock, rates)
    for _ in range(200):
        outcome = await limits.reserve("owner", "", tokens)
        while not isinstance(outcome, Denied):
            outcome = await limits.reserve("owner", "", tokens)
        assert outcome.reason == reason
        assert outcome.retry_after is not None
        clock.time += outcome.retry_after - 1
        assert (await denied(limits, tokens)).retry_after == 1
        clock.time += 1
        await granted(limits, tokens)


async def test_the_time_named_holds_for_every_limit_at_once() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(requests_per_s=1, burst=1, tokens_per_min=60))
    await granted(limits, 60)
    # A request is there again after a second, the tokens only after a minute.
    answer = await denied(limits, 60)
    assert (answer.reason, answer.retry_after) == ("rate_limit_tokens", 60 * SECOND)
    assert (await denied(limits, 1)).retry_after == SECOND


async def test_b04_parallel_calls_never_pass_the_check_together() -> None:
    """B04: 1,000 units left, fifty calls of 100 at once."""
    clock = ManualClock()
    limits = limited(clock, Rates(tokens_per_min=1000))
    outcomes = await asyncio.gather(*(limits.reserve("owner", "", 100) for _ in range(50)))
    grants = [outcome for outcome in outcomes if not isinstance(outcome, Denied)]
    assert len(grants) == 10
    assert grants[0].standing().tokens == Level(1000, 0, 60 * SECOND)
    for grant in grants:
        grant.settle(40, counted=True)
        grant.settle(0, counted=False)
    assert grants[0].standing().tokens == Level(1000, 600, 24 * SECOND)


async def test_a_refusal_takes_nothing() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(requests_per_s=1, burst=5, tokens_per_min=100))
    await granted(limits, 60)
    for _ in range(50):
        assert (await denied(limits, 50)).standing == Standing(
            Level(5, 4, SECOND), Level(100, 40, 36 * SECOND)
        )
    await granted(limits, 40)


async def test_what_came_to_nothing_is_given_back_in_full() -> None:
    limits = limited(ManualClock(), Rates(requests_per_s=1, burst=1, tokens_per_min=10))
    for _ in range(100):
        (await granted(limits, 10)).settle(0, counted=False)
    (await granted(limits, 10)).settle(0, counted=True)
    assert (await denied(limits, 1)).reason == "rate_limit_requests"


async def test_what_was_used_beyond_the_estimate_is_owed() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(tokens_per_min=60))
    (await granted(limits, 10)).settle(100, counted=True)
    answer = await denied(limits, 10)
    assert answer.retry_after == 50 * SECOND
    assert answer.standing.tokens == Level(60, 0, 100 * SECOND)
    clock.advance(50)
    await granted(limits, 10)


async def test_more_than_a_minute_s_tokens_waits_for_a_full_bucket() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(tokens_per_min=60))
    grant = await granted(limits, 5000)
    assert (await denied(limits, 5000)).retry_after == 60 * SECOND
    grant.settle(90, counted=True)
    assert (await denied(limits, 5000)).retry_after == 90 * SECOND


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        (Rates(requests_per_s=0), "rate_limit_requests"),
        (Rates(requests_per_s=5, burst=0), "rate_limit_requests"),
        (Rates(burst=0), "rate_limit_requests"),
        (Rates(tokens_per_min=0), "rate_limit_tokens"),
    ],
)
async def test_zero_blocks(rates: Rates, reason: str) -> None:
    clock = ManualClock()
    limits = limited(clock, rates)
    for _ in range(2):
        answer = await denied(limits)
        assert (answer.reason, answer.retry_after) == (reason, None)
        clock.advance(10**6)
    limits.follow(access(Rates(requests_per_s=5, burst=5, tokens_per_min=5)))
    await granted(limits)


async def test_blank_is_unlimited() -> None:
    for rates in (Rates(), Rates(burst=5)):
        limits = limited(ManualClock(), rates)
        for _ in range(1000):
            grant = await granted(limits, 10**9)
            assert grant.standing() == Standing()
            grant.settle(10**9, counted=True)
    assert not isinstance(await Limits(ManualClock()).reserve("nobody", "", 1), Denied)


async def test_limits_change_live_and_what_was_used_stays_used() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(tokens_per_min=1000))
    grant = await granted(limits, 900)
    limits.follow(access(Rates(tokens_per_min=1000, requests_per_s=5)))
    assert (await denied(limits, 101)).reason == "rate_limit_tokens"
    limits.follow(access(Rates(tokens_per_min=2000)))
    assert (await denied(limits, 1101)).reason == "rate_limit_tokens"
    await granted(limits, 1100)
    limits.follow(access(Rates(tokens_per_min=600)))
    assert (await denied(limits, 1)).retry_after == SECOND // 10
    grant.settle(0, counted=False)
    await granted(limits, 600)
    assert isinstance(grant, Reserved)
    limits.follow(AccessSnapshot())
    await granted(limits, 10**9)


async def test_a_bearer_has_limits_of_its_own_and_its_ancestors() -> None:
    clock = ManualClock()
    root = credential("root", Rates(tokens_per_min=100))
    child = credential("child", Rates(requests_per_s=1, burst=2), parent="root")
    free = credential("free")
    rates = Rates(tokens_per_min=1000)
    limits = limited(clock, rates, root=root, child=child, free=free)
    await granted(limits, 60, "child")
    assert (await denied(limits, 60, "child")).reason == "rate_limit_tokens"
    assert (await denied(limits, 60, "root")).reason == "rate_limit_tokens"
    grant = await granted(limits, 10, "child")
    assert grant.standing() == Standing(Level(2, 0, 2 * SECOND), Level(100, 30, 42 * SECOND))
    assert (await denied(limits, 10, "child")).reason == "rate_limit_requests"
    # The business's own limit binds them all.
    await granted(limits, 900, "free")
    assert (await denied(limits, 100, "free")).reason == "rate_limit_tokens"
    assert (await denied(limits, 100)).reason == "rate_limit_tokens"


def test_typical_output_is_learned_and_bounded() -> None:
    typical = TypicalOutput()
    assert typical.tokens("owner", "chat") == 512
    typical.add("owner", "chat", 20)
    assert typical.tokens("owner", "chat") == 20
    for _ in range(500):
        typical.add("owner", "chat", 100)
    assert typical.tokens("owner", "chat") == 100
    assert typical.tokens("other", "chat") == 512
    for index in range(typical.MOST_PAIRS + 50):
        typical.add("owner", f"m{index}", 1)
    assert len(typical._means) == typical.MOST_PAIRS


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (120_000_000, "120ms"),
        (999_000_001, "1s"),
        (1_500_000_000, "1.5s"),
        (360 * SECOND, "6m0s"),
        (3601 * SECOND + 1, "1h0m1.001s"),
    ],
)
def test_durations_are_written_as_sdks_read_them(ns: int, text: str) -> None:
    assert duration(ns) == text


# On the running gateway.


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
