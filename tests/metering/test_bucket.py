"""The token bucket: exact, all or nothing, continuous."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.core.bucket import NEVER, SECOND, TokenBucket

RATES = st.one_of(st.integers(0, 5000), st.sampled_from([0.1, 0.3, 2.5, 1 / 3, 3200.0]))


def test_it_starts_full_and_using_exactly_the_limit_is_allowed() -> None:
    bucket = TokenBucket(10, 5)
    assert [bucket.take(1, 0) for _ in range(5)] == [0] * 5
    assert bucket.take(1, 0) == SECOND // 10
    assert bucket.take(1, SECOND // 10 - 1) == 1
    assert bucket.take(1, SECOND // 10) == 0


def test_it_refills_continuously_without_losing_parts() -> None:
    bucket = TokenBucket(3, 2)
    assert bucket.take(2, 0) == 0
    # A third of a second isn't a whole number of ns: waits are rounded up, the fill is not.
    now = taken = 0
    for _ in range(3000):
        now += bucket.take(1, now)
        assert bucket.take(1, now) == 0
        taken += 1
    assert now == 1000 * SECOND
    assert taken == 3000


def test_asking_often_takes_nothing_away() -> None:
    bucket = TokenBucket(0.1, 1)
    assert bucket.take(1, 0) == 0
    for now in range(0, 10 * SECOND, SECOND // 7):
        assert bucket.take(1, now) == 10 * SECOND - now
    assert bucket.take(1, 10 * SECOND) == 0


def test_all_or_nothing_and_given_back() -> None:
    bucket = TokenBucket(100, 10)
    assert bucket.take(7, 0) == 0
    assert bucket.take(4, 0) == SECOND // 100
    assert bucket.left(0) == 3
    bucket.give_back(7)
    assert bucket.left(0) == 10
    bucket.give_back(7)
    assert bucket.left(0) == 10
    assert bucket.take(11, 0) == NEVER


def test_zero_blocks() -> None:
    assert TokenBucket(100, 0).take(1, 5) == NEVER
    bucket = TokenBucket(0, 1)
    assert bucket.take(1, 0) == 0
    assert bucket.take(1, 10**18) == NEVER
    assert bucket.full_after(0) == NEVER


def test_a_clock_that_went_back_stands_still() -> None:
    bucket = TokenBucket(1, 1, now_ns=5 * SECOND)
    assert bucket.take(1, 0) == 0
    assert bucket.take(1, 4 * SECOND) == 2 * SECOND
    assert bucket.take(1, 6 * SECOND) == 0


def test_another_rate_keeps_what_is_in_it() -> None:
    bucket = TokenBucket(10, 100)
    assert bucket.take(60, 0) == 0
    bucket.change(5, 20, SECOND)
    assert bucket.left(SECOND) == 20
    assert bucket.take(20, SECOND) == 0
    assert bucket.full_after(SECOND) == 4 * SECOND


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        TokenBucket(-1, 5)


@given(
    rate=RATES,
    burst=st.integers(0, 50),
    asks=st.lists(st.tuples(st.integers(0, 2 * SECOND), st.integers(1, 5)), max_size=60),
)
def test_it_agrees_with_exact_fractions(
    rate: float, burst: int, asks: list[tuple[int, int]]
) -> None:
    bucket = TokenBucket(rate, burst)
    per_ns = Fraction(repr(rate)) / SECOND
    fill, now = Fraction(burst), 0
    for passed, n in asks:
        now += passed
        fill = min(Fraction(burst), fill + passed * per_ns)
        wait = bucket.take(n, now)
        assert (wait == 0) == (fill >= n)
        if wait == 0:
            fill -= n
        elif n > burst or not per_ns:
            assert wait == NEVER
        else:
            assert fill + wait * per_ns >= n > fill + (wait - 1) * per_ns


def test_what_is_owed_must_refill_first() -> None:
    bucket = TokenBucket(10, 100)
    assert bucket.wait_for(60, 0) == 0
    assert bucket.take(60, 0) == 0
    bucket.charge(50)
    assert bucket.left(0) == -10
    assert bucket.wait_for(10, 0) == bucket.take(10, 0) == 2 * SECOND
    assert bucket.take(10, 2 * SECOND) == 0
