"""A token bucket that refills continuously: no window edges, and waits that are exact.

Whole numbers throughout, so that nothing is lost to rounding however often it is asked:
times are ns, and a level is counted in the parts that one ns of refill is a multiple of.
"""

from fractions import Fraction

SECOND = 1_000_000_000
# Longer than anybody waits: the answer of a bucket that can never give so much.
NEVER = 2**63 - 1


class TokenBucket:
    """At most ``burst`` at once, refilled with ``rate_per_s``; full at first.

    Taking exactly what is there is allowed. The clock is the caller's, in ns; one that goes
    back stands still. Raises ValueError for negative limits.
    """

    __slots__ = ("_at", "_level", "_most", "_per_ns", "_unit", "burst")

    def __init__(self, rate_per_s: float | Fraction, burst: float, now_ns: int = 0) -> None:
        self._at = now_ns
        self._limit(rate_per_s, burst)
        self._level = self._most

    def take(self, n: float, now_ns: int) -> int:
        """Take ``n`` and return 0; or take nothing and return the ns after which ``n`` is
        there, if nobody else takes meanwhile. NEVER where the bucket is too small."""
        wait = self.wait_for(n, now_ns)
        if not wait:
            self._level -= self._parts(n)
        return wait

    def wait_for(self, n: float, now_ns: int) -> int:
        """What ``take`` would return; takes nothing."""
        if now_ns > self._at:
            self._refill(now_ns)
        wanted = n * self._unit if type(n) is int else self._parts(n)
        if wanted <= self._level:
            return 0
        if wanted > self._most or not self._per_ns:
            return NEVER
        return self._at - now_ns - (self._level - wanted) // self._per_ns

    def give_back(self, n: float) -> None:
        """Undo a ``take`` of ``n``, whole or in part; never beyond full."""
        level = self._level + self._parts(n)
        self._level = min(self._most, level)

    def charge(self, n: float) -> None:
        """Take ``n`` whether it is there or not: what is owed must refill first."""
        self._level -= self._parts(n)

    def change(self, rate_per_s: float | Fraction, burst: float, now_ns: int) -> None:
        """Other limits from now on. What is in it stays, as far as it has room."""
        self._refill(now_ns)
        held = Fraction(self._level, self._unit)
        self._limit(rate_per_s, burst)
        self._level = min(int(held * self._unit), self._most)

    def like(self, rate_per_s: float | Fraction, now_ns: int) -> "TokenBucket":
        """Another one of the same size and content, refilled with ``rate_per_s``."""
        self._refill(now_ns)
        other = TokenBucket(rate_per_s, self.burst, now_ns)
        held = Fraction(self._level, self._unit)
        other._level = min(int(held * other._unit), other._most)
        return other

    def left(self, now_ns: int) -> float:
        """How much is there; below zero: owed."""
        self._refill(now_ns)
        return self._level / self._unit

    def whole(self, now_ns: int) -> int:
        """How much of it is there in whole units; nothing where something is owed."""
        if now_ns > self._at:
            self._refill(now_ns)
        return self._level // self._unit if self._level > 0 else 0

    def full_after(self, now_ns: int) -> int:
        """The ns after which it is full, if nobody takes meanwhile. NEVER without refill."""
        if now_ns > self._at:
            self._refill(now_ns)
        if self._level == self._most:
            return 0
        if not self._per_ns:
            return NEVER
        return self._at - now_ns - (self._level - self._most) // self._per_ns

    def _limit(self, rate_per_s: float | Fraction, burst: float) -> None:
        if rate_per_s < 0 or burst < 0:
            raise ValueError("a bucket's limits cannot be negative")
        # By the shortest decimal form: 0.1 is a tenth, and not the binary number next to it.
        rate = rate_per_s if isinstance(rate_per_s, Fraction) else Fraction(repr(rate_per_s))
        self.burst = burst
        self._unit = rate.denominator * SECOND
        self._per_ns = rate.numerator
        self._most = self._parts(burst)

    def _parts(self, n: float) -> int:
        return n * self._unit if isinstance(n, int) else int(Fraction(repr(n)) * self._unit)

    def _refill(self, now_ns: int) -> None:
        if now_ns > self._at:
            level = self._level + (now_ns - self._at) * self._per_ns
            self._level = min(self._most, level)
            self._at = now_ns
