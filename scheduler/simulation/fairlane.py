"""The production core as a Scheduler: what happens goes in, what it decides is done.

As the gateway's actor does it, with requests told by their index and time by the virtual
clock.
"""

from collections import deque

from scheduler.core.decisions import Decision, Dispatch, Preempt, Reason, Reject, WakeAt
from scheduler.core.estimates import PREFILL_PER_DECODE
from scheduler.core.events import (
    Arrived,
    Event,
    Failed,
    Fault,
    Finished,
    Measured,
    Progress,
    QuotaChanged,
    ReplicaChanged,
    Tick,
    Yielded,
)
from scheduler.core.fleet import ReplicaFacts
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import Resume, Ticket

from .scenario import ReplicaSpec
from .scheduling import Cluster, Outcome

# Readings of 3 s each in a mean of about 10 s.
READINGS = 3
OUTCOMES = {Reason.QUEUE_TIMEOUT: Outcome.TIMEOUT, Reason.UPSTREAM_ERROR: Outcome.FAILED}


class Fairlane:
    """Drives ``scheduler.core.step``."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.workload = cluster.workload
        scenario = self.workload.scenario
        self.state = State(policy=scenario.policy, seed=self.workload.seed)
        self._specs = scenario.replicas
        self._numbers = {spec.name: number for number, spec in enumerate(self._specs)}
        self._facts = [_facts(spec) for spec in self._specs]
        self._generations = [1] * len(self._specs)
        self._attempts: dict[int, int] = {}
        # Of running first attempts: the latency foretold, less the service, and both services.
        self._foretold: dict[int, tuple[int, int, int]] = {}
        self._readings: list[deque[float]] = [deque(maxlen=READINGS) for _ in self._specs]
        self._streams = scenario.arrivals
        self._generative = [model.facts.generative for model in scenario.models.values()]
        for name, tenant in scenario.tenants.items():
            self._step(QuotaChanged(name, tenant.facts))
        for replica in range(len(self._specs)):
            self._tell(replica, ready=True)

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
            realtime=self._streams[stream].realtime == "high",
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
        self._step(Finished(str(request), attempt, prompt, output))

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
        up = self.cluster.up(replica)
        # What comes back is a new process under the old name.
        self._generations[replica] += up
        self._tell(replica, ready=up)

    def measured(self, readings: list[tuple[float, float]]) -> None:
        """See Scheduler."""
        for replica, (busy, memory) in enumerate(readings):
            if self.cluster.up(replica):
                seen = self._readings[replica]
                seen.append(busy)
                gpu = sum(seen) / len(seen)
                self._step(Measured(self._specs[replica].name, gpu, memory, 0))

    def woken(self) -> None:
        """See Scheduler."""
        self._step(Tick())

    def closed(self) -> None:
        """See Scheduler."""

    def _tell(self, replica: int, *, ready: bool) -> None:
        spec = self._specs[replica]
        facts, generation = self._facts[replica], self._generations[replica]
        self._step(ReplicaChanged(facts, spec.pool, ready, generation))

    def _step(self, event: Event) -> None:
        for decision in step(self.state, event, self.cluster.now):
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
            outcome = OUTCOMES.get(decision.reason, Outcome.REFUSED)
            self.cluster.refuse(int(decision.request), outcome)
        elif isinstance(decision, Preempt):
            self.cluster.stop(int(decision.request))

    def _foretell(self, request: int, replica: str) -> tuple[int, int, int]:
        """What the core expects of a request that starts now (ns): the wait that it was let in
        with, the service, and the service if the length of its answer were known."""
        held, estimates = self.state.requests[str(request)], self.state.estimates
        service = estimates.foreseen(held.ticket, replica)
        unit = estimates.per_unit(held.ticket.model, replica)
        known, output = service, self.workload.output[request]
        if output and unit:
            known = int(unit * (output + held.ticket.prompt / PREFILL_PER_DECODE))
        return held.least, service, known


def _facts(spec: ReplicaSpec) -> ReplicaFacts:
    return ReplicaFacts(
        name=spec.name,
        url="",
        engine="",
        pool=spec.pool.name,
        slots=spec.hardware.slots,
        gpus=spec.hardware.gpus,
        kv_tokens=spec.hardware.kv_tokens,
        models={name: name for name in spec.models},
    )
