"""Tells the canary's keeper what this process has counted, off the request path."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from scheduler.ports import PolicySource

from .meter import Meter
from .tally import Tally

log = logging.getLogger(__name__)

FLUSH_S = 2.0


class Metered(Protocol):
    """Who counts, and knows when another canary begins."""

    meter: Meter
    on_trial: Callable[[int], None]


class Reporter:
    """Belongs to one event loop. What can't be told now is kept for the next time."""

    def __init__(self, rules: Metered, policy: PolicySource) -> None:
        self._meter = rules.meter
        rules.on_trial = self.follow
        self._policy = policy
        self._trial = 0
        self._held = Tally()
        self._reachable = True

    def follow(self, trial: int) -> None:
        """Another canary (its id, 0: none): what was counted for the one before is dropped."""
        if trial != self._trial:
            self._meter.take()
            self._held = Tally()
            self._trial = trial

    async def run(self) -> None:
        """Tell every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()

    async def flush(self) -> None:
        """Tell what was counted."""
        trial = self._trial
        self._held.add(self._meter.take())
        if not trial or self._held.empty:
            return
        told, self._held = self._held, Tally()
        try:
            await asyncio.to_thread(self._policy.report, trial, told)
        except OSError as error:
            if trial == self._trial:
                self._held.add(told)
            if self._reachable:
                log.warning("what the canary did waits to be told: %s", error)
            self._reachable = False
        else:
            self._reachable = True
