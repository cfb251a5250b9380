"""The production core on a virtual clock, with recorded requests on the fleet they ran on.

As the actor does it: what happens goes in as events, what the core decides is carried out.
Cards are slots that are held for as long as was measured.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush

from metering.core.facts import BusinessFacts
from scheduler.core import events
from scheduler.core.decisions import Decision, Dispatch, Preempt, Reject, WakeAt
from scheduler.core.fleet import FleetSnapshot
from scheduler.core.policy import Policy
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import Resume, Ticket

from .recording import PROMPT_PER_OUTPUT, Asked, Fit, Recording

MS = 1_000_000
SECOND = 1000 * MS
NEVER = 1 << 63
# From being told to stop until the slot is free.
STOP_NS = 5_000_000
MEASURE_NS = 3 * SECOND
READINGS = 3
# A run ends so long after its last arrival, whatever still waits.
DRAIN_NS = 600 * SECOND
WATCH_EVERY = 500

# What is on the heap, as (time, kind, request, attempt). Of one time, ends come first.
FINISH, STOPPED, SEEN, LEAVE, CHANGE, MEASURE, WAKE = range(7)


@dataclass(slots=True)
class Told:
    """What became of one request: ``wait`` (ns) until its first slot or its refusal (-1: it
    never got so far), why it was refused, when it ended (ns; 0: it did not)."""

    lane: int
    wait: int = -1
    refused: str = ""
    ended: int = 0
    preempted: int = 0


@dataclass(slots=True)
class _Run:
    """One attempt that holds a slot. ``left`` is the slot time (ns) it needs, ``done`` the
    output tokens it goes on from."""

    attempt: int
    replica: str
    began: int
    left: int
    done: int


class Replay:
    """One run. ``level`` gives each request its level under ``policy``."""

    def __init__(
        self,
        recording: Recording,
        fitted: Fit,
        *,
        fleet: FleetSnapshot,
        businesses: Mapping[str, BusinessFacts],
        policy: Policy,
        level: Callable[[Asked], int],
    ) -> None:
        self.told: list[Told] = []
        self._requests = recording.requests
        self._recording = recording
        self._fit = fitted
        self._fleet = fleet
        self._policy = policy
        self._businesses = businesses
        self._level = level
        self.now = recording.requests[0].arrived if recording.requests else recording.begin
        self._state = State(policy=policy, now=self.now)
        self._heap: list[tuple[int, int, int, int]] = []
        self._runs: dict[int, _Run] = {}
        self._produced: dict[int, int] = {}
        self._busy = dict.fromkeys(fleet.replicas, 0)
        self._touched = dict.fromkeys(fleet.replicas, self.now)
        self._running = dict.fromkeys(fleet.replicas, 0)
        self._readings: dict[str, deque[float]] = {
            name: deque(maxlen=READINGS) for name in fleet.replicas
        }
        self._wake = 0
        self._open = 0
        for facts in businesses.values():
            self._step(events.QuotaChanged(facts.name, facts))
        self._begin_fleet()
        self._prime()

    def run(self, watch: Callable[[float], None] = lambda _: None) -> list[Told]:
        """Run to the end; returns what became of each request, by index. ``watch`` is told
        the share of arrivals that have come."""
        heap, requests = self._heap, self._requests
        handlers = (
            self._finish,
            self._stopped,
            self._seen,
            self._leave,
            self._change,
            self._measure,
            self._woken,
        )
        index, count = 0, len(requests)
        limit = (requests[-1].arrived if count else self.now) + DRAIN_NS
        heappush(heap, (self.now + MEASURE_NS, MEASURE, 0, 0))
        while index < count or self._open:
            following = requests[index].arrived if index < count else NEVER
            if following < heap[0][0]:
                self.now = following
                self._arrive(index)
                index += 1
                if index % WATCH_EVERY == 0:
                    watch(index / count)
                continue
            at, kind, a, b = heappop(heap)
            if at > limit:
                break
            self.now = at
            handlers[kind](a, b)
        return self.told

    def _prime(self) -> None:
        """What the scheduler had learned before the window."""
        samples = tuple(
            events.Sample(
                asked.business,
                asked.model,
                asked.replica,
                asked.prompt if asked.generative else 0,
                asked.output if asked.generative else 0,
                0,
                asked.first,
                asked.service,
            )
            for asked in self._requests
            if asked.service and not asked.left
        )
        self._step(events.Recalled(samples))

    def _begin_fleet(self) -> None:
        down = {each.replica: each.ready for each in self._recording.changes if each.at <= self.now}
        for name in self._fleet.replicas:
            self._tell(name, ready=down.get(name, True))
        for place, change in enumerate(self._recording.changes):
            if change.at > self.now and change.replica in self._fleet.replicas:
                heappush(self._heap, (change.at, CHANGE, place, 0))

    def _tell(self, name: str, *, ready: bool) -> None:
        facts = self._fleet.replicas[name]
        self._step(events.ReplicaChanged(facts, self._fleet.pools[facts.pool], ready, 1))

    def _arrive(self, index: int) -> None:
        asked = self._requests[index]
        level = self._level(asked)
        told = Told(self._policy.lane_of(level))
        self.told.append(told)
        self._open += 1
        if asked.left and not asked.dispatched:
            heappush(self._heap, (asked.finished, LEAVE, index, 0))
        generative = asked.generative
        ticket = Ticket(
            str(index),
            asked.business,
            asked.model,
            told.lane,
            level,
            self.now,
            asked.prompt if generative else 0,
            0,
            self._budget(asked, told.lane),
            Resume.CONTINUE if asked.continues else Resume.RESTART,
            realtime=self._realtime(asked.business),
            # What others took from it is in its time already: no first token is waited for longer
            # than it should take, lest slots stay free that in truth made the others quicker.
            streamed=False,
        )
        self._step(events.Arrived(ticket))

    def _realtime(self, business: str) -> bool:
        """Whether somebody waits for its answers, as far as its own profile says it."""
        facts = self._businesses.get(business)
        return facts is not None and facts.realtime == "high"

    def _budget(self, asked: Asked, lane: int) -> int | None:
        """As the gateway gives it (gateway/admission.py), but for a caller's own, which no row
        has."""
        facts = self._businesses.get(asked.business)
        millis = None if facts is None else facts.latency_budget_ms
        if millis is None or lane > self._policy.lane_of(asked.base):
            millis = self._policy.queue(lane).latency_budget_ms
        return None if millis is None else millis * MS

    def _step(self, event: events.Event) -> None:
        for decision in step(self._state, event, self.now):
            self._do(decision)

    def _do(self, decision: Decision) -> None:
        if isinstance(decision, Dispatch):
            self._start(int(decision.request), decision.attempt, decision.replica)
        elif isinstance(decision, WakeAt):
            self._wake += 1
            heappush(self._heap, (max(decision.at, self.now), WAKE, self._wake, 0))
        elif isinstance(decision, Reject):
            told = self.told[int(decision.request)]
            told.refused, told.ended = decision.reason.value, self.now
            if told.wait < 0 and decision.reason.value == "queue_timeout":
                told.wait = self.now - self._requests[int(decision.request)].arrived
            self._open -= 1
        elif isinstance(decision, Preempt):
            index = int(decision.request)
            heappush(self._heap, (self.now + STOP_NS, STOPPED, index, decision.attempt))

    def _start(self, index: int, attempt: int, replica: str) -> None:
        asked, told = self._requests[index], self.told[index]
        if told.wait < 0:
            told.wait = self.now - asked.arrived
        whole, done = self._fit.service(asked, replica), self._produced.get(index, 0)
        left = whole
        if done:
            share = min(1.0, done / max(1, asked.output))
            again = (asked.prompt + done) / PROMPT_PER_OUTPUT
            left = round(whole * (1 - share) + again * self._fit.unit(asked.model, replica))
        self._runs[index] = _Run(attempt, replica, self.now, max(1, left), done)
        self._count(replica, 1)
        heappush(self._heap, (self.now + max(1, left), FINISH, index, attempt))
        if asked.first:
            heappush(self._heap, (self.now + min(asked.first, left), SEEN, index, attempt))

    def _count(self, replica: str, change: int) -> None:
        running = self._running[replica]
        self._busy[replica] += running * (self.now - self._touched[replica])
        self._touched[replica] = self.now
        self._running[replica] = running + change

    def _held(self, index: int, attempt: int) -> _Run | None:
        run = self._runs.get(index)
        return run if run is not None and run.attempt == attempt else None

    def _finish(self, index: int, attempt: int) -> None:
        run = self._held(index, attempt)
        if run is None:
            return
        del self._runs[index]
        self._count(run.replica, -1)
        asked = self._requests[index]
        self.told[index].ended = self.now
        self._open -= 1
        output = asked.output if asked.generative else 0
        first = run.began + asked.seen if asked.seen else 0
        self._step(events.Finished(str(index), attempt, asked.prompt, output, first=first))

    def _stopped(self, index: int, attempt: int) -> None:
        run = self._held(index, attempt)
        if run is None:
            return
        asked, produced = self._requests[index], 0
        if asked.continues and self.now - run.began > asked.first:
            share = (self.now - run.began) / run.left
            produced = run.done + int((asked.output - run.done) * min(1.0, share))
        del self._runs[index]
        self._count(run.replica, -1)
        self._produced[index] = produced
        self.told[index].preempted += 1
        self._step(events.Yielded(str(index), attempt, produced))

    def _seen(self, index: int, attempt: int) -> None:
        if self._held(index, attempt) is not None:
            self._step(events.Progress(str(index), attempt, 1))

    def _leave(self, index: int, _: int) -> None:
        """Its caller gave up here. One that runs meanwhile is taken to stay."""
        told = self.told[index]
        if index not in self._runs and not told.ended and told.wait < 0:
            told.ended = self.now
            self._open -= 1
            self._step(events.Cancelled(str(index)))

    def _change(self, place: int, _: int) -> None:
        change = self._recording.changes[place]
        if not change.ready:
            lost = [index for index, run in self._runs.items() if run.replica == change.replica]
            for index in lost:
                run = self._runs.pop(index)
                self._count(run.replica, -1)
                fault = events.Fault.UNREACHABLE
                self._step(events.Failed(str(index), run.attempt, fault))
        self._tell(change.replica, ready=change.ready)

    def _measure(self, _: int, __: int) -> None:
        for name, facts in self._fleet.replicas.items():
            self._count(name, 0)
            seen = self._readings[name]
            seen.append(self._busy[name] / (MEASURE_NS * max(1, facts.slots)))
            self._busy[name] = 0
            mean = min(1.0, sum(seen) / len(seen))
            self._step(events.Measured(name, mean, mean, 0))
        heappush(self._heap, (self.now + MEASURE_NS, MEASURE, 0, 0))

    def _woken(self, version: int, _: int) -> None:
        if version == self._wake:
            self._step(events.Tick())
