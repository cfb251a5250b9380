"""Rates of requests and tokens: exact, whole or not at all, given back."""

import asyncio
from uuid import uuid4

import pytest

from metering.core.facts import (
    UNLIMITED,
    AccessSnapshot,
    BusinessFacts,
    CredentialFacts,
    Rates,
)
from metering.core.usage import Consumed
from scheduler.gateway.ratelimit import duration
from scheduler.limits import Limits, Reserved, Typical
from scheduler.ports import Ask, Denied, Grant, Level, Standing
from scheduler.testing import ManualClock, MemoryBooks

SECOND = 1_000_000_000
MONTH = MemoryBooks().month
LATER = 2**62


def limited(clock: ManualClock, rates: Rates, **credentials: CredentialFacts) -> Limits:
    limits = Limits(clock, MONTH)
    limits.follow(access(rates, **credentials))
    return limits


def access(rates: Rates, **credentials: CredentialFacts) -> AccessSnapshot:
    business = BusinessFacts("owner", rates=rates)
    return AccessSnapshot(1, {"owner": business}, {}, credentials)


def credential(jti: str, rates: Rates = UNLIMITED, parent: str = "") -> CredentialFacts:
    return CredentialFacts(jti, "owner", "vip", 0, None, "", 0, LATER, parent, rates)


def asked(tokens: int = 1, bearer: str = "") -> Ask:
    return Ask(str(uuid4()), "owner", credential=bearer, expected=Consumed(tokens))


async def granted(limits: Limits, tokens: int = 1, bearer: str = "") -> Grant:
    outcome = await limits.reserve(asked(tokens, bearer))
    assert not isinstance(outcome, Denied)
    return outcome


async def denied(limits: Limits, tokens: int = 1, bearer: str = "") -> Denied:
    outcome = await limits.reserve(asked(tokens, bearer))
    assert isinstance(outcome, Denied)
    return outcome


async def test_b05_a_limit_that_is_used_exactly_never_refuses() -> None:
    """B05: 186 tokens a minute, a call of 31 every ten seconds, for five minutes."""
    clock = ManualClock()
    limits = limited(clock, Rates(requests_per_s=1000, tokens_per_min=186))
    for _ in range(31):
        grant = await granted(limits, 31)
        grant.settle(Consumed(31))
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
        outcome = await limits.reserve(asked(tokens))
        while not isinstance(outcome, Denied):
            outcome = await limits.reserve(asked(tokens))
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
    outcomes = await asyncio.gather(*(limits.reserve(asked(100)) for _ in range(50)))
    grants = [outcome for outcome in outcomes if not isinstance(outcome, Denied)]
    assert len(grants) == 10
    assert grants[0].standing().tokens == Level(1000, 0, 60 * SECOND)
    for grant in grants:
        grant.settle(Consumed(40))
        grant.settle(Consumed(0, counted=False))
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
        (await granted(limits, 10)).settle(Consumed(0, counted=False))
    (await granted(limits, 10)).settle(Consumed(0))
    assert (await denied(limits, 1)).reason == "rate_limit_requests"


async def test_what_was_used_beyond_the_estimate_is_owed() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(tokens_per_min=60))
    (await granted(limits, 10)).settle(Consumed(100))
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
    grant.settle(Consumed(90))
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
            grant.settle(Consumed(10**9))
    assert not isinstance(await Limits(ManualClock(), MONTH).reserve(Ask("r", "nobody")), Denied)


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
    grant.settle(Consumed(0, counted=False))
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
    typical = Typical(512)
    assert typical.of("owner", "chat") == 512
    typical.add("owner", "chat", 20)
    assert typical.of("owner", "chat") == 20
    for _ in range(500):
        typical.add("owner", "chat", 100)
    assert typical.of("owner", "chat") == pytest.approx(100)
    assert typical.of("other", "chat") == 512
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
