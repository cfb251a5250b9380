"""The process's clock: monotonic inside, with the machine's wall clock beside it."""

import time

from .ports import Clock


class SystemClock:
    """Begins at the wall clock's reading and goes on with the machine's monotonic clock.

    That is CLOCK_MONOTONIC, as the event loop's own: time during which the machine was suspended
    has not been for either. Nobody was served in it, nothing that was waited for could happen, and
    what held a place then shall not find that its time is up. Corrections of the wall clock by
    slewing are in both; ``wall`` and ``now`` come apart by jumps and by suspensions alone.
    """

    def __init__(self) -> None:
        self._ahead = time.time_ns() - time.monotonic_ns()

    def now(self) -> int:
        """Nanoseconds since the epoch, by the wall clock as it stood at the start."""
        return time.monotonic_ns() + self._ahead

    def wall(self) -> int:
        """Nanoseconds since the epoch, by the wall clock as it stands now."""
        return time.time_ns()


def ahead(clock: Clock) -> int:
    """How far (ns) the wall clock is ahead of the process's own by now: what has to be added to
    a time that leaves the process as a date."""
    return clock.wall() - clock.now()
