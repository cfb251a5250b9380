"""Counts claims above their callers' ceilings, and has them audited off the request path."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from metering.core.escalations import EscalationMinute

from .ports import AuditSink

log = logging.getLogger(__name__)

MINUTE = 60_000_000_000
FLUSH_S = 5.0
# While the audit cannot be written; what comes beyond is counted in the metric alone.
MOST_HELD = 10_000


class Escalations:
    """One entry for each business and minute, however many claims there are. Belongs to one
    event loop."""

    def __init__(self, audit: AuditSink) -> None:
        self._audit = audit
        self._held: dict[tuple[str, int], EscalationMinute] = {}
        self._reachable = True

    def note(
        self, business: str, *, claimed: str, ceiling: str, outcome: str, request: str, wall: int
    ) -> None:
        """A claim was clamped or refused (``outcome``) at ``wall``, a date (ns). Cheap; never
        fails."""
        minute = wall // MINUTE
        self._add([EscalationMinute(business, minute, 1, claimed, ceiling, outcome, request)])

    async def run(self) -> None:
        """Write what was counted every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()

    async def flush(self) -> None:
        """Write what was counted; what cannot be written now is kept for the next time."""
        rows = list(self._held.values())
        if not rows:
            return
        self._held.clear()
        try:
            await asyncio.to_thread(self._audit.escalations, rows)
        except OSError as error:
            # What came meanwhile is newer.
            newer = list(self._held.values())
            self._held.clear()
            self._add(rows)
            self._add(newer)
            if self._reachable:
                log.warning("escalations wait to be audited: %s", error)
            self._reachable = False
        else:
            self._reachable = True

    def _add(self, rows: Sequence[EscalationMinute]) -> None:
        for row in rows:
            key = (row.business, row.minute)
            known = self._held.get(key)
            if known is not None:
                self._held[key] = replace(row, count=known.count + row.count)
            elif len(self._held) < MOST_HELD:
                self._held[key] = row
