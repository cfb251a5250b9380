"""Places for running and waiting requests: each its own lease, none prolongs another."""

from hypothesis import given
from hypothesis import strategies as st

from metering.core.leases import SECOND, TTL, Leases


def test_up_to_the_limit_run_then_wait_then_are_refused() -> None:
    places = Leases(2, 1)
    assert [places.take(name, 0) for name in "abc"] == [True, True, False]
    assert not places.room()
    assert places.release("a", 5) == ["c"]
    assert places.runs("c")
    assert not places.runs("a")
    assert places.release("a", 6) == []
    assert places.room()
    assert places.release("b", 7) == places.release("c", 8) == []
    assert len(places) == 0


def test_zero_blocks_and_blank_is_unlimited() -> None:
    assert not Leases(0, None).room()
    places = Leases(1, None)
    assert [places.take(str(n), 0) for n in range(100)] == [True] + [False] * 99
    assert places.room()
    closed = Leases(1, 0)
    closed.take("a", 0)
    assert not closed.room()


def test_a_dead_holder_s_place_is_free_when_its_time_is_up() -> None:
    """B02: one call's activity never extends another call's lease."""
    places = Leases(2, 5)
    for name in ("dead", "alive", "next"):
        places.take(name, 0)
    for second in range(1, 10):
        places.renew({"alive", "next"}, second * SECOND)
        assert places.expire(second * SECOND) == []
    assert places.expire(TTL) == ["next"]
    assert not places.runs("dead")
    assert len(places) == 2
    # Its release, should it come after all, frees nobody else's place.
    assert places.release("dead", TTL + 1) == []
    assert len(places) == 2


def test_a_wider_limit_lets_those_who_wait_run() -> None:
    places = Leases(1, None)
    for name in "abcd":
        places.take(name, 0)
    assert places.change(3, None, 1) == ["b", "c"]
    assert places.change(1, None, 2) == []
    assert places.release("a", 3) == places.release("b", 3) == []
    assert places.release("c", 3) == ["d"]


def test_the_wait_that_is_told_is_long_enough_where_requests_take_alike() -> None:
    places = Leases(1, 0)
    places.take("first", 0)
    places.release("first", 30 * SECOND)
    places.take("second", 40 * SECOND)
    now = 45 * SECOND
    assert not places.room()
    again = now + places.wait(now)
    assert again >= 70 * SECOND
    places.release("second", 70 * SECOND)
    assert places.room()


@given(
    st.integers(1, 4),
    st.integers(0, 4),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["take", "release", "alive", "tick"]))),
)
def test_never_more_than_the_limit_and_nobody_waits_beside_a_free_place(
    running: int, queued: int, steps: list[tuple[int, str]]
) -> None:
    places, held, now = Leases(running, queued), set[str](), 0
    for number, what in steps:
        name = str(number)
        now += SECOND
        if what == "take" and name not in held and places.room():
            places.take(name, now)
            held.add(name)
        elif what == "release":
            places.release(name, now)
            held.discard(name)
        elif what == "alive":
            places.renew({name}, now)
        else:
            before = {n for n in held if places.runs(n)}
            now += 4 * SECOND
            promoted = places.expire(now)
            held = set(places._held)
            assert not before & set(promoted)
        runs = sum(places.runs(n) for n in held)
        assert runs <= running
        assert len(held) - runs <= queued
        assert runs == min(running, len(held))
