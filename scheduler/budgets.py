"""Keeps the budgets in step with the books: what was spent before this process began, by
others, or otherwise than was thought."""

import asyncio
import logging
from collections import defaultdict
from decimal import Decimal

from metering.core.facts import AccessSnapshot
from metering.core.purse import parts

from .dates import DatedUsage
from .limits import Limits
from .ports import Books, Clock, Spent

log = logging.getLogger(__name__)

EVERY_S = 15.0
# Of Postgres's time one part in so many goes into it at most.
SHARE = 20
# Dates are kept to the microsecond.
MICROSECOND = 1000


class Budgets:
    """Reads what was spent this month and rebases the purses. Belongs to one event loop.

    Between two looks each purse counts by itself what its requests came to.
    """

    def __init__(self, limits: Limits, books: Books, usage: DatedUsage, clock: Clock) -> None:
        self.limits = limits
        self._books = books
        self._usage = usage
        self._clock = clock
        self._access = AccessSnapshot()
        self._reachable = True

    async def run(self) -> None:
        """Look every few seconds, until cancelled; less often where a look takes long."""
        loop = asyncio.get_running_loop()
        pause = EVERY_S
        while True:
            await asyncio.sleep(pause)
            began = loop.time()
            await self.look()
            pause = max(EVERY_S, SHARE * (loop.time() - began))

    async def follow(self, access: AccessSnapshot) -> None:
        """Other limits, and other parties with budgets, from now on."""
        self._access = access
        self.limits.follow(access)
        await self.look()

    async def look(self) -> None:
        """Bring every purse up to date. While the books cannot be read, purses count on."""
        purses = self.limits.purses()
        if not purses:
            return
        wall = self._clock.wall()
        # With nothing on its way, the books hold all that finished before this moment. A wall
        # clock that was set back has left dates there that are still to come.
        whole, before = not self._usage.pending(), max(wall, self._usage.latest + MICROSECOND)
        known: dict[str | bytes, int] = {}
        months: dict[int, list[str | bytes]] = defaultdict(list)
        for name, purse in purses.items():
            purse.left(wall)
            known[name] = purse.spent
            months[purse.begins].append(name)
        try:
            for begins, names in months.items():
                spent = await self._read(begins, before, names)
                self.limits.price(spent.prices)
                for name in names:
                    total = parts(self._total(spent, name))
                    purses[name].rebase(begins, total, known[name], whole=whole)
        except OSError as error:
            if self._reachable:
                log.warning("what was spent this month cannot be read: %s", error)
            self._reachable = False
        else:
            self._reachable = True

    async def _read(self, begins: int, before: int, names: list[str | bytes]) -> Spent:
        businesses = [name for name in names if isinstance(name, str)]
        keys = [self._key(name) for name in names if isinstance(name, bytes)]
        return await asyncio.to_thread(self._books.spent, begins, before, businesses, keys)

    def _total(self, spent: Spent, name: str | bytes) -> Decimal:
        if isinstance(name, str):
            return spent.businesses.get(name, Decimal(0))
        return spent.keys.get(self._key(name), Decimal(0))

    def _key(self, digest: bytes) -> tuple[str, str]:
        key = self._access.keys.get(digest)
        return ("", "") if key is None else (key.business, key.prefix)
