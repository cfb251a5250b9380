"""The running scheduler and gateway of one process: their parts, started and stopped in order."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from channels.layers import BaseChannelLayer

from .actor import Scheduler
from .addresses import Network, allows
from .budgets import Budgets
from .canary.reporter import Reporter
from .core.fleet import FleetSnapshot
from .dates import DatedDecisions, DatedUsage
from .decision_log.row import DecisionRow
from .escalations import Escalations
from .gateway.app import Gateway
from .gateway.upstream import Upstream
from .gpu_time import GpuTime
from .health import Health
from .kv_events import KvEvents
from .limits import Limits
from .metrics import Metrics
from .ports import (
    AnswerStore,
    AuditSink,
    Books,
    Changes,
    Clock,
    CredentialSource,
    DecisionSink,
    FleetSource,
    PolicySource,
    Recall,
    Scaler,
    UsageSink,
)
from .priming import Priming
from .probes import Probes
from .probing.prober import Prober
from .publisher import Publisher
from .scaling import cards_told, with_cards
from .scaling.steering import Steering
from .stats import Stats
from .warmup import WarmUp
from .worker import Worker

log = logging.getLogger(__name__)

# A process starts in a third of a second, and in many where all others start too.
PROBER_UP_S = 30.0
FIRST_PROBES_S = 3.0
TOPICS = frozenset({"access", "fleet", "policy"})


class Topics:
    """What has been loaded, one topic at a time."""

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.complete = asyncio.Event()
        self.lock = asyncio.Lock()

    def note(self, topic: str) -> None:
        """It is there."""
        self.loaded.add(topic)
        if self.loaded >= TOPICS:
            self.complete.set()


class Runtime:
    """Built by the wiring from real ports, by tests from fakes. Lives on one event loop."""

    def __init__(
        self,
        *,
        clock: Clock,
        credentials: CredentialSource,
        fleet: FleetSource,
        policy: PolicySource,
        changes: Changes,
        recall: Recall,
        usage: UsageSink,
        books: Books,
        answers: AnswerStore,
        audit: AuditSink,
        decisions: DecisionSink,
        scaler: Scaler,
        layer: BaseChannelLayer,
        pepper: bytes,
        max_body: int,
        metrics_token: str,
        networks: Sequence[Network],
    ) -> None:
        self._credentials, self._fleet, self._policy = credentials, fleet, policy
        self._usage, self._decisions = DatedUsage(usage, clock), DatedDecisions(decisions, clock)
        self._clock, self._changes, self.scaler = clock, changes, scaler
        self.stats, self._gpu_time = Stats(Metrics()), GpuTime(clock, books)
        self.scheduler = Scheduler(clock, self.stats, self._decisions, self._gpu_time)
        self._budgets = Budgets(Limits(clock, books.month), books, self._usage, clock)
        self._escalations = Escalations(audit)
        self.gateway = Gateway(
            scheduler=self.scheduler,
            upstream=Upstream(allows(networks)),
            usage=self._usage,
            limiter=self._budgets.limits,
            answers=answers,
            escalations=self._escalations,
            clock=clock,
            stats=self.stats,
            pepper=pepper,
            max_body=max_body,
            metrics_token=metrics_token,
        )
        self.prober = Prober(networks)
        self.health, self.probes, self.kv_events = self._watchers(allows(networks))
        self._steering, self._publisher = Steering(self.scaler), self._published(layer)
        self._canary = Reporter(self.gateway.rules, policy)
        self._worker = Worker(layer, self.reload)
        self._priming = Priming(recall, self.scheduler.post)
        self._tasks: list[asyncio.Task[None]] = []
        self._topics, self._known_fleet = Topics(), FleetSnapshot()
        self._connect()

    def _published(self, layer: BaseChannelLayer) -> Publisher:
        heard = self.scheduler, self.health, self.stats, self._usage, self._clock
        return Publisher(*heard, layer)

    def _connect(self) -> None:
        """Who tells whom."""
        self.scheduler.on_trip = self.health.suspect
        self.scheduler.on_scale = self._steering.order
        self.scheduler.on_throttle = self._budgets.limits.throttle
        self.scaler.attach(self._cards_changed, self.scheduler.running_on)
        self.scheduler.on_forgotten = lambda: self._spawn(self._priming.run(), "estimates")
        self.gateway.before_metrics = self._publisher.gauges

    def _watchers(self, allowed: Callable[[str], bool]) -> tuple[Health, Probes, KvEvents]:
        health = Health(
            self.scheduler.set_replicas,
            self._seen,
            self.prober,
            heard=lambda url: self.gateway.heard.get(url, -math.inf),
            warm=WarmUp(
                self.gateway.upstream,
                lambda: self.gateway.fleet.models,
                lambda: self.gateway.policy.failover,
            ),
        )
        kv_events = KvEvents(self.scheduler.post, allowed=allowed)
        return health, Probes(self.scheduler.post, self.prober), kv_events

    async def start(self) -> None:
        """Load, probe, then be ready. Returns when the first round is through."""
        await self.gateway.start()
        self.prober.start()
        self._usage.start()
        self._decisions.start()
        self._spawn(self._changes.run(self.reload), "changes")
        self._spawn(self._priming.run(), "estimates")
        self._spawn(self._publisher.run(), "live frames")
        self._spawn(self._worker.run(), "scheduler channel")
        self._spawn(self._escalations.run(), "escalations")
        self._spawn(self._budgets.run(), "budgets")
        self._spawn(self._gpu_time.run(), "GPU time")
        self._spawn(self.gateway.repeats.run(), "kept answers")
        self._spawn(self.kv_events.run(), "KV cache events")
        self._spawn(self._canary.run(), "canary reports")
        self._spawn(self._become_ready(), "readiness")

    async def retire(self, grace: float) -> None:
        """Admit nobody any more; returns when what runs has ended, by itself or after
        ``grace`` seconds. May be begun before ``stop``, which then only waits for it."""
        await self.gateway.retire(grace)

    async def stop(self, grace: float) -> None:
        """Stop admitting, let streams end, then let go of everything. Nothing is lost."""
        await self.gateway.stop(grace)
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.scaler.close()
        await self.health.close()
        await self.prober.close()
        await self.kv_events.close()
        await self._escalations.flush()
        await self._gpu_time.flush()
        await self._canary.flush()
        await self._decisions.close()
        await self._usage.close()

    def _seen(self, name: str, state: str) -> None:
        now = self._clock.now()
        self.stats.replica_state(name, state, now)
        self._decisions.append(DecisionRow(now, "replica", "", replica=name, reason=state))

    async def reload(self, topic: str) -> None:
        """A topic changed: read it anew, off the loop, and put it to use. One at a time, so
        that what was read earlier never takes the place of what was read later."""
        async with self._topics.lock:
            await self._reload(topic)

    async def _reload(self, topic: str) -> None:
        gateway = self.gateway
        if topic == "access":
            gateway.access = await asyncio.to_thread(self._credentials.access)
            self.scheduler.set_access(gateway.access)
            await self._budgets.follow(gateway.access)
        elif topic == "fleet":
            self._known_fleet = await asyncio.to_thread(self._fleet.fleet)
            self._follow()
        elif topic == "policy":
            version, policy = await asyncio.to_thread(self._policy.policy)
            gateway.rules.follow(version, policy, await asyncio.to_thread(self._policy.trial))
            self.probes.set_policy(policy.placement)
            self.health.policy = policy
            self.scheduler.set_policy(policy)
            if topic not in self._topics.loaded:
                self._topics.note(topic)
                self._follow()
        self._topics.note(topic)

    def _follow(self) -> None:
        """The fleet as it was read, and the cards in use beside it."""
        cards = self.scaler.cards()
        fleet = self.gateway.fleet = with_cards(self._known_fleet, cards)
        self._budgets.limits.follow_fleet(sum(facts.gpus for facts in fleet.replicas.values()))
        if "policy" not in self._topics.loaded:
            return  # by whose rules replicas are judged
        self.health.watch(fleet)
        self.probes.watch(fleet)
        self.kv_events.watch(fleet)
        self.gateway.forget_heard({facts.url for facts in fleet.replicas.values()})
        self.scheduler.keep_replicas(fleet)
        self.scheduler.set_cards(cards_told(self._known_fleet, cards))

    def _cards_changed(self) -> None:
        self._follow()
        self._steering.again()

    async def _become_ready(self) -> None:
        await self._topics.complete.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PROBER_UP_S):
                await self.prober.up()
            async with asyncio.timeout(FIRST_PROBES_S):
                await self.health.first_round()
        self.gateway.ready = True
        log.info("ready: %d replicas known", len(self.gateway.fleet.replicas))

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_report)
        self._tasks.append(task)


def _report(task: asyncio.Task[None]) -> None:
    """A background task that ends by an error must be heard of."""
    if not task.cancelled() and task.exception() is not None:
        log.critical("background task %s ended", task.get_name(), exc_info=task.exception())
