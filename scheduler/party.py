"""One party's limits in process: buckets, purse and places of a business, key or credential."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import ceil

from metering.core.bucket import NEVER, TokenBucket
from metering.core.facts import FREE, Allowance, Rates
from metering.core.leases import Leases
from metering.core.purse import Month, Purse, parts

from .core.record import record

REQUESTS, TOKENS = "rate_limit_requests", "rate_limit_tokens"
PLACES, BUDGET = "concurrency_exceeded", "budget_exhausted"
# GPU time is counted in whole microseconds; a share of it may be used this much at once.
GPU_UNIT = 1_000_000
GPU_WINDOW_S = 60
# A rate per second, and how much at once.
Limit = tuple[float | Fraction, float]


@record
class Need:
    """What one request takes beside itself: tokens, GPU time in us, money in parts."""

    tokens: int = 0
    gpu: int = 0
    cost: int = 0


@dataclass(slots=True)
class Taken:
    """What one request took of one party: of which buckets, how much, of which month's money,
    and of those that are ``slowed`` for others."""

    requests: TokenBucket | None
    tokens: TokenBucket | None
    gpu: TokenBucket | None
    purse: Purse | None
    reserved_tokens: int = 0
    reserved_gpu: int = 0
    cost: int = 0
    month: int = 0
    slowed: "tuple[Taken, ...]" = ()

    def settle(self, need: Need, *, counted: bool) -> None:
        """It came to this in truth; where not ``counted`` it is as if it had never been made."""
        if self.requests is not None and not counted:
            self.requests.give_back(1)
        if self.tokens is not None:
            _settle(self.tokens, self.reserved_tokens, need.tokens)
        if self.gpu is not None:
            _settle(self.gpu, self.reserved_gpu, need.gpu)
        if self.purse is not None:
            self.purse.settle(self.month, self.cost, need.cost)
        for taken in self.slowed:
            taken.settle(need, counted=counted)


def _settle(bucket: TokenBucket, reserved: int, used: int) -> None:
    if used > reserved:
        bucket.charge(used - reserved)
    else:
        bucket.give_back(reserved - used)


@dataclass(frozen=True, slots=True)
class Slow:
    """For these ``models`` refill at this ``share`` of the rate, and for now at no less than
    ``least``."""

    share: Fraction
    least: Fraction
    models: frozenset[str]


@dataclass(slots=True)
class Party:
    """What one party may use and has used. A part is None where its limit is blank.

    While P0 of a model waits too long, P2 for models that share replicas with it is ``slow``: its
    requests need their part of buckets of their own (``p2``) besides, which began with what the
    others had and refill slower, so that other lanes and models have all that they had. Both are
    by the model whose P0 waits.
    """

    allowed: Allowance = FREE
    gpus: float = 0.0
    requests: TokenBucket | None = None
    tokens: TokenBucket | None = None
    gpu: TokenBucket | None = None
    purse: Purse | None = None
    places: Leases | None = None
    slow: Mapping[str, Slow] = field(default_factory=dict)
    p2: "dict[str, Party]" = field(default_factory=dict)

    def change(
        self, allowed: Allowance, gpus: float, month: Month, now: int, wall: int
    ) -> list[str]:
        """Other limits from now on; returns the requests that need not wait any more."""
        self.allowed, self.gpus = allowed, gpus
        rates = allowed.rates
        self.requests = _changed(self.requests, _request_limit(rates), now)
        self.tokens = _changed(self.tokens, _token_limit(rates), now)
        self.gpu = _changed(self.gpu, _gpu_limit(allowed.gpu_share, gpus), now)
        self._change_purse(allowed.monthly_budget, month, wall)
        self.slow_down(self.slow, now)
        return self._change_places(allowed.running, allowed.queued, now)

    def slow_down(self, slow: Mapping[str, Slow], now: int) -> None:
        """P2's requests are served slower from now on where this says so, elsewhere like all
        others."""
        self.slow = slow
        for model in self.p2.keys() - slow.keys():
            del self.p2[model]
        rates = self.allowed.rates
        share = _gpu_limit(self.allowed.gpu_share, self.gpus)
        for model, each in slow.items():
            own = self.p2.setdefault(model, Party())
            own.requests = _slowed(self.requests, own.requests, _request_limit(rates), each, now)
            own.tokens = _slowed(self.tokens, own.tokens, _token_limit(rates), each, now)
            own.gpu = _slowed(self.gpu, own.gpu, share, each, now)

    def slowed(self, p2: str | None) -> "list[tuple[Party, Slow]]":
        """What a P2 request for this model needs its part of besides; of others nothing."""
        if p2 is None:
            return []
        return [(self.p2[model], slow) for model, slow in self.slow.items() if p2 in slow.models]

    def wait(self, need: Need, now: int, wall: int, p2: str | None = None) -> tuple[int, str]:
        """How long (ns) to wait for all that is needed, and the reason for it; 0: not at all.
        Of an empty bucket nothing can be had, not even nothing. For a request of P2 (``p2`` is its
        model) it is long enough even if what is slow should become slower meanwhile. ``now`` is
        the clock's, by which rates refill; ``wall`` the date, by which months begin."""
        longest, reason = self._wait(need, now, wall)
        for own, slow in self.slowed(p2):
            wait, code = own.wait(need, now, wall)
            if wait < NEVER:
                wait = ceil(wait * slow.share / slow.least)
            if wait > longest:
                longest, reason = wait, code
        return longest, reason

    def _wait(self, need: Need, now: int, wall: int) -> tuple[int, str]:
        longest, reason = 0, ""
        if self.requests is not None:
            longest, reason = self.requests.wait_for(1, now), REQUESTS
        if self.tokens is not None:
            wait = self.tokens.wait_for(at_most(need.tokens, self.tokens) or 1, now)
            if wait > longest:
                longest, reason = wait, TOKENS
        if self.gpu is not None:
            wait = self.gpu.wait_for(at_most(need.gpu, self.gpu) or 1, now)
            if wait > longest:
                longest, reason = wait, PLACES
        if self.purse is not None:
            wait = self.purse.wait_for(need.cost, wall)
            if wait > longest:
                longest, reason = wait, BUDGET
        if self.places is not None and not self.places.room():
            wait = self.places.wait(now) if self.places.running else NEVER
            if wait > longest:
                longest, reason = wait, PLACES
        return longest, reason

    def take(self, need: Need, p2: str | None = None) -> "Taken":
        """Take it, given that there is nothing to wait for; but for a place."""
        taken = Taken(self.requests, self.tokens, self.gpu, self.purse)
        taken.slowed = tuple(own.take(need) for own, _ in self.slowed(p2))
        if self.requests is not None:
            self.requests.charge(1)
        if self.tokens is not None:
            taken.reserved_tokens = at_most(need.tokens, self.tokens)
            self.tokens.charge(taken.reserved_tokens)
        if self.gpu is not None:
            taken.reserved_gpu = at_most(need.gpu, self.gpu)
            self.gpu.charge(taken.reserved_gpu)
        if self.purse is not None:
            taken.cost = need.cost
            taken.month = self.purse.take(need.cost)
        return taken

    def _change_purse(self, limit: Decimal | None, month: Month, wall: int) -> None:
        if limit is None:
            self.purse = None
        elif self.purse is None:
            self.purse = Purse(parts(limit), month, wall)
        else:
            self.purse.limit = parts(limit)

    def _change_places(self, running: int | None, queued: int | None, now: int) -> list[str]:
        if self.places is not None:
            return self.places.change(running, queued, now)
        if running is not None:
            self.places = Leases(running, queued)
        return []


def at_most(n: int, bucket: TokenBucket) -> int:
    """What to take for ``n``: more than there can ever be waits for a full bucket."""
    return n if n <= bucket.burst else int(bucket.burst)


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


def _slowed(
    bucket: TokenBucket | None,
    known: TokenBucket | None,
    limit: Limit | None,
    slow: Slow,
    now: int,
) -> TokenBucket | None:
    """The bucket of P2 beside this one of all lanes."""
    if bucket is None or limit is None:
        return None
    rate = limit[0] if isinstance(limit[0], Fraction) else Fraction(repr(limit[0]))
    if known is None:
        return bucket.like(rate * slow.share, now)
    known.change(rate * slow.share, limit[1], now)
    return known


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
