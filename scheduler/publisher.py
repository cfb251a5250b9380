"""Publishes the live frame once a second, whoever watches."""

import asyncio
import logging
import uuid
from collections import Counter as Tally
from collections.abc import Mapping

from channels.layers import BaseChannelLayer
from prometheus_client import Gauge

from metering.core.facts import LANES

from .actor import Scheduler
from .clock import ahead
from .core.fleet import PoolFacts
from .core.policy.service import ACTIONS
from .health import Health
from .health_watch import Watch
from .live import LIVE_GROUP, BusinessLive, LaneLive, LiveFrame, PoolLive, ReplicaLive
from .ports import Clock, UsageSink
from .stats import Stats

log = logging.getLogger(__name__)

MS = 1_000_000
EVERY_S = 1.0
# A business with no request for this long leaves the frame.
QUIET_NS = 15 * 60 * 1_000_000_000
STATES = ("ready", "down", "draining", "unknown")


class Publisher:
    """Builds frames from the scheduler's state and sends each to one channel group."""

    def __init__(
        self,
        scheduler: Scheduler,
        health: Health,
        stats: Stats,
        usage: UsageSink,
        clock: Clock,
        layer: BaseChannelLayer,
    ) -> None:
        self._scheduler = scheduler
        self._health = health
        self._stats = stats
        self._usage = usage
        self._clock = clock
        self._layer = layer
        self._epoch = uuid.uuid4().hex[:12]
        self._seq = 0

    async def run(self) -> None:
        """Publish until cancelled. A layer that fails costs frames, never the scheduler."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            due += EVERY_S
            frame = self.frame()
            try:
                await self._layer.group_send(
                    LIVE_GROUP, {"type": "live.frame", "frame": frame.as_dict()}
                )
            except (OSError, RuntimeError) as error:
                log.warning("the live frame could not be published: %s", error)
            await asyncio.sleep(max(0.0, due - loop.time()))

    def frame(self) -> LiveFrame:
        """The state now; counts start anew with each call."""
        now = self._clock.now()
        self._seq += 1
        state, stats = self._scheduler.state, self._stats
        queued, running = self._by_business()
        lanes = {
            name: stats.lanes[name].take(now, state.lane_queued[i], state.lane_running[i])
            for i, name in enumerate(LANES)
        }
        businesses = {
            name: self._business(name, now, queued, running)
            for name in self._present(now, {n for n, _ in queued} | {n for n, _ in running})
        }
        feed, refusals = list(stats.feed), stats.refusals
        later = ahead(self._clock) // MS
        for item in feed:
            item.at += later
        stats.feed.clear()
        stats.refusals = {}
        return LiveFrame(
            epoch=self._epoch,
            seq=self._seq,
            at=self._clock.wall() // MS,
            lanes=lanes,
            replicas=self._replicas(now),
            pools=self._pools(),
            pressed=state.pressure.pressed(),
            predictor_error=self._errors(),
            businesses=businesses,
            refusals=refusals,
            feed=feed,
        )

    def gauges(self) -> None:
        """Bring the gauges of /metrics up to date."""
        metrics, state = self._stats.metrics, self._scheduler.state
        metrics.queue_depth.clear()
        metrics.running.clear()
        metrics.replica_state.clear()
        pools: Tally[tuple[str, str]] = Tally()
        for request in state.requests.values():
            if request.replica is not None:
                pools[LANES[request.ticket.lane], request.replica.pool.name] += 1
        for (lane, pool), count in pools.items():
            metrics.running.labels(lane, pool).set(count)
        for index, lane in enumerate(LANES):
            metrics.queue_depth.labels(lane).set(state.lane_queued[index])
        for name, watch in self._health.watches.items():
            for kind in STATES:
                metrics.replica_state.labels(name, kind).set(watch.state == kind)
        self._measured(metrics.replica_gpu, {n: r.gpu for n, r in state.replicas.items()})
        self._measured(metrics.replica_memory, {n: r.memory for n, r in state.replicas.items()})
        self._measured(metrics.replica_queue, {n: r.queue for n, r in state.replicas.items()})
        self._measured(metrics.predictor_error, self._errors())
        metrics.journal_pending.set(self._usage.pending())
        self._asked_for()

    def _asked_for(self) -> None:
        """What backpressure does, for which models, and how many replicas pools should have."""
        metrics, state = self._stats.metrics, self._scheduler.state
        pressed, done = state.pressure.pressed(), state.policy.backpressure.action
        for action in ACTIONS:
            metrics.backpressure.labels(action).set(bool(pressed) and action in done)
        waits = {model: state.pressure.models[model].wait / 1e9 for model in pressed}
        self._measured(metrics.p0_waits, waits)
        self._measured(metrics.desired, {n: plan.desired for n, plan in state.plans.items()})
        self._measured(metrics.scale_ready, {n: plan.ready for n, plan in state.plans.items()})

    def _errors(self) -> dict[str, float | None]:
        now = self._clock.now()
        return {lane: stats.error(now) for lane, stats in self._stats.lanes.items()}

    @staticmethod
    def _measured(gauge: Gauge, values: Mapping[str, float | None]) -> None:
        """What is unknown has no sample: nought would read as idle."""
        gauge.clear()
        for name, value in values.items():
            if value is not None:
                gauge.labels(name).set(value)

    def _by_business(self) -> tuple[Tally[tuple[str, int]], Tally[tuple[str, int]]]:
        queued: Tally[tuple[str, int]] = Tally()
        running: Tally[tuple[str, int]] = Tally()
        for request in self._scheduler.state.requests.values():
            kind = queued if request.replica is None else running
            kind[request.ticket.business, request.ticket.lane] += 1
        return queued, running

    def _present(self, now: int, active: set[str]) -> set[str]:
        stats = self._stats.businesses
        for name in [n for n, s in stats.items() if s.touched < now - QUIET_NS and n not in active]:
            del stats[name]
        return active | stats.keys()

    def _business(
        self,
        name: str,
        now: int,
        queued: Tally[tuple[str, int]],
        running: Tally[tuple[str, int]],
    ) -> BusinessLive:
        stats = self._stats.businesses[name]
        stats.touched = stats.touched or now
        lanes: dict[str, LaneLive] = {
            lane: stats.lanes[lane].take(now, queued[name, i], running[name, i])
            for i, lane in enumerate(LANES)
        }
        live = BusinessLive(lanes, stats.refusals, stats.prompt_tokens, stats.completion_tokens)
        stats.refusals = {}
        stats.prompt_tokens = stats.completion_tokens = 0
        return live

    def _pools(self) -> list[PoolLive]:
        """Pools that have replicas or cards, by name; only what is ready has slots to count."""
        state = self._scheduler.state
        found = {card.pool.name: self._pool(card.pool) for card in state.cards.values()}
        for name, watch in self._health.watches.items():
            pool = found.setdefault(watch.pool.name, self._pool(watch.pool))
            held = state.replicas.get(name)
            pool.running += 0 if held is None else held.running
            pool.slots += watch.facts.slots if watch.state == "ready" else 0
            pool.ready += held is not None and held.serving()
        return [found[name] for name in sorted(found)]

    def _pool(self, facts: PoolFacts) -> PoolLive:
        lanes = [LANES[lane] for lane in sorted(facts.lanes)]
        plan = self._scheduler.state.plans.get(facts.name)
        wanted = None if plan is None else plan.desired
        return PoolLive(facts.name, facts.dedicated, lanes, running=0, slots=0, wanted=wanted)

    def _replicas(self, now: int) -> list[ReplicaLive]:
        watches = sorted(self._health.watches.items())
        return [self._replica(name, watch, now) for name, watch in watches]

    def _replica(self, name: str, watch: Watch, now: int) -> ReplicaLive:
        held = self._scheduler.state.replicas.get(name)
        broken = [] if held is None else sorted(held.circuits)
        breaker = "closed"
        if watch.tripped or (broken and len(broken) == len(watch.facts.models)):
            breaker = "open"
        elif broken:
            breaker = "partly"
        elif held is not None and held.busy_until > now:
            breaker = "busy"
        return ReplicaLive(
            name=name,
            pool=watch.pool.name,
            engine=watch.facts.engine,
            state=watch.state,
            running=0 if held is None else held.running,
            slots=watch.facts.slots,
            gpu=None if held is None else held.gpu,
            memory=None if held is None else held.memory,
            queue=None if held is None else held.queue,
            models=sorted(watch.facts.models),
            breaker=breaker,
            broken=broken,
        )
