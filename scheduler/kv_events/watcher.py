"""Follows the fleet's publishers of KV cache events, and tells the scheduler what they say."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from scheduler.addresses import locate
from scheduler.core.events import CacheChanged
from scheduler.core.fleet import FleetSnapshot

from .listener import Listener

log = logging.getLogger(__name__)

# A name may lead elsewhere by then.
LOCATE_EVERY_S = 30.0


class KvEvents:
    """``tell`` hears of caches, on the loop that ``run`` runs on; ``allowed`` judges an IP address
    in text form."""

    def __init__(
        self, tell: Callable[[CacheChanged], None], *, allowed: Callable[[str], bool]
    ) -> None:
        self._tell = tell
        self._allowed = allowed
        self._urls: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener = Listener(self._heard)

    def watch(self, fleet: FleetSnapshot) -> None:
        """Follow a fleet."""
        named = {name: facts.kv_events_url for name, facts in fleet.replicas.items()}
        urls = {name: url for name, url in named.items() if url}
        if urls != self._urls:
            self._urls = urls
            self._changed.set()

    async def run(self) -> None:
        """Keep to where the publishers are, until cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            urls = self._urls
            places = {name: await self._place(name, url) for name, url in urls.items()}
            self._listener.listen(places)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOCATE_EVERY_S):
                    await self._changed.wait()

    async def close(self) -> None:
        """Let go of the connections."""
        await asyncio.to_thread(self._listener.close)

    async def _place(self, name: str, url: str) -> str:
        """Where to connect to, empty where that may not be."""
        try:
            found = await asyncio.to_thread(locate, url, self._allowed)
        except ValueError as error:
            problem = str(error)
            if self._refused.get(name) != problem:
                log.warning("KV cache events of replica %s: its address %s", name, problem)
            self._refused[name] = problem
            return ""
        self._refused.pop(name, None)
        return found

    def _heard(self, name: str, evicted: int | None) -> None:
        """In the listener's thread."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has closed
                loop.call_soon_threadsafe(self._pass_on, name, evicted)

    def _pass_on(self, name: str, evicted: int | None) -> None:
        if name in self._urls:
            self._tell(CacheChanged(name, evicted))
