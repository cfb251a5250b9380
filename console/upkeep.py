"""What a serving process does every few seconds beside serving: it seals the audit's entries.

However many processes there are, one writes at a time (metering/services/audit_chain.py).
"""

import asyncio
import contextlib
import logging

from django import db

from metering.services.audit_chain import seal

log = logging.getLogger(__name__)

EVERY_S = 5.0


class Upkeep:
    """Runs from ``start`` to ``stop``, on one event loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._reachable = True

    def start(self) -> None:
        """Begin. The loop must run."""
        self._task = asyncio.create_task(self._run(), name="upkeep")

    async def stop(self) -> None:
        """End. What is not sealed yet is sealed by another process, or at the next start: a
        database that is away must not hold up the stop."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self._seal()

    async def _seal(self) -> None:
        try:
            await asyncio.to_thread(_seal_and_let_go)
        except db.Error as error:
            if self._reachable:
                log.warning("the audit can't be sealed now: %s", error)
            self._reachable = False
        else:
            self._reachable = True


def _seal_and_let_go() -> None:
    try:
        seal()
    finally:
        db.connections.close_all()
