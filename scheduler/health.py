"""Active health checks: one task a replica, and its verdict told to the scheduler.

A replica is in service when its last probe was well, and has been for ``failover.open_s``
if it has gone down ``failover.fail_threshold`` times of late. Before it takes P0 it has to
answer a request of its own (see ``warmup``). A server that was seen to listen no more and
does again is another process: a new generation.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from .core.events import ReplicaChanged
from .core.fleet import FleetSnapshot, PoolFacts, ReplicaFacts
from .core.policy import Policy
from .health_probe import Prober, Verdict
from .health_watch import Watch

log = logging.getLogger(__name__)

EVERY_S = 1.0
# Two silent probes in a row, so that one lost packet takes nothing out: 4 s at most.
SILENT_THRESHOLD = 2
# Between two warm-ups of a replica that does not answer them.
WARM_AGAIN_FIRST_S = 0.5
WARM_AGAIN_MOST_S = 8.0

Warm = Callable[[ReplicaFacts], Awaitable[bool]]


class Health:
    """Probes the fleet. ``tell`` hears of each change; ``seen`` of each new state by name.
    ``warm`` makes a replica answer something, and says whether it did."""

    def __init__(
        self,
        tell: Callable[[ReplicaChanged], None],
        seen: Callable[[str, str], None],
        *,
        allowed: Callable[[str], bool],
        warm: Warm,
    ) -> None:
        self.watches: dict[str, Watch] = {}
        self.policy = Policy()
        self._tell = tell
        self._seen = seen
        self._warm = warm
        self._prober = Prober(allowed)
        self._generations: dict[str, int] = {}

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
            self._take_out(watch)
            watch.tripped = True
            self._seen(name, watch.state)
            watch.now.set()

    async def close(self) -> None:
        """End all probes."""
        for watch in self.watches.values():
            self._drop(watch)
        tasks = [t for w in self.watches.values() for t in (w.task, w.warming) if t is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._prober.close()

    def _start(self, facts: ReplicaFacts, pool: PoolFacts) -> None:
        watch = Watch(facts, pool, self._next_generation(facts.name))
        self.watches[facts.name] = watch
        watch.task = asyncio.create_task(self._run(watch), name=f"health {facts.name}")

    def _next_generation(self, name: str) -> int:
        found = self._generations[name] = self._generations.get(name, 0) + 1
        return found

    def _drop(self, watch: Watch) -> None:
        watch.judged.set()
        for task in (watch.task, watch.warming):
            if task is not None:
                task.cancel()

    async def _run(self, watch: Watch) -> None:
        while True:
            try:
                verdict = await self._prober.probe(watch.facts)
            except Exception:  # whatever one probe met, the next must be made all the same
                log.exception("replica %s could not be probed", watch.facts.name)
                verdict = Verdict.UNWELL
            self._judge(watch, verdict)
            if watch.silent and watch.ready:
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await watch.now.wait()
            watch.now.clear()

    def _judge(self, watch: Watch, verdict: Verdict) -> None:
        watch.silent = watch.silent + 1 if verdict is Verdict.SILENT else 0
        if verdict is Verdict.SILENT and watch.ready and watch.silent < SILENT_THRESHOLD:
            return
        now = asyncio.get_running_loop().time()
        watch.note(well=verdict is Verdict.WELL, gone=verdict is Verdict.GONE, now=now)
        ready = watch.may_serve(now, self.policy.failover)
        if ready and not watch.ready:
            self._take_in(watch)
        elif not ready and watch.ready is not False:
            self._take_out(watch)
            self._report(watch)
        watch.judged.set()

    def _take_in(self, watch: Watch) -> None:
        if watch.gone:
            # Somebody else listens there now: nothing of before runs in it.
            watch.gone = False
            watch.generation = self._next_generation(watch.facts.name)
        watch.ready, watch.tripped = True, False
        watch.warm = not self.policy.cold_start.warm_before_p0
        self._report(watch)
        if not watch.warm:
            watch.warming = asyncio.create_task(
                self._warm_up(watch), name=f"warm-up {watch.facts.name}"
            )

    def _take_out(self, watch: Watch) -> None:
        watch.note_down(asyncio.get_running_loop().time())
        watch.ready = False
        if watch.warming is not None:
            watch.warming.cancel()

    async def _warm_up(self, watch: Watch) -> None:
        """Until it has answered, P0 goes elsewhere."""
        pause = WARM_AGAIN_FIRST_S
        while not await self._warm(watch.facts):
            log.info("replica %s does not answer its warm-up yet", watch.facts.name)
            await asyncio.sleep(pause)
            pause = min(2 * pause, WARM_AGAIN_MOST_S)
        watch.warm = True
        self._report(watch)

    def _report(self, watch: Watch) -> None:
        if watch.ready is None:
            return
        log.info("replica %s is %s", watch.facts.name, watch.state)
        self._seen(watch.facts.name, watch.state)
        self._tell(
            ReplicaChanged(
                watch.facts,
                watch.pool,
                watch.ready,
                watch.generation,
                watch.warm or not watch.ready,
            )
        )
