"""Ids of requests: UUIDv7, each one later than the one before."""

import uuid_utils

from scheduler.ports import Clock

# Of a millisecond, so many parts are told apart (RFC 9562, section 6.2, method 3).
PARTS = 4096
MILLISECOND = 1_000_000
# Set back by more than this (ns), the wall clock was so wrong that its ids had no place either.
MOST_BACK = 2 * 86_400 * 1_000_000_000


class RequestIds:
    """Made for one process. Ids begin with the date, by which rows lie in their partitions. Where
    the wall clock is set back they stay at the latest one until it has caught up, and count on
    from there: what comes later never sorts before what came earlier."""

    __slots__ = ("_clock", "_last")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = 0

    def new(self) -> str:
        """One more, as text."""
        at = self._clock.wall() * PARTS // MILLISECOND
        if at <= self._last < at + MOST_BACK * PARTS // MILLISECOND:
            at = self._last + 1
        self._last = at
        millis, part = divmod(at, PARTS)
        text = str(uuid_utils.uuid7(nanoseconds=millis * MILLISECOND))
        return f"{text[:15]}{part:03x}{text[18:]}"
