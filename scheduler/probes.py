"""Reads each replica's metrics every few seconds, and tells the scheduler their means.

They only help to choose among replicas. How much a replica takes at once is our own count,
whatever its metrics say.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from .core.events import Measured
from .core.fleet import FleetSnapshot, ReplicaFacts
from .core.policy import Placement
from .engines import Names, engine
from .readings import Reading, Window, merged, read

log = logging.getLogger(__name__)

TIMEOUT_S = 2.0
MOST_BYTES = 4 * 1024 * 1024
# Above its slots by our count, somebody else must be using it.
FOREIGN = 0.5


class UnreadableError(Exception):
    """A page that could not be had or understood."""


@dataclass(slots=True)
class Watch:
    """One replica under watch, what it said lately, and what of it was logged."""

    facts: ReplicaFacts
    window: Window = field(default_factory=Window)
    failing: bool = False
    shared: bool = False


class Probes:
    """``tell`` hears of each replica once a round; ``allowed`` judges a URL and may block.
    Belongs to one event loop."""

    def __init__(self, tell: Callable[[Measured], None], *, allowed: Callable[[str], bool]) -> None:
        self.policy = Placement()
        self.means: dict[str, Reading] = {}
        self._watches: dict[str, Watch] = {}
        self._tell = tell
        self._allowed = allowed
        self._client = httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)

    def watch(self, fleet: FleetSnapshot) -> None:
        """Follow a fleet. A replica that moved is another: what it said before is forgotten."""
        for name in self._watches.keys() - fleet.replicas.keys():
            del self._watches[name]
            self.means.pop(name, None)
        for name, facts in fleet.replicas.items():
            known = self._watches.get(name)
            if known is None or _pages(known.facts) != _pages(facts):
                self._watches[name] = Watch(facts)
            else:
                known.facts = facts

    async def run(self) -> None:
        """Read, round after round, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self.round()
            await asyncio.sleep(max(0.1, began + self.policy.metrics_every_s - loop.time()))

    async def round(self) -> None:
        """Read every replica once, and tell what is known of each."""
        await asyncio.gather(*(self._measure(watch) for watch in list(self._watches.values())))

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def _measure(self, watch: Watch) -> None:
        reading = await self._read(watch)
        facts, now = watch.facts, asyncio.get_running_loop().time()
        if self._watches.get(facts.name) is not watch:
            return
        if reading is not None:
            watch.window.add(reading, now)
        mean = watch.window.mean(now, self.policy.metrics_window_s)
        self.means[facts.name] = mean
        self._note_sharing(watch, mean)
        queue = None if mean.queue is None else round(mean.queue)
        cache = None if mean.cache_tokens is None else round(mean.cache_tokens)
        self._tell(Measured(facts.name, mean.gpu, mean.memory, queue, cache))

    def _note_sharing(self, watch: Watch, mean: Reading) -> None:
        shared = mean.running is not None and mean.running > watch.facts.slots + FOREIGN
        if shared and not watch.shared:
            log.warning(
                "replica %s runs %.0f requests on %d slots: somebody else uses it too",
                watch.facts.name,
                mean.running,
                watch.facts.slots,
            )
        watch.shared = shared

    async def _read(self, watch: Watch) -> Reading | None:
        """What its pages say now; None where none of them could be read."""
        names = engine(watch.facts.engine).metrics
        pages = _pages(watch.facts)
        results = await asyncio.gather(
            *(self._page(url, names) for url in pages), return_exceptions=True
        )
        found: Reading | None = None
        problems = []
        for result in results:
            if isinstance(result, Reading):
                found = result if found is None else merged(found, result)
            elif isinstance(result, UnreadableError):
                problems.append(str(result))
            else:
                raise result
        if problems and not watch.failing:
            log.info("metrics of replica %s: %s", watch.facts.name, "; ".join(problems))
        watch.failing = bool(problems)
        return found

    async def _page(self, url: str, names: Names) -> Reading:
        # Resolving a name may take a while, and must not hold up the loop.
        if not await asyncio.to_thread(self._allowed, url):
            raise UnreadableError(f"{url} is not allowed")
        size, parts = 0, []
        try:
            async with asyncio.timeout(TIMEOUT_S), self._client.stream("GET", url) as response:
                if response.status_code != httpx.codes.OK:
                    raise UnreadableError(f"{url} answered {response.status_code}")
                async for part in response.aiter_bytes():
                    size += len(part)
                    if size > MOST_BYTES:
                        raise UnreadableError(f"{url} is too long")
                    parts.append(part)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise UnreadableError(f"{url} cannot be read: {type(error).__name__}") from None
        try:
            # A page may have thousands of lines, and requests wait for the loop.
            text = b"".join(parts).decode("utf-8", "replace")
            return await asyncio.to_thread(read, text, names)
        except ValueError as error:
            raise UnreadableError(f"{url} is no page of metrics: {error}") from None


def _pages(facts: ReplicaFacts) -> tuple[str, ...]:
    """Where a replica's figures stand: its engine's page, and its card's where there is one."""
    own = facts.metrics_url or facts.url.rstrip("/") + "/metrics"
    return (own, facts.dcgm_url) if facts.dcgm_url else (own,)
