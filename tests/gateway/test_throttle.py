"""While P0 waits too long P2's rates are slowed: P2's alone, exactly, and told honestly."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metering.core.facts import BusinessFacts, Rates
from metering.core.usage import Consumed
from scheduler.core.decisions import Throttle
from scheduler.core.policy import Policy
from scheduler.limits import Limits, Reserved
from scheduler.ports import Ask, Denied, Grant
from scheduler.testing import ManualClock

from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from .stub import Held, stub
from .test_limits import SECOND, access, limited

P1, P2 = 1, 2
ACTIONS = ("throttle_P2", "refuse_P2")


def slow_p2(limits: Limits, share: float, least: float, model: str = "chat") -> None:
    """P0 of the model waits too long: P2 of it is slowed to this share, or (1) no more."""
    models = frozenset({model}) if share < 1 else frozenset[str]()
    limits.throttle(Throttle(model, share, least, models))


async def ask(limits: Limits, lane: int, tokens: int = 1, model: str = "chat") -> Grant | Denied:
    return await limits.reserve(
        Ask(str(uuid4()), "owner", model=model, lane=lane, expected=Consumed(tokens))
    )


async def drained(limits: Limits, lane: int, tokens: int = 1, model: str = "chat") -> int:
    """Take until it is denied; how often it was granted."""
    count = 0
    while not isinstance(await ask(limits, lane, tokens, model), Denied):
        count += 1
    return count


async def rate(limits: Limits, clock: ManualClock, lane: int, seconds: int = 100) -> int:
    """How many requests get through in so many seconds, being made all the time."""
    count = 0
    for _ in range(seconds * 10):
        clock.advance(0.1)
        count += await drained(limits, lane)
    return count


@pytest.mark.parametrize(("share", "expected"), [(1.0, 1000), (0.5, 500), (0.1, 100)])
async def test_p2_gets_its_share_of_the_rate(share: float, expected: int) -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(requests_per_s=10, burst=10))
    await drained(limits, P2)
    slow_p2(limits, share, share)
    assert await rate(limits, clock, P2) == expected


async def test_the_same_businesss_other_lanes_have_all_that_they_had() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(requests_per_s=10, burst=10))
    await drained(limits, P1)
    slow_p2(limits, 0.1, 0.1)
    low = high = 0
    for _ in range(1000):
        clock.advance(0.1)
        low += await drained(limits, P2)
        high += await drained(limits, P1)
    assert low == 100
    assert high == 900


async def test_other_models_have_all_that_they_had() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(requests_per_s=10, burst=10))
    await drained(limits, P2)
    slow_p2(limits, 0.1, 0.1)
    chat = other = 0
    for _ in range(1000):
        clock.advance(0.1)
        chat += await drained(limits, P2)
        other += await drained(limits, P2, model="other")
    assert chat == 100
    assert other == 900


async def test_each_model_whose_p0_waits_has_a_share_of_its_own() -> None:
    """Beside both, the narrower one holds; what ends for one goes on for the other."""
    clock = ManualClock()
    limits = limited(clock, Rates(requests_per_s=100, burst=1))
    limits.throttle(Throttle("a", 0.5, 0.5, frozenset({"a", "both"})))
    limits.throttle(Throttle("b", 0.1, 0.1, frozenset({"b", "both"})))

    async def per_second(model: str) -> int:
        """In ten seconds, rounded: a bucket begins with a part of a request."""
        await drained(limits, P2, model=model)
        count = 0
        for _ in range(1000):
            clock.advance(0.01)
            count += await drained(limits, P2, model=model)
        return round(count / 10)

    assert [await per_second(model) for model in ("a", "b", "both", "other")] == [50, 10, 10, 100]
    limits.throttle(Throttle("b", 1.0, 1.0, frozenset()))
    assert [await per_second(model) for model in ("a", "b", "both", "other")] == [50, 100, 50, 100]


async def test_what_was_there_is_still_there_and_no_more() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(requests_per_s=1, burst=10))
    for _ in range(4):
        await ask(limits, P1)
    slow_p2(limits, 0.5, 0.1)
    assert await drained(limits, P2) == 6
    slow_p2(limits, 0.25, 0.1)
    assert await drained(limits, P2) == 0
    assert await drained(limits, P1) == 0


async def test_in_full_again_it_is_as_if_nothing_had_been() -> None:
    found = []
    for slowed in (True, False):
        clock = ManualClock()
        limits = limited(clock, Rates(requests_per_s=5, burst=5))
        if slowed:
            slow_p2(limits, 0.5, 0.5)
        await drained(limits, P2)
        clock.advance(0.5)
        slow_p2(limits, 1.0, 1.0)
        found.append(await rate(limits, clock, P2))
    assert found[0] == found[1]


async def test_tokens_are_settled_in_both_and_given_back_in_full() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(tokens_per_min=600))
    slow_p2(limits, 0.5, 0.5)
    grant = await ask(limits, P2, 600)
    assert isinstance(grant, Reserved)
    assert isinstance(await ask(limits, P2), Denied)
    grant.settle(Consumed(counted=False))
    again = await ask(limits, P2, 600)
    assert isinstance(again, Reserved)
    again.settle(Consumed(prompt=100, completion=200))
    denied = await ask(limits, P2, 301)
    assert isinstance(denied, Denied)
    # One token at five a second; and the headers say what P2 has.
    assert denied.retry_after == SECOND // 5
    assert denied.standing.tokens is not None
    assert denied.standing.tokens.remaining == 300


async def test_limits_that_change_meanwhile_are_slowed_too() -> None:
    clock = ManualClock()
    limits = limited(clock, Rates(requests_per_s=10, burst=10))
    slow_p2(limits, 0.5, 0.5)
    limits.follow(access(Rates(requests_per_s=20, burst=10)))
    await drained(limits, P2)
    assert await rate(limits, clock, P2) == 1000
    limits.follow(access(Rates()))
    assert not isinstance(await ask(limits, P2), Denied)
    limits.follow(access(Rates(requests_per_s=4, burst=1)))
    await drained(limits, P2)
    assert await rate(limits, clock, P2) == 200


@settings(max_examples=50, deadline=None)
@given(
    shares=st.lists(st.sampled_from([0.5, 0.25, 0.125, 0.1]), min_size=1, max_size=6),
    per_s=st.sampled_from([0.3, 1, 7, 20]),
    pause=st.sampled_from([0.05, 1, 5]),
)
def test_after_the_time_named_one_succeeds_however_it_falls_meanwhile(
    shares: list[float], per_s: float, pause: float
) -> None:
    """B07, while the pressure lasts."""

    async def run() -> None:
        clock = ManualClock()
        limits = limited(clock, Rates(requests_per_s=per_s, burst=3))
        falling = sorted(shares, reverse=True)
        slow_p2(limits, falling[0], 0.1)
        await drained(limits, P2)
        answer = await ask(limits, P2)
        assert isinstance(answer, Denied)
        assert answer.retry_after is not None
        due = clock.time + answer.retry_after
        for _, share in pairwise(falling):
            if clock.time + pause * SECOND < due:
                clock.advance(pause)
            slow_p2(limits, share, 0.1)
        clock.time = due
        assert not isinstance(await ask(limits, P2), Denied)

    asyncio.run(run())


async def p0_waits(gateway: Gate) -> asyncio.Task[bytes]:
    """P0 waits behind work that cannot be stopped, until that is noticed."""
    urgent = asyncio.create_task(gateway.streamed("urgent", key=URGENT_KEY))
    state = gateway.runtime.scheduler.state
    await gateway.until(lambda: any(p.share < 0.05 for p in state.pressure.models.values()))
    return urgent


async def test_on_a_running_gateway_p2_comes_back_slowly_and_p1_at_once() -> None:
    policy = Policy()
    pressure = policy.backpressure
    slow = replace(pressure.throttle, interval_s=0.3, floor=0.01, step=0.001)
    pressed = replace(pressure, p0_wait_ms=100, clear_ms=50, throttle=slow, action=ACTIONS)
    held = Held()
    async with stub(held) as server:
        memory = furnished(
            replica(server.url, slots=1), policy=replace(policy, backpressure=pressed)
        )
        rates = Rates(requests_per_s=5, burst=1)
        memory.business(BusinessFacts("low", ceiling=2, offline=True, rates=rates), LOW_KEY)
        memory.business(BusinessFacts("owner", ceiling=1, rates=rates), KEY)
        async with gate(memory) as gateway:
            blocking = asyncio.create_task(gateway.streamed("blocks"))
            await gateway.until(lambda: gateway.running == 1)
            urgent = await p0_waits(gateway)
            refused = await gateway.chat("low", key=LOW_KEY)
            assert refused.headers["x-fairlane-reason"] == "backpressure"
            held.finish("blocks", "urgent")
            await asyncio.gather(blocking, urgent)
            state = gateway.runtime.scheduler.state
            await gateway.until(lambda: not state.pressure.pressed())
            held.finish("one", "two", "p1")
            first = await gateway.chat("one", key=LOW_KEY)
            denied = await gateway.chat("two", key=LOW_KEY)
            assert (first.status_code, denied.status_code) == (200, 429)
            assert denied.headers["x-fairlane-reason"] == "rate_limit_requests"
            # In full it would be 200.
            assert int(denied.headers["retry-after-ms"]) > 400
            assert (await gateway.chat("p1")).status_code == 200
            kinds = [row.reason for row in gateway.decisions.rows if row.kind == "notice"]
            assert kinds[:2] == ["pressed", "throttled"]
