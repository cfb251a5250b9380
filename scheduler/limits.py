"""Rates of requests and tokens, in process: the ``Limiter`` of a single gateway.

One request takes from its business's buckets and, where a credential is the bearer, from
that one's and those of the credentials that it was narrowed from. Nothing awaits between
looking and taking, so a reservation is whole or not at all.
"""

from collections import OrderedDict
from dataclasses import dataclass
from fractions import Fraction

from metering.core.bucket import NEVER, TokenBucket
from metering.core.facts import UNLIMITED, AccessSnapshot, Rates

from .ports import Clock, Denied, Grant, Level, Standing

REQUESTS, TOKENS = "rate_limit_requests", "rate_limit_tokens"
# A rate per second, and how much at once.
Limit = tuple[float | Fraction, float]


@dataclass(slots=True)
class Buckets:
    """One party's limits. A bucket is None where its limit is blank."""

    rates: Rates = UNLIMITED
    requests: TokenBucket | None = None
    tokens: TokenBucket | None = None

    def change(self, rates: Rates, now: int) -> None:
        """Other limits from now on."""
        self.rates = rates
        self.requests = _changed(self.requests, _request_limit(rates), now)
        self.tokens = _changed(self.tokens, _token_limit(rates), now)


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


class Unlimited:
    """The grant of who has no limits."""

    def settle(self, tokens: int, *, counted: bool) -> None:
        """Nothing was taken."""

    def standing(self) -> Standing:
        """No limits, nothing to tell."""
        return Standing()


class Reserved:
    """What one request took of which bucket."""

    __slots__ = ("_clock", "_parties", "_requests", "_settled", "_tokens")

    def __init__(self, clock: Clock, parties: list[Buckets], tokens: int) -> None:
        self._clock = clock
        self._parties = parties
        self._settled = False
        now = clock.now()
        self._requests = [party.requests for party in parties if party.requests is not None]
        self._tokens = [
            (party.tokens, _at_most(tokens, party.tokens))
            for party in parties
            if party.tokens is not None
        ]
        for bucket in self._requests:
            bucket.take(1, now)
        for bucket, n in self._tokens:
            bucket.take(n, now)

    def settle(self, tokens: int, *, counted: bool) -> None:
        """Give back what was not used, or take what was used beyond."""
        if self._settled:
            return
        self._settled = True
        if not counted:
            for bucket in self._requests:
                bucket.give_back(1)
        for bucket, reserved in self._tokens:
            if tokens > reserved:
                bucket.charge(tokens - reserved)
            else:
                bucket.give_back(reserved - tokens)

    def standing(self) -> Standing:
        """What is left now, of the narrowest limit of each kind."""
        return _standing(self._parties, self._clock.now())


class Limits:
    """Buckets by business name and credential id. Belongs to one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._businesses: dict[str, Buckets] = {}
        self._credentials: dict[str, Buckets] = {}
        self._parents: dict[str, str] = {}
        self._unlimited = Unlimited()

    def follow(self, access: AccessSnapshot) -> None:
        """Other limits from now on. What was used stays used."""
        now = self._clock.now()
        _follow(self._businesses, {n: b.rates for n, b in access.businesses.items()}, now)
        _follow(self._credentials, {n: c.rates for n, c in access.credentials.items()}, now)
        self._parents = {n: c.parent for n, c in access.credentials.items() if c.parent}

    async def reserve(self, business: str, credential: str, tokens: int) -> Grant | Denied:
        """Take one request and ``tokens``, or nothing at all.

        More tokens than a limit allows in a minute wait for a full bucket; what they come to
        in truth is settled like any other.
        """
        parties = self._parties(business, credential)
        if not parties:
            return self._unlimited
        now = self._clock.now()
        longest, reason = 0, ""
        for party in parties:
            for bucket, n, code in (
                (party.requests, 1, REQUESTS),
                (party.tokens, tokens, TOKENS),
            ):
                if bucket is not None:
                    # Of an empty bucket nothing can be had, not even nothing.
                    wait = bucket.wait_for(_at_most(n, bucket) or 1, now)
                    if wait > longest:
                        longest, reason = wait, code
        if longest:
            return Denied(reason, None if longest >= NEVER else longest, _standing(parties, now))
        return Reserved(self._clock, parties, tokens)

    def _parties(self, business: str, credential: str) -> list[Buckets]:
        found = []
        own = self._businesses.get(business)
        if own is not None:
            found.append(own)
        while credential:
            own = self._credentials.get(credential)
            if own is not None:
                found.append(own)
            credential = self._parents.get(credential, "")
        return found


def _follow(held: dict[str, Buckets], rates: dict[str, Rates], now: int) -> None:
    for name in held.keys() - {name for name, found in rates.items() if found != UNLIMITED}:
        del held[name]
    for name, found in rates.items():
        if found == UNLIMITED:
            continue
        party = held.get(name)
        if party is None:
            party = held[name] = Buckets()
        if party.rates != found:
            party.change(found, now)


def _at_most(n: int, bucket: TokenBucket) -> int:
    return min(n, int(bucket.burst))


def _standing(parties: list[Buckets], now: int) -> Standing:
    requests = [_level(party.requests, now) for party in parties if party.requests is not None]
    tokens = [_level(party.tokens, now) for party in parties if party.tokens is not None]
    return Standing(_narrowest(requests), _narrowest(tokens))


def _level(bucket: TokenBucket, now: int) -> Level:
    return Level(int(bucket.burst), max(0, int(bucket.left(now))), bucket.full_after(now))


def _narrowest(levels: list[Level]) -> Level | None:
    return min(levels, key=lambda level: (level.remaining, level.limit), default=None)


class TypicalOutput:
    """Output tokens that the requests of a business to a model came to, as a moving mean."""

    PRIOR = 512
    MEMORY = 32
    MOST_PAIRS = 4096

    def __init__(self) -> None:
        self._means: OrderedDict[tuple[str, str], float] = OrderedDict()

    def tokens(self, business: str, model: str) -> int:
        """What to expect of the next one."""
        return round(self._means.get((business, model), self.PRIOR))

    def add(self, business: str, model: str, tokens: int) -> None:
        """One came to ``tokens``."""
        key = (business, model)
        mean = self._means.get(key, float(tokens))
        self._means[key] = mean + (tokens - mean) / self.MEMORY
        self._means.move_to_end(key)
        if len(self._means) > self.MOST_PAIRS:
            self._means.popitem(last=False)
