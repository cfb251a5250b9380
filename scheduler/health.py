"""Active health checks: verdicts of the probing process, and what becomes of them.

A replica is in service when its last probe was well, and has been for ``failover.open_s``
if it has gone down ``failover.fail_threshold`` times of late. One that answers no probe but
goes on sending answers is busy, not dead. Before it takes P0 it has to answer a request of its
own (see ``warmup``). A server that was seen to listen no more and does again is another
process: a new generation.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from .core.events import ReplicaChanged
from .core.fleet import FleetSnapshot, PoolFacts, ReplicaFacts
from .core.policy import Policy
from .engines import engine
from .health_watch import Watch
from .probing.messages import Found, Verdict
from .probing.prober import Prober

log = logging.getLogger(__name__)

# Two silent probes in a row, so that one lost packet takes nothing out: 4 s at most, and 4.5
# after the last byte of an answer.
SILENT_THRESHOLD = 2
# Between two warm-ups of a replica that does not answer them.
WARM_AGAIN_FIRST_S = 0.5
WARM_AGAIN_MOST_S = 8.0

Warm = Callable[[ReplicaFacts], Awaitable[bool]]


class Health:
    """Judges the fleet. ``tell`` hears of changes, all of a turn of the loop at once, for each
    time that the fleet changes it is laid out anew; ``seen`` of each new state by name.
    ``heard`` gives the loop's time of the last byte that came from a replica's URL, and ``warm``
    makes a replica answer something, and says whether it did."""

    def __init__(
        self,
        tell: Callable[[Sequence[ReplicaChanged]], None],
        seen: Callable[[str, str], None],
        prober: Prober,
        *,
        heard: Callable[[str], float],
        warm: Warm,
    ) -> None:
        self.watches: dict[str, Watch] = {}
        self.policy = Policy()
        self._tell = tell
        self._seen = seen
        self._heard = heard
        self._warm = warm
        self._prober = prober
        self._numbered: dict[int, Watch] = {}
        self._generations: dict[str, int] = {}
        self._changed: dict[str, Watch] = {}
        prober.on_found = self._found

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
            watch.tripped, watch.tripped_at = True, asyncio.get_running_loop().time()
            self._seen(name, watch.state)
            self._prober.hurry(watch.number)

    async def close(self) -> None:
        """End all probes."""
        for watch in self.watches.values():
            self._drop(watch)
        tasks = [w.warming for w in self.watches.values() if w.warming is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, facts: ReplicaFacts, pool: PoolFacts) -> None:
        number = self._prober.probe(facts.url.rstrip("/") + engine(facts.engine).health_path)
        watch = Watch(facts, pool, self._next_generation(facts.name), number)
        self.watches[facts.name] = self._numbered[number] = watch

    def _next_generation(self, name: str) -> int:
        found = self._generations[name] = self._generations.get(name, 0) + 1
        return found

    def _drop(self, watch: Watch) -> None:
        watch.judged.set()
        self._prober.drop(watch.number)
        self._numbered.pop(watch.number, None)
        if watch.warming is not None:
            watch.warming.cancel()

    def _found(self, found: Found) -> None:
        watch, verdict = self._numbered[found.number], found.verdict
        if verdict is Verdict.WELL and found.asked < watch.tripped_at:
            return  # that was before a request found out more
        if verdict is Verdict.SILENT and watch.ready:
            # Bytes of answers are a sign of life as good as a probe's.
            alive = self._heard(watch.facts.url) >= found.asked
            watch.silent = 0 if alive else watch.silent + 1
            if watch.silent < SILENT_THRESHOLD:
                return
        watch.silent = 0
        self._judge(watch, verdict, found.why)

    def _judge(self, watch: Watch, verdict: Verdict, why: str) -> None:
        now = asyncio.get_running_loop().time()
        watch.note(well=verdict is Verdict.WELL, gone=verdict is Verdict.GONE, now=now)
        ready = watch.may_serve(now, self.policy.failover)
        if ready and not watch.ready:
            self._take_in(watch)
        elif not ready and watch.ready is not False:
            self._take_out(watch)
            self._report(watch, why)
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

    def _report(self, watch: Watch, why: str = "") -> None:
        if watch.ready is None:
            return
        log.info("replica %s is %s%s", watch.facts.name, watch.state, why and f": {why}")
        self._seen(watch.facts.name, watch.state)
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._tell_changes)
        self._changed[watch.facts.name] = watch

    def _tell_changes(self) -> None:
        changed = [w for name, w in self._changed.items() if self.watches.get(name) is w]
        self._changed.clear()
        self._tell(
            [
                ReplicaChanged(w.facts, w.pool, bool(w.ready), w.generation, w.warm or not w.ready)
                for w in changed
            ]
        )
