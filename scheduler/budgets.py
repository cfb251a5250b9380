"""Keeps the budgets in step with the books: what was spent before this process began, by
others, or otherwise than was thought."""

import asyncio
import logging
from collections import defaultdict
from decimal import Decimal

from metering.core.facts import AccessSnapshot

from .limits import Limits
from .ports import Clock, SpendingSource, Spent, UsageSink

log = logging.getLogger(__name__)

EVERY_S = 15.0


class Budgets:
    """Reads what was spent this month and rebases the purses. Belongs to one event loop.

    Between two looks each purse counts by itself what its requests came to.
    """

    def __init__(
        self, limits: Limits, source: SpendingSource, usage: UsageSink, clock: Clock
    ) -> None:
        self._limits = limits
        self._source = source
        self._usage = usage
        self._clock = clock
        self._access = AccessSnapshot()
        self._reachable = True

    async def run(self) -> None:
        """Look every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def follow(self, access: AccessSnapshot) -> None:
        """Other parties have budgets from now on."""
        self._access = access
        await self.look()

    async def look(self) -> None:
        """Bring every purse up to date. While the books cannot be read, purses count on."""
        purses = self._limits.purses()
        if not purses:
            return
        now = self._clock.now()
        # With nothing on its way, the books hold all that finished before this moment.
        whole = not self._usage.pending()
        known: dict[str | bytes, Decimal] = {}
        months: dict[int, list[str | bytes]] = defaultdict(list)
        for name, purse in purses.items():
            purse.left(now)
            known[name] = purse.spent
            months[purse.begins].append(name)
        try:
            for begins, names in months.items():
                spent = await self._read(begins, now, names)
                self._limits.tariff = spent.tariff
                for name in names:
                    total = self._total(spent, name)
                    purses[name].rebase(begins, total, known[name], whole=whole)
        except OSError as error:
            if self._reachable:
                log.warning("what was spent this month cannot be read: %s", error)
            self._reachable = False
        else:
            self._reachable = True

    async def _read(self, begins: int, now: int, names: list[str | bytes]) -> Spent:
        businesses = [name for name in names if isinstance(name, str)]
        keys = [self._key(name) for name in names if isinstance(name, bytes)]
        return await asyncio.to_thread(self._source.spent, begins, now, businesses, keys)

    def _total(self, spent: Spent, name: str | bytes) -> Decimal:
        if isinstance(name, str):
            return spent.businesses.get(name, Decimal(0))
        return spent.keys.get(self._key(name), Decimal(0))

    def _key(self, digest: bytes) -> tuple[str, str]:
        key = self._access.keys.get(digest)
        return ("", "") if key is None else (key.business, key.prefix)
