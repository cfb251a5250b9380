"""The production core as a Scheduler: what happens goes in, what it decides is done.

As the gateway's actor does it, with requests told by their index and time by the virtual
clock.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from scheduler.core.decisions import (
    Decision,
    Dispatch,
    Preempt,
    Reason,
    Reject,
    Scale,
    WakeAt,
)
from scheduler.core.events import (
    Arrived,
    CardsChanged,
    Event,
    Failed,
    Fault,
    Finished,
    Measured,
    Progress,
    QuotaChanged,
    ReplicaChanged,
    ReplicaRemoved,
    Tick,
    Yielded,
)
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import Resume, Ticket
from scheduler.scaling.cards import CardState

from .rack import facts
from .scheduling import Cluster, Outcome

# Readings of 3 s each in a mean of about 10 s.
READINGS = 3
OUTCOMES = {
    Reason.QUEUE_TIMEOUT: Outcome.TIMEOUT,
    Reason.UPSTREAM_ERROR: Outcome.FAILED,
    Reason.QUEUE_FULL: Outcome.QUEUE_FULL,
    Reason.CONCURRENCY_EXCEEDED: Outcome.CONCURRENCY,
    Reason.NO_CAPACITY: Outcome.NO_CAPACITY,
    Reason.TENANT_SUSPENDED: Outcome.SUSPENDED,
    Reason.LATENCY_BUDGET: Outcome.LATENCY_BUDGET,
    Reason.BACKPRESSURE: Outcome.BACKPRESSURE,
}


class Fairlane:
    """Drives ``scheduler.core.step``."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.workload = cluster.workload
        scenario = self.workload.scenario
        self.state = State(policy=scenario.policy, seed=self.workload.seed)
        self._specs = scenario.cards()
        self._numbers = {spec.name: number for number, spec in enumerate(self._specs)}
        self._cards = CardsChanged(())
        self._attempts: dict[int, int] = {}
        # Of running first attempts: the latency foretold, less the service, and both services.
        self._foretold: dict[int, tuple[int, int, int]] = {}
        self._readings: list[deque[float]] = [deque(maxlen=READINGS) for _ in self._specs]
        self._read = [1] * len(self._specs)
        self._streams = scenario.arrivals
        self._generative = [model.facts.generative for model in scenario.models.values()]
        for name, tenant in scenario.tenants.items():
            self._step(QuotaChanged(name, tenant.facts))
        for replica in range(len(scenario.replicas)):
            self.changed(replica)

    def arrived(self, request: int) -> None:
        """See Scheduler."""
        workload = self.workload
        model, stream = workload.model[request], workload.stream[request]
        level = workload.level[request]
        generative = self._generative[model]
        ticket = Ticket(
            str(request),
            workload.businesses[workload.business[request]],
            workload.models[model],
            workload.lane[request],
            level,
            self.cluster.now,
            workload.prompt[request],
            self._streams[stream].max_tokens if generative else 0,
            workload.budgets[stream][level] or None,
            Resume.CONTINUE if generative else Resume.RESTART,
            session=str(talk) if (talk := workload.conversation[request]) >= 0 else "",
            realtime=self._streams[stream].realtime == "high",
            blocks=workload.blocks(request, workload.prompt[request]),
        )
        self._step(Arrived(ticket))

    def finished(self, request: int, replica: int) -> None:
        """See Scheduler."""
        workload, attempt = self.workload, self._attempts.pop(request)
        prompt, output = workload.prompt[request], workload.output[request]
        foretold = self._foretold.pop(request, None)
        if foretold is not None:
            wait, service, known = foretold
            self.cluster.foretold(request, service, known, wait + service)
        cached = self.cluster.cached(request)
        self._step(Finished(str(request), attempt, prompt, output, cached=cached))

    def progressed(self, request: int, tokens: int) -> None:
        """See Scheduler."""
        self._step(Progress(str(request), self._attempts[request], tokens))

    def stopped(self, request: int, replica: int, produced: int) -> None:
        """See Scheduler."""
        self._step(Yielded(str(request), self._attempts.pop(request), produced))

    def lost(self, request: int, replica: int) -> None:
        """See Scheduler."""
        self._step(Failed(str(request), self._attempts.pop(request), Fault.UNREACHABLE))

    def changed(self, replica: int) -> None:
        """See Scheduler."""
        spec, state = self._specs[replica], self.cluster.state(replica)
        cards = CardsChanged(self.cluster.idle_cards())
        if cards != self._cards:
            self._cards = cards
            self._step(cards)
        if state in {CardState.IDLE, CardState.STARTING}:
            self._step(ReplicaRemoved(spec.name))
            return
        held = [self.workload.models[model] for model in self.cluster.holds(replica)]
        seen = replace(facts(spec, held), draining=state is CardState.DRAINING)
        ready, generation = self.cluster.up(replica), self.cluster.generation(replica)
        self._step(ReplicaChanged(seen, spec.pool, ready, generation))

    def measured(self, readings: list[tuple[float, float]]) -> None:
        """See Scheduler."""
        for replica, (busy, memory) in enumerate(readings):
            if self.cluster.up(replica):
                seen = self._readings[replica]
                if self.cluster.generation(replica) != self._read[replica]:
                    # Another process; it knows nothing of what ran before.
                    self._read[replica] = self.cluster.generation(replica)
                    seen.clear()
                seen.append(busy)
                gpu = sum(seen) / len(seen)
                self._step(Measured(self._specs[replica].name, gpu, memory, 0))

    def woken(self) -> None:
        """See Scheduler."""
        self._step(Tick())

    def closed(self) -> None:
        """See Scheduler."""

    def stepped(self, event: Event, decisions: Sequence[Decision]) -> None:
        """The state has taken the event in, and these decisions are about to be carried out."""

    def _step(self, event: Event) -> None:
        decisions = step(self.state, event, self.cluster.now)
        self.stepped(event, decisions)
        for decision in decisions:
            self._do(decision)

    def _do(self, decision: Decision) -> None:
        if isinstance(decision, Dispatch):
            request = int(decision.request)
            self._attempts[request] = decision.attempt
            if decision.attempt == 1:
                self._foretold[request] = self._foretell(request, decision.replica)
            self.cluster.start(request, self._numbers[decision.replica])
        elif isinstance(decision, WakeAt):
            self.cluster.wake_at(decision.at)
        elif isinstance(decision, Reject):
            self.cluster.refuse(int(decision.request), OUTCOMES[decision.reason])
        elif isinstance(decision, Preempt):
            self.cluster.stop(int(decision.request))
        elif isinstance(decision, Scale):
            self.cluster.steer(decision)

    def _foretell(self, request: int, replica: str) -> tuple[int, int, int]:
        """What the core expects of a request that starts now (ns): the wait that it was let in
        with, the service, and the service if the length of its answer were known."""
        held, estimates = self.state.requests[str(request)], self.state.estimates
        running = self.state.replicas[replica].running
        service = estimates.foreseen(held.ticket, replica, running)
        output = self.workload.output[request]
        known = estimates.foreseen(held.ticket, replica, running, output)
        return held.least, service, known
