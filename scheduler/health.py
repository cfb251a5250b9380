"""Active health checks: one probe task a replica, and its verdict told to the scheduler."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from .core.events import ReplicaChanged
from .core.fleet import FleetSnapshot, PoolFacts, ReplicaFacts
from .engines import engine

log = logging.getLogger(__name__)

EVERY_S = 1.0
TIMEOUT_S = 1.5
# Two silent probes in a row, so that one lost packet takes nothing out: 4 s at most.
SILENT_THRESHOLD = 2


@dataclass(slots=True)
class Watch:
    """One replica under watch. ``ready`` None: not yet probed; ``tripped``: a request could not
    reach it, and no probe has since."""

    facts: ReplicaFacts
    pool: PoolFacts
    generation: int
    ready: bool | None = None
    tripped: bool = False
    silent: int = 0
    now: asyncio.Event = field(default_factory=asyncio.Event)
    judged: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """ready, down, draining or unknown."""
        if self.ready is None:
            return "unknown"
        if not self.ready:
            return "down"
        return "draining" if self.facts.draining else "ready"


class Health:
    """Probes the fleet. ``tell`` hears of each change; ``seen`` of each new state by name."""

    def __init__(
        self,
        tell: Callable[[ReplicaChanged], None],
        seen: Callable[[str, str], None],
        *,
        allowed: Callable[[str], bool],
    ) -> None:
        self.watches: dict[str, Watch] = {}
        self._tell = tell
        self._seen = seen
        self._allowed = allowed
        self._generations: dict[str, int] = {}
        self._client = httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)

    def watch(self, fleet: FleetSnapshot) -> None:
        """Follow a fleet: start, change and end probes as it says."""
        for name in self.watches.keys() - fleet.replicas.keys():
            self._drop(self.watches.pop(name))
        for name, facts in fleet.replicas.items():
            pool = fleet.pools[facts.pool]
            known = self.watches.get(name)
            if known is None or (known.facts.url, known.facts.engine) != (facts.url, facts.engine):
                if known is not None:
                    self._drop(known)
                self._start(facts, pool)
            elif (known.facts, known.pool) != (facts, pool):
                known.facts, known.pool = facts, pool
                self._report(known)

    async def first_round(self) -> None:
        """Wait until each replica that is watched now has been judged once."""
        for watch in list(self.watches.values()):
            await watch.judged.wait()

    def suspect(self, name: str) -> None:
        """A request could not reach the replica: take its word and probe at once."""
        watch = self.watches.get(name)
        if watch is not None and watch.ready:
            watch.ready, watch.tripped = False, True
            self._seen(name, watch.state)
            watch.now.set()

    async def close(self) -> None:
        """End all probes."""
        for watch in self.watches.values():
            self._drop(watch)
        tasks = [watch.task for watch in self.watches.values() if watch.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()

    def _start(self, facts: ReplicaFacts, pool: PoolFacts) -> None:
        generation = self._generations.get(facts.name, 0) + 1
        self._generations[facts.name] = generation
        watch = Watch(facts, pool, generation)
        self.watches[facts.name] = watch
        watch.task = asyncio.create_task(self._run(watch), name=f"health {facts.name}")

    def _drop(self, watch: Watch) -> None:
        watch.judged.set()
        if watch.task is not None:
            watch.task.cancel()

    async def _run(self, watch: Watch) -> None:
        while True:
            try:
                well = await self._probe(watch.facts)
            except Exception:  # whatever one probe met, the next must be made all the same
                log.exception("replica %s could not be probed", watch.facts.name)
                well = False
            self._judge(watch, well)
            if watch.silent and watch.ready:
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await watch.now.wait()
            watch.now.clear()

    async def _probe(self, facts: ReplicaFacts) -> bool | None:
        """True: well. False: refused, or says that it is not ready. None: no answer in time."""
        adapter = engine(facts.engine)
        # Resolving a name may take a while, and must not hold up the loop.
        if not await asyncio.to_thread(self._allowed, facts.url):
            return False
        try:
            # The client's own limits are on each read; an answer may also never end.
            async with asyncio.timeout(TIMEOUT_S):
                response = await self._client.get(facts.url.rstrip("/") + adapter.health_path)
        except (httpx.TimeoutException, TimeoutError):
            return None
        except (httpx.HTTPError, httpx.InvalidURL, OSError):
            return False
        # A server that wants a key, or knows no such path, is up all the same.
        return response.status_code < 500 and not response.is_redirect

    def _judge(self, watch: Watch, well: bool | None) -> None:
        watch.silent = watch.silent + 1 if well is None else 0
        if well is None and watch.ready and watch.silent < SILENT_THRESHOLD:
            return
        ready = bool(well)
        watch.tripped = watch.tripped and not ready
        if watch.ready is not ready:
            watch.ready = ready
            self._report(watch)
        watch.judged.set()

    def _report(self, watch: Watch) -> None:
        if watch.ready is None:
            return
        log.info("replica %s is %s", watch.facts.name, watch.state)
        self._seen(watch.facts.name, watch.state)
        self._tell(ReplicaChanged(watch.facts, watch.pool, watch.ready, watch.generation))
