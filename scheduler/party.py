"""One party's limits in process: buckets, purse and places of a business, key or credential."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from metering.core.bucket import NEVER, TokenBucket
from metering.core.facts import FREE, Allowance, Rates
from metering.core.leases import Leases
from metering.core.purse import Month, Purse

REQUESTS, TOKENS = "rate_limit_requests", "rate_limit_tokens"
PLACES, BUDGET = "concurrency_exceeded", "budget_exhausted"
# GPU time is counted in whole microseconds; a share of it may be used this much at once.
GPU_UNIT = 1_000_000
GPU_WINDOW_S = 60
# A rate per second, and how much at once.
Limit = tuple[float | Fraction, float]


@dataclass(frozen=True, slots=True)
class Need:
    """What one request takes beside itself: tokens, GPU time in us, money."""

    tokens: int = 0
    gpu: int = 0
    cost: Decimal = Decimal(0)


@dataclass(slots=True)
class Party:
    """What one party may use and has used. A part is None where its limit is blank."""

    allowed: Allowance = FREE
    gpus: float = 0.0
    requests: TokenBucket | None = None
    tokens: TokenBucket | None = None
    gpu: TokenBucket | None = None
    purse: Purse | None = None
    places: Leases | None = None

    def change(self, allowed: Allowance, gpus: float, month: Month, now: int) -> list[str]:
        """Other limits from now on; returns the requests that need not wait any more."""
        self.allowed, self.gpus = allowed, gpus
        rates = allowed.rates
        self.requests = _changed(self.requests, _request_limit(rates), now)
        self.tokens = _changed(self.tokens, _token_limit(rates), now)
        self.gpu = _changed(self.gpu, _gpu_limit(allowed.gpu_share, gpus), now)
        self._change_purse(allowed.monthly_budget, month, now)
        return self._change_places(allowed.running, allowed.queued, now)

    def waits(self, need: Need, now: int) -> Iterator[tuple[int, str]]:
        """How long (ns) each part would have to be waited for, and the reason that it gives."""
        for bucket, n, reason in (
            (self.requests, 1, REQUESTS),
            (self.tokens, need.tokens, TOKENS),
            (self.gpu, need.gpu, PLACES),
        ):
            if bucket is not None:
                # Of an empty bucket nothing can be had, not even nothing.
                yield bucket.wait_for(at_most(n, bucket) or 1, now), reason
        if self.purse is not None:
            yield self.purse.wait_for(need.cost, now), BUDGET
        if self.places is not None and not self.places.room():
            yield self.places.wait(now) if self.places.running else NEVER, PLACES

    def _change_purse(self, limit: Decimal | None, month: Month, now: int) -> None:
        if limit is None:
            self.purse = None
        elif self.purse is None:
            self.purse = Purse(limit, month, now)
        else:
            self.purse.limit = limit

    def _change_places(self, running: int | None, queued: int | None, now: int) -> list[str]:
        if self.places is not None:
            return self.places.change(running, queued, now)
        if running is not None:
            self.places = Leases(running, queued)
        return []


def at_most(n: int, bucket: TokenBucket) -> int:
    """What to take for ``n``: more than there can ever be waits for a full bucket."""
    return min(n, int(bucket.burst))


def _request_limit(rates: Rates) -> Limit | None:
    rate, burst = rates.requests_per_s, rates.burst
    if burst == 0 or rate == 0:
        return 0, 0
    if rate is None:
        # A burst alone bounds nothing over time.
        return None
    # Below one a second, one may still come.
    return rate, max(1, rate) if burst is None else burst


def _token_limit(rates: Rates) -> Limit | None:
    most = rates.tokens_per_min
    return None if most is None else (Fraction(most, 60), most)


def _gpu_limit(share: float | None, gpus: float) -> Limit | None:
    if share is None or (not gpus and share):
        # Of no GPUs there is no share: that nothing runs is told elsewhere.
        return None
    rate = int(Fraction(repr(share)) * Fraction(repr(gpus)) * GPU_UNIT)
    return rate, rate * GPU_WINDOW_S


def _changed(bucket: TokenBucket | None, limit: Limit | None, now: int) -> TokenBucket | None:
    if limit is None:
        return None
    rate, burst = limit
    if bucket is None or not bucket.burst:
        return TokenBucket(rate, burst, now)
    more = burst - bucket.burst
    bucket.change(rate, burst, now)
    if more > 0:
        # What was used stays used: all that the limit grew by is there at once.
        bucket.give_back(more)
    return bucket
