"""One subscription to the scheduler's frames per process, fanned out to its viewers.

The scheduler publishes once a second whoever watches; everything that grows with viewers
happens here. A viewer holds no queue: only where it stands. When its socket is ready for
more it is told what is newer than that, so the newest figures win, and one that reads
slowly costs no memory.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import msgspec
from channels.db import database_sync_to_async
from channels.layers import BaseChannelLayer, get_channel_layer

from scheduler.live import LIVE_GROUP, LiveFrame

from .access import Pass, still_valid
from .board import Board, Cursor

logger = logging.getLogger(__name__)

RETRY_S = 1.0

# WebSocket close codes: the process stops; the session or the right to the view is over.
GOING_AWAY = 1001
SESSION_OVER = 4401


Recheck = Callable[[Collection[Pass]], Awaitable[set[Pass]]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one viewer may take up.

    ``drain_s``: how long a message may take to leave; ``silence_s``: without frames for so
    long the scheduler counts as silent; ``snapshot_gap_s``: between snapshots asked for.
    """

    sockets_per_user: int = 20
    drain_s: float = 10.0
    recheck_s: float = 10.0
    silence_s: float = 5.0
    snapshot_gap_s: float = 1.0


class Viewer:
    """One open socket: where it stands, and with which code it is to end, if it is."""

    __slots__ = ("cursor", "ended", "entry", "snapshot_at", "started", "wake")

    def __init__(self, entry: Pass) -> None:
        self.entry = entry
        self.cursor: Cursor | None = None
        self.started = False
        self.snapshot_at = 0.0
        self.ended = 0
        self.wake = asyncio.Event()
        self.wake.set()


class ViewerEnded(Exception):  # noqa: N818 - an end, not an error
    """The hub is done with this viewer; ``code`` is what to close its socket with."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LiveHub:
    """Owned by the process's event loop: every method runs there, so nothing is locked."""

    def __init__(
        self, layer: BaseChannelLayer, recheck: Recheck, limits: Limits | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.board = Board()
        self._layer = layer
        self._recheck = recheck
        self._channel = ""
        self._heard_at = 0.0
        self._viewers: set[Viewer] = set()
        self._sockets: Counter[int] = Counter()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Subscribe, and keep listening until ``stop``."""
        self._channel = await self._layer.new_channel()
        await self._layer.group_add(LIVE_GROUP, self._channel)
        self._tasks = [
            asyncio.create_task(self._listen(), name="live listener"),
            asyncio.create_task(self._keep(), name="live upkeep"),
        ]

    async def stop(self) -> None:
        """End every viewer, then the subscription."""
        for viewer in self._viewers:
            self._end(viewer, GOING_AWAY)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._channel:
            await self._layer.group_discard(LIVE_GROUP, self._channel)
            self._channel = ""

    @property
    def viewers(self) -> int:
        """How many sockets are open."""
        return len(self._viewers)

    def join(self, entry: Pass) -> Viewer | None:
        """Register a socket; None when its person has as many as one may have."""
        if self._sockets[entry.user_id] >= self.limits.sockets_per_user:
            return None
        viewer = Viewer(entry)
        self._viewers.add(viewer)
        self._sockets[entry.user_id] += 1
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Forget a socket; harmless when it is forgotten already."""
        if viewer not in self._viewers:
            return
        self._viewers.remove(viewer)
        self._sockets[viewer.entry.user_id] -= 1
        if not self._sockets[viewer.entry.user_id]:
            del self._sockets[viewer.entry.user_id]

    def resync(self, viewer: Viewer) -> None:
        """Let the viewer's next message be a snapshot: now, or with the next frame if it had
        one a moment ago."""
        viewer.cursor = None
        if self._now() - viewer.snapshot_at >= self.limits.snapshot_gap_s:
            viewer.started = False
            viewer.wake.set()

    async def next_text(self, viewer: Viewer) -> str:
        """Wait until there is something that this viewer doesn't know; raises ViewerEnded."""
        while True:
            await viewer.wake.wait()
            viewer.wake.clear()
            if viewer.ended:
                raise ViewerEnded(viewer.ended)
            newest = self.board.cursor
            if viewer.started and viewer.cursor == newest:
                continue
            silent = self._now() - self._heard_at > self.limits.silence_s
            if not viewer.started or viewer.cursor is None:
                viewer.snapshot_at = self._now()
            text = self.board.message(viewer.entry.audience, viewer.cursor, stale=silent)
            viewer.started, viewer.cursor = True, newest
            return text

    def take(self, message: dict[str, object]) -> None:
        """One message of the channel layer; what is no frame is reported and passed over."""
        try:
            frame = msgspec.convert(message.get("frame"), LiveFrame)
        except msgspec.ValidationError as error:
            logger.warning("a live frame cannot be read: %s", error)
            return
        if not self.board.apply(frame):
            return
        self._heard_at = self._now()
        for viewer in self._viewers:
            viewer.wake.set()

    async def recheck(self) -> None:
        """End the viewers whose session is over or whose right is gone."""
        entries = {viewer.entry for viewer in self._viewers}
        if not entries:
            return
        valid = await self._recheck(entries)
        for viewer in self._viewers:
            # One that joined meanwhile was checked when it did.
            if viewer.entry in entries and viewer.entry not in valid:
                self._end(viewer, SESSION_OVER)

    async def _listen(self) -> None:
        broken = False
        while True:
            try:
                self.take(await self._layer.receive(self._channel))
                broken = False
            except Exception as error:
                # Whatever broke the channel layer, the numbers must come back when it heals.
                if not broken:
                    logger.warning("live frames are interrupted: %s", error, exc_info=True)
                broken = True
                await asyncio.sleep(RETRY_S)
                await self._rejoin()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self.limits.recheck_s)
            # Layers forget group members after a day.
            await self._rejoin()
            try:
                await self.recheck()
            except Exception:  # the database is away, say; the next round asks again
                logger.exception("live viewers could not be checked")

    async def _rejoin(self) -> None:
        with suppress(Exception):  # the listener reports it, and tries again
            await self._layer.group_add(LIVE_GROUP, self._channel)

    @staticmethod
    def _end(viewer: Viewer, code: int) -> None:
        viewer.ended = code
        viewer.wake.set()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


@lru_cache(maxsize=1)
def get_hub() -> LiveHub:
    """The process's hub, made when first asked for; the process's lifespan starts and stops it."""
    layer = get_channel_layer()
    assert layer is not None, "the settings define no channel layer"
    return LiveHub(layer, database_sync_to_async(still_valid))
