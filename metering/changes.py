"""Hears in one process what was changed in another.

A change raises a version row and sends NOTIFY when it commits (services/changes.py). The
notification only hastens a look at the rows, which happens every second in any case: a
lost notification costs at most that second, and none is ever acted upon twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import psycopg

from metering.models import ChangeVersion
from metering.postgres import conninfo
from metering.services.changes import CHANNEL

logger = logging.getLogger(__name__)

POLL_S = 1.0
# A query on this connection takes a millisecond; one that hangs means the server is gone.
QUERY_S = 5.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

OnChange = Callable[[str], Awaitable[None]]


class ChangeListener:
    """Calls back once for each version of each topic that it sees.

    Topics are the values of ChangeVersion.Topic. At the start each is called once, so that
    the caller's snapshots begin with a load. Several changes within moments may be one call.
    """

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._reachable = True

    async def run(self, on_change: OnChange) -> None:
        """Listen until cancelled; Postgres may go and come back meanwhile.

        ``on_change`` must finish before the next topic is looked at. When it raises, the
        version counts as not seen and it is called again within about a second.
        """
        pause = FIRST_PAUSE_S
        while True:
            try:
                async with asyncio.timeout(QUERY_S):
                    connection = await psycopg.AsyncConnection.connect(
                        conninfo("fairlane changes"), autocommit=True
                    )
                async with connection:
                    await self._listen(connection, on_change)
            except (psycopg.Error, TimeoutError, OSError) as error:
                if self._reachable:
                    logger.warning("changes are not heard, Postgres does not answer: %s", error)
                    self._reachable = False
                    pause = FIRST_PAUSE_S
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)

    async def _listen(self, connection: psycopg.AsyncConnection, on_change: OnChange) -> None:
        async with asyncio.timeout(QUERY_S):
            await connection.execute(f"LISTEN {CHANNEL}")
        while True:
            async with asyncio.timeout(QUERY_S):
                cursor = await connection.execute(
                    "SELECT topic, version FROM metering_changeversion"
                )
                versions: dict[str, int] = dict(await cursor.fetchall())
            if not self._reachable:
                logger.info("changes are heard again")
                self._reachable = True
            for topic in ChangeVersion.Topic.values:
                await self._tell(topic, versions.get(topic, 0), on_change)
            async for _ in connection.notifies(timeout=POLL_S, stop_after=1):
                pass

    async def _tell(self, topic: str, version: int, on_change: OnChange) -> None:
        if self._seen.get(topic) == version:
            return
        try:
            await on_change(topic)
        except Exception:  # whatever a listener's work met, the next change must be heard
            logger.exception("change of %s was not taken up, trying again", topic)
        else:
            self._seen[topic] = version
