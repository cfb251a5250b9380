"""The scheduler's ear on the channel layer: posts to the inbox, and nothing else.

Whoever changed something may say so on channel ``scheduler``; the change itself is read
from Postgres, so a message that is lost or doubled does no harm.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from channels.layers import BaseChannelLayer

log = logging.getLogger(__name__)

CHANNEL = "scheduler"


class Worker:
    """Receives ``{"type": "scheduler.changed", "topic": ...}`` until cancelled."""

    def __init__(
        self, layer: BaseChannelLayer, on_change: Callable[[str], Awaitable[None]]
    ) -> None:
        self._layer = layer
        self._on_change = on_change

    async def run(self) -> None:
        """Listen. A layer that is away is asked again."""
        while True:
            try:
                message = await self._layer.receive(CHANNEL)
            except OSError:
                await asyncio.sleep(1.0)
                continue
            if message.get("type") == "scheduler.changed":
                try:
                    await self._on_change(str(message.get("topic", "")))
                except Exception:  # whatever reading it met, the next message must be heard
                    log.exception("a change that was told could not be taken up")
