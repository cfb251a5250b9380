"""How the books stand, as a metric of the serving process.

They are compared by a task in another process, which announces its report like any other change.
"""

import asyncio
from collections.abc import Awaitable, Callable

from metering.models import ChangeVersion
from scheduler.ports import Changes

BOOKS = ChangeVersion.Topic.BOOKS.value


class BooksNews:
    """Changes for the scheduler's runtime, but for those of the books: these are read and shown
    here. ``read`` may block; ``show`` is set once there is something to show them on."""

    def __init__(self, changes: Changes, read: Callable[[], int]) -> None:
        self._changes = changes
        self._read = read
        self.show: Callable[[float], None] = lambda value: None

    async def run(self, on_change: Callable[[str], Awaitable[None]]) -> None:
        """Pass news on until cancelled."""

        async def heard(topic: str) -> None:
            if topic == BOOKS:
                self.show(await asyncio.to_thread(self._read))
            else:
                await on_change(topic)

        await self._changes.run(heard)
