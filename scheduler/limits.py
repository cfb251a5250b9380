"""The limits that the gateway holds its callers to, in process: the ``Limiter`` of a single
gateway.

One request takes from its business, from its key, and, where a credential is the bearer, from
that one and those that it was narrowed from. Nothing awaits between looking and taking, so a
reservation is whole or not at all.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from metering.core.bucket import NEVER, TokenBucket
from metering.core.facts import FREE, LANES, AccessSnapshot, Allowance
from metering.core.leases import Leases
from metering.core.prices import NO_PRICES, PriceList
from metering.core.purse import Month, Purse, Rates, rates_of
from metering.core.usage import Consumed

from .core.decisions import Throttle
from .party import GPU_UNIT, Need, Party, Slow
from .ports import Ask, Clock, Denied, Grant, Level, Standing

# The lane that is slowed for others.
LOWEST = 2

Name = TypeVar("Name", str, bytes)


class Unlimited:
    """The grant of who has no limits."""

    waits = False

    async def turn(self) -> None:
        """Nothing to wait for."""

    def again(self) -> int:
        """Nothing to wait for."""
        return 0

    def settle(self, used: Consumed, model: str = "") -> None:
        """Nothing was taken."""

    def standing(self) -> Standing:
        """No limits, nothing to tell."""
        return Standing()


class Reserved:
    """What one request took of whom."""

    __slots__ = ("_ask", "_limits", "_parties", "_places", "_settled", "_taken", "_turn")

    def __init__(self, limits: "Limits", ask: Ask, parties: list[Party], need: Need) -> None:
        self._limits, self._ask, self._parties = limits, ask, parties
        self._settled = False
        self._turn: asyncio.Future[None] | None = None
        self._taken = [party.take(need, _p2(ask)) for party in parties]
        self._places = [party.places for party in parties if party.places is not None]
        for places in self._places:
            if not places.take(ask.request, limits.clock.now()):
                self._turn = limits.waiting(ask.request)

    @property
    def waits(self) -> bool:
        """Whether its key has as many running as it may."""
        return self._turn is not None and not self._turn.done()

    async def turn(self) -> None:
        """Return when it may run."""
        if self._turn is not None:
            await self._turn

    def again(self) -> int:
        """When all who wait have had their turn."""
        now = self._limits.clock.now()
        return max((places.wait_for_all(now) for places in self._places), default=0)

    def settle(self, used: Consumed, model: str = "") -> None:
        """Give back what was not used, or take what was used beyond."""
        if self._settled:
            return
        self._settled = True
        ask = replace(self._ask, model=model) if model else self._ask
        need = self._limits.need(ask, used, self._parties)
        for taken in self._taken:
            taken.settle(need, counted=used.counted)
        for places in self._places:
            self._limits.release(places, self._ask.request)

    def standing(self) -> Standing:
        """What is left now, of the narrowest limit of each kind."""
        return _standing(self._parties, self._limits.clock.now(), self._ask)


class Limits:
    """Parties by business name, key digest and credential id. Belongs to one event loop."""

    def __init__(self, clock: Clock, month: Month) -> None:
        self.clock = clock
        self._prices = NO_PRICES
        self._known: dict[tuple[str, int], Rates] = {}
        self._month = month
        self._gpus = 0.0
        self._slow: dict[str, Slow] = {}
        self._businesses: dict[str, Party] = {}
        self._keys: dict[bytes, Party] = {}
        self._credentials: dict[str, Party] = {}
        self._parents: dict[str, str] = {}
        self._access = AccessSnapshot()
        self._turns: dict[str, asyncio.Future[None]] = {}
        self._unlimited = Unlimited()

    def follow(self, access: AccessSnapshot) -> None:
        """Other limits from now on. What was used stays used."""
        self._access = access
        self._follow(self._businesses, {n: b.allowance for n, b in access.businesses.items()})
        self._follow(self._keys, {n: k.allowance for n, k in access.keys.items()})
        self._follow(
            self._credentials, {n: Allowance(c.rates) for n, c in access.credentials.items()}
        )
        self._parents = {n: c.parent for n, c in access.credentials.items() if c.parent}

    def throttle(self, throttle: Throttle) -> None:
        """Rates are slower for P2 of some models from now on."""
        self._slow = {n: slow for n, slow in self._slow.items() if n != throttle.model}
        if throttle.share < 1:
            share, least = Fraction(repr(throttle.share)), Fraction(repr(throttle.least))
            self._slow[throttle.model] = Slow(share, least, throttle.models)
        now = self.clock.now()
        held: list[Iterable[Party]] = [
            self._businesses.values(),
            self._keys.values(),
            self._credentials.values(),
        ]
        for parties in held:
            for party in parties:
                party.slow_down(self._slow, now)

    def follow_fleet(self, gpus: float) -> None:
        """Shares of GPU time are shares of so many GPUs from now on."""
        if gpus != self._gpus:
            self._gpus = gpus
            self.follow(self._access)

    async def reserve(self, ask: Ask) -> Grant | Denied:
        """Take what the request is expected to need, or nothing at all.

        More tokens than a limit allows in a minute wait for a full bucket; what they come to
        in truth is settled like any other. Money that a budget never has is never granted.
        """
        parties = self._parties(ask)
        if not parties:
            return self._unlimited
        now, wall = self.clock.now(), self.clock.wall()
        need = self.need(ask, ask.expected, parties)
        longest, reason = 0, ""
        for party in parties:
            wait, code = party.wait(need, now, wall, _p2(ask))
            if wait > longest:
                longest, reason = wait, code
        if longest:
            standing = _standing(parties, now, ask)
            return Denied(reason, None if longest >= NEVER else longest, standing)
        return Reserved(self, ask, parties, need)

    def need(self, ask: Ask, used: Consumed, parties: list[Party]) -> Need:
        """What it comes to, in the units in which parties count."""
        cost = 0
        for party in parties:
            if party.purse is not None:
                cost = self._rates(ask).cost(used)
                break
        return Need(used.tokens, round(used.gpu_seconds * GPU_UNIT), cost)

    def renew(self, requests: Sequence[str]) -> None:
        """These requests live; the places of others are free when their time is up."""
        held = [party.places for party in self._keys.values() if party.places is not None]
        if held:
            now, alive = self.clock.now(), frozenset(requests)
            for places in held:
                places.renew(alive, now)
                self._call(places.expire(now))

    def price(self, prices: PriceList) -> None:
        """Other prices from now on."""
        if prices != self._prices:
            self._prices = prices
            self._known.clear()

    def _rates(self, ask: Ask) -> Rates:
        key = (ask.model, ask.lane)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = rates_of(self._prices, ask.model, LANES[ask.lane])
        return found

    def waiting(self, request: str) -> "asyncio.Future[None]":
        """What a request that waits for a place waits on."""
        found = self._turns[request] = asyncio.get_running_loop().create_future()
        return found

    def release(self, places: Leases, request: str) -> None:
        """A request leaves its place, running or waiting, to the next."""
        self._turns.pop(request, None)
        self._call(places.release(request, self.clock.now()))

    def purses(self) -> Mapping[str | bytes, Purse]:
        """The budgets there are, by business name or key digest."""
        held: list[Iterable[tuple[str | bytes, Party]]] = [
            self._businesses.items(),
            self._keys.items(),
        ]
        return {
            name: party.purse
            for parties in held
            for name, party in parties
            if party.purse is not None
        }

    def _call(self, requests: Iterable[str]) -> None:
        for request in requests:
            turn = self._turns.pop(request, None)
            if turn is not None and not turn.done():
                turn.set_result(None)

    def _parties(self, ask: Ask) -> list[Party]:
        found = []
        own = self._businesses.get(ask.business)
        if own is not None:
            found.append(own)
        own = self._keys.get(ask.key)
        if own is not None:
            found.append(own)
        credential = ask.credential
        while credential:
            own = self._credentials.get(credential)
            if own is not None:
                found.append(own)
            credential = self._parents.get(credential, "")
        return found

    def _follow(self, held: dict[Name, Party], allowed: Mapping[Name, Allowance]) -> None:
        now, wall = self.clock.now(), self.clock.wall()
        for name in held.keys() - {name for name, found in allowed.items() if found != FREE}:
            party = held[name]
            self._call(party.change(FREE, 0.0, self._month, now, wall))
            if not party.places:
                del held[name]
        for name, found in allowed.items():
            if found == FREE:
                continue
            party = held.setdefault(name, Party(slow=self._slow))
            if party.allowed != found or party.gpus != self._gpus:
                self._call(party.change(found, self._gpus, self._month, now, wall))


def _p2(ask: Ask) -> str | None:
    """The model whose rates may be slowed for this request, if any."""
    return ask.model if ask.lane == LOWEST else None


def _standing(parties: list[Party], now: int, ask: Ask) -> Standing:
    parties = [*parties, *(own for party in parties for own, _ in party.slowed(_p2(ask)))]
    return Standing(
        _narrowest([party.requests for party in parties], now),
        _narrowest([party.tokens for party in parties], now),
    )


def _narrowest(buckets: list[TokenBucket | None], now: int) -> Level | None:
    """That of which least is left."""
    found: TokenBucket | None = None
    least = 0
    for bucket in buckets:
        if bucket is not None:
            left = bucket.whole(now)
            if found is None or (left, bucket.burst) < (least, found.burst):
                found, least = bucket, left
    return None if found is None else Level(int(found.burst), least, found.full_after(now))


class Typical:
    """What the requests of a business to a model came to, as a moving mean."""

    MEMORY = 32
    MOST_PAIRS = 4096

    def __init__(self, prior: float) -> None:
        self._prior = prior
        self._means: OrderedDict[tuple[str, str], float] = OrderedDict()

    def of(self, business: str, model: str) -> float:
        """What to expect of the next one."""
        return self._means.get((business, model), self._prior)

    def add(self, business: str, model: str, amount: float) -> None:
        """One came to ``amount``."""
        key = (business, model)
        mean = self._means.get(key, float(amount))
        self._means[key] = mean + (amount - mean) / self.MEMORY
        self._means.move_to_end(key)
        if len(self._means) > self.MOST_PAIRS:
            self._means.popitem(last=False)
