"""A token bucket that refills continuously: no window edges, and waits that are exact.

Whole numbers throughout, so that nothing is lost to rounding however often it is asked:
time in ns, rates to a billionth of a unit per second, levels in units of 1e-18.
"""

NANO = 1_000_000_000
UNIT = NANO * NANO
# Longer than anybody waits: the answer of a bucket that never refills.
NEVER = 2**63 - 1


class TokenBucket:
    """At most ``burst`` at once, refilled with ``rate_per_s``; full at first.

    Taking exactly what is there is allowed. More than ``burst`` is had when the bucket is
    full, and leaves it in debt. The clock is the caller's, in ns; one that goes back
    changes nothing.
    """

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate_per_s: float, burst: float) -> None:
        self._rate = round(rate_per_s * NANO)
        self._burst = round(burst * NANO) * NANO
        self._level = self._burst
        self._at = 0

    def take(self, n: float, now_ns: int) -> int:
        """Take ``n`` and return 0; or take nothing and return the ns after which it can be had."""
        wait = self.wait_for(n, now_ns)
        if not wait:
            self._level -= _scaled(n)
        return wait

    def wait_for(self, n: float, now_ns: int) -> int:
        """The ns after which ``n`` could be taken; 0: now. Takes nothing."""
        self._refill(now_ns)
        if not self._burst:
            return NEVER
        missing = min(_scaled(n), self._burst) - self._level
        if missing <= 0:
            return 0
        return -(-missing // self._rate) if self._rate else NEVER

    def give_back(self, n: float) -> None:
        """Undo a ``take`` of ``n``; a negative ``n`` is what came on top of it, debt allowed."""
        self._level = min(self._level + _scaled(n), self._burst)

    def change(self, rate_per_s: float, burst: float, now_ns: int) -> None:
        """Other limits from now on. What was used stays used."""
        self._refill(now_ns)
        used = self._burst - self._level
        self._rate = round(rate_per_s * NANO)
        self._burst = round(burst * NANO) * NANO
        self._level = self._burst - used

    def level(self, now_ns: int) -> float:
        """What is there now; below zero: debt."""
        self._refill(now_ns)
        return self._level / UNIT

    def full_in(self, now_ns: int) -> int:
        """The ns until it is full again, if nothing is taken."""
        self._refill(now_ns)
        missing = self._burst - self._level
        if not missing:
            return 0
        return -(-missing // self._rate) if self._rate else NEVER

    def _refill(self, now_ns: int) -> None:
        if now_ns > self._at:
            self._level = min(self._level + (now_ns - self._at) * self._rate, self._burst)
            self._at = now_ns


def _scaled(n: float) -> int:
    return n * UNIT if isinstance(n, int) else round(n * NANO) * NANO
