"""The one task that owns the scheduler's state.

Gateways post events and await what becomes of their calls; nothing else touches the
state, so there are no locks. An event is stepped as it is posted, or behind those that are
being stepped, so that a request whose slot is free waits for no turn of the loop. Should a
step raise, its request fails alone and the state is rebuilt from the calls that gateways
hold. Should somebody raise who is told of a decision, the others are carried out all the same.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ParamSpec

from metering.core.facts import AccessSnapshot

from .calls import Call, Placed, Refusal
from .core import events
from .core.decisions import (
    Adjust,
    Decision,
    Degrade,
    Dispatch,
    Kind,
    Notice,
    Preempt,
    Promote,
    Reject,
    Scale,
    Throttle,
    Trip,
    WakeAt,
)
from .core.events import Event, Fault, request_of
from .core.fleet import CardFacts, FleetSnapshot
from .core.policy import Policy
from .core.state import State
from .core.step import step
from .core.ticket import Ticket
from .decision_lines import promote_line
from .decision_log import Recorder, Why
from .gpu_time import GpuTime
from .guard import shielded
from .patience import Patience
from .ports import Clock, DecisionSink
from .rescue import Rescue, Told
from .stats import Stats

log = logging.getLogger(__name__)
P = ParamSpec("P")
UNMEASURED = "a request's GPU time is not measured"


class Scheduler:
    """Inbox, core state, and the calls that are open. Lives on one event loop."""

    def __init__(
        self, clock: Clock, stats: Stats, decisions: DecisionSink, gpu_time: GpuTime
    ) -> None:
        self.stats = stats
        self.gpu_time = gpu_time
        self._patience = Patience()
        self._rescue = Rescue()
        self._recorder = Recorder(decisions, self._preemption_over)
        self.state = State()
        self.calls: dict[str, Call] = {}
        self.on_trip: Callable[[str], None] = lambda name: None
        self.on_scale: Callable[[Scale], None] = lambda scale: None
        self.on_throttle: Callable[[Throttle], None] = lambda throttle: None
        self.on_forgotten: Callable[[], None] = lambda: None
        self._clock = clock
        self._inbox: deque[Event] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining = False
        self._timer: asyncio.TimerHandle | None = None
        self._fleet: dict[str, events.ReplicaChanged] = {}
        self._quotas: dict[str, events.QuotaChanged] = {}
        self._cards = events.CardsChanged(())

    # What gateways call.

    def open(self, ticket: Ticket, why: Why | None = None) -> Call:
        """Ask for a slot; the call's ``placed`` tells what became of it. ``why`` says how the
        request came to its level, for the decision log."""
        call = Call(ticket, self, why)
        self.calls[ticket.id] = call
        self.post(events.Arrived(ticket))
        return call

    def failed(self, call: Call, fault: Fault, produced: int = 0) -> None:
        """The call's attempt broke off and may be made again: have another or be refused."""
        self._leave(call)
        call.note_failure(fault)
        call.renew(self._clock.now(), produced)
        self.post(events.Failed(call.ticket.id, call.attempt, fault, produced))

    def yielded(self, call: Call, produced: int, *, saved: bool = False) -> None:
        """The call's attempt has stopped for another request. ``saved``: its state is kept."""
        now = self._clock.now()
        self._note(self._tell, call, saved=saved)
        self._note(self._recorder.yielded, call, produced, now)
        self._leave(call)
        call.renew(now, produced)
        self.post(events.Yielded(call.ticket.id, call.attempt, produced))

    def progress(self, call: Call, tokens: int) -> None:
        """The call's attempt has made so many output tokens."""
        call.seen = max(call.seen, tokens)
        self.post(events.Progress(call.ticket.id, call.attempt, tokens))

    def close(self, call: Call) -> float:
        """The call is over, served or given up. Returns its GPU-seconds. Idempotent."""
        if self.calls.pop(call.ticket.id, None) is None:
            return call.gpu_seconds
        now = self._clock.now()
        self._note(self._recorder.closed, call, now)
        if call.whole and call.attempt == 1:
            self._note(self.stats.foretold, call, now)
        self._leave(call)
        if call.replica is None:
            self.post(events.Cancelled(call.ticket.id))
        else:
            self.post(call.end())
        return call.gpu_seconds

    # What the rest of the process calls.

    def set_policy(self, policy: Policy) -> None:
        """Other rules from now on."""
        self.post(events.PolicyChanged(policy))

    def set_access(self, access: AccessSnapshot) -> None:
        """Other limits from now on; only what differs is posted."""
        for name, facts in access.businesses.items():
            change = events.QuotaChanged(name, facts)
            if self._quotas.get(name) != change:
                self._quotas[name] = change
                self.post(change)
        for name in self._quotas.keys() - access.businesses.keys():
            del self._quotas[name]
            self.post(events.QuotaChanged(name, None))

    def set_replica(self, change: events.ReplicaChanged) -> None:
        """A replica is as told from now on."""
        self.set_replicas([change])

    def set_replicas(self, changes: Sequence[events.ReplicaChanged]) -> None:
        """Several are, and the fleet is laid out anew once."""
        for left, change in enumerate(changes, 1 - len(changes)):
            facts = change.facts
            self._fleet[facts.name] = change
            self.gpu_time.known(facts.name, change.generation, facts.gpus)
            self.post(replace(change, more=left < 0))

    def keep_replicas(self, fleet: FleetSnapshot) -> None:
        """Drop the replicas that the fleet names no more."""
        gone = self._fleet.keys() - fleet.replicas.keys()
        for left, name in enumerate(gone, 1 - len(gone)):
            del self._fleet[name]
            self.gpu_time.gone(name)
            self.post(events.ReplicaRemoved(name, more=left < 0))

    def set_cards(self, cards: tuple[CardFacts, ...]) -> None:
        """These cards may be put to use, or are."""
        change = events.CardsChanged(cards)
        if change != self._cards:
            self._cards = change
            self.post(change)

    def is_up(self, name: str, generation: int) -> bool:
        """Whether what runs on this process of a replica may be expected to go on: not when its
        probes fail, or another process has taken its place. One that left the fleet is up."""
        found = self.state.replicas.get(name)
        return found is None or (found.ready and found.generation == generation)

    def running_on(self, name: str) -> int:
        """How many requests hold a slot of the replica, by our own count."""
        found = self.state.replicas.get(name)
        return found.running if found is not None else 0

    def post(self, event: Event) -> None:
        """Step an event, at once or behind those that are being stepped."""
        self._inbox.append(event)
        if self._draining:
            return
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._draining = True
        try:
            self._drain()
        finally:
            self._draining = False

    # The owner of the state.

    def _drain(self) -> None:
        while self._inbox:
            event = self._inbox.popleft()
            now = self._clock.now()
            try:
                decisions = step(self.state, event, now)
            except Exception:  # a fault in the core must cost one request, not all of them
                log.exception("scheduler step failed on %s; rebuilding", type(event).__name__)
                self._rebuild(event)
                continue
            self._carry_out_all(decisions, now)
            if (
                isinstance(event, events.Failed | events.Yielded)
                and event.request not in self.state.requests
            ):
                self._refuse(event.request, Refusal("upstream_error", 1.0))

    def _carry_out_all(self, decisions: Sequence[Decision], now: int) -> None:
        """In order. One that cannot be carried out costs whom it is about, and nobody else."""
        for decision in decisions:
            try:
                self._carry_out(decision, now)
            except Exception:  # a fault of a driver, a gateway or ours: the others stand
                log.exception("%s was not carried out", decision)
                if isinstance(decision, Dispatch | Reject):
                    shielded("a caller was not told", self._give_up, decision.request)

    def _give_up(self, request: str) -> None:
        """Nothing can be done for the request any more."""
        self._inbox.append(events.Cancelled(request))
        call = self.calls.get(request)
        if call is not None:
            self._leave(call)
            self._refuse(request, Refusal("internal_error", None))

    def _carry_out(self, decision: Decision, now: int) -> None:
        if isinstance(decision, Dispatch):
            self._dispatch(decision, now)
        elif isinstance(decision, Reject):
            self._reject(decision, now)
        elif isinstance(decision, WakeAt):
            self._wake_at(decision.at, now)
        elif isinstance(decision, Preempt):
            self._preempt(decision, now)
        elif isinstance(decision, Promote):
            self._promote(decision, now)
        elif isinstance(decision, Adjust):
            call = self.calls.get(decision.ticket.id)
            if call is not None:
                call.ticket, call.moved = decision.ticket, decision.by
        elif isinstance(decision, Degrade):
            self._degrade(decision, now)
        else:
            self._steer(decision, now)

    def _steer(self, decision: Notice | Scale | Throttle | Trip, now: int) -> None:
        """What is about replicas, pools or businesses."""
        if isinstance(decision, Notice):
            self._notice(decision, now)
        elif isinstance(decision, Scale):
            cause = f"to {decision.desired}, {decision.ready} ready: {decision.cause}"
            self._notice(Notice(Kind.SCALED, decision.pool, cause, decision.desired), now)
            self.on_scale(decision)
        elif isinstance(decision, Throttle):
            self.on_throttle(decision)
        else:
            known = self._fleet.get(decision.replica)
            if known is not None and known.generation == decision.generation:
                # Its watcher says so again only when it is well.
                self._fleet[decision.replica] = replace(known, ready=False)
            self._note(self.stats.tripped, decision.replica, now)
            self.on_trip(decision.replica)

    def _dispatch(self, decision: Dispatch, now: int) -> None:
        call = self.calls.get(decision.request)
        if call is None:
            # Its caller has left: the Cancelled behind it frees the slot.
            return
        name, generation = decision.replica, decision.generation
        facts = self.state.replicas[name].facts
        if decision.attempt == 1:
            self._note(self._foretell, call, name, now)
        call.seat = shielded(UNMEASURED, self.gpu_time.sit, name, generation, facts.gpus, now)
        self._note(self.stats.dispatched, call.ticket, decision, now)
        self._note(self._recorder.dispatched, call, decision, now)
        call.resolve(Placed(facts, decision.attempt, generation, decision.waited, now))

    def _foretell(self, call: Call, replica: str, now: int) -> None:
        """Keep what is expected of a first attempt, to be held against what comes."""
        request = self.state.requests.get(call.ticket.id)
        call.began, call.foreseen_wait = now, 0 if request is None else request.least
        known = self.state.replicas.get(replica)
        running = 0.0 if known is None else float(known.running)
        call.foreseen = self.state.estimates.foreseen(call.ticket, replica, running)

    def _preempt(self, decision: Preempt, now: int) -> None:
        call = self.calls.get(decision.request)
        if call is None or call.attempt != decision.attempt:
            return
        call.stopping, call.stopped = decision, now
        call.preempted += 1
        self._note(self.stats.preempted, call, decision, now)
        self._note(self._recorder.preempted, call, decision, now)
        call.on_preempt()

    def _tell(self, call: Call, *, saved: bool) -> None:
        """The line for operators, once it is known what could be saved: what ends by itself
        before it has stopped was not preempted."""
        decision = call.stopping
        if decision is not None:
            gaining = self.calls.get(decision.beneficiary)
            log.info(call.give_way(decision, gaining, saved=saved))

    def _preemption_over(self, replica: str, outcome: str) -> None:
        held = self.state.replicas.get(replica)
        self.stats.metrics.preemption(held.pool.name if held is not None else "", outcome)

    def _promote(self, decision: Promote, now: int) -> None:
        call = self.calls.get(decision.request)
        if call is None:
            return
        call.promoted = True
        log.warning(promote_line(decision.request, call.ticket.lane))
        self._note(self.stats.promoted, call, decision, now)
        self._note(self._recorder.promoted, call, decision, now)

    def _degrade(self, decision: Degrade, now: int) -> None:
        call = self.calls.get(decision.request)
        if call is None:
            return
        self._note(self.stats.degraded, call, decision, now)
        self._note(self._recorder.degraded, call, decision, now)
        call.ticket = replace(call.ticket, model=decision.model, lighter=())

    def _notice(self, notice: Notice, now: int) -> None:
        level = logging.INFO if notice.kind is Kind.SCALED else logging.WARNING
        log.log(level, "%s %s: %s", notice.name, notice.kind.value, notice.cause)
        self._note(self.stats.noticed, notice, now)
        self._note(self._recorder.noticed, notice, now)

    def _note(self, tell: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell who only looks on. A fault of theirs must cost nobody a slot or an answer."""
        shielded("a decision was not noted", tell, *args, **kwargs)

    def _reject(self, decision: Reject, now: int) -> None:
        call = self.calls.get(decision.request)
        if call is not None:
            queued = self.state.lane_queued[call.ticket.lane]
            self._note(self._recorder.refused, call, decision, queued, now)
            wait = self._patience.told(self.state, call.ticket, decision)
            self._refuse(decision.request, Refusal(decision.reason.value, wait))

    def _refuse(self, request: str, refusal: Refusal) -> None:
        call = self.calls.pop(request, None)
        if call is not None:
            call.resolve(refusal)

    def _leave(self, call: Call) -> None:
        seat, call.seat = call.seat, None
        if seat is not None:
            call.gpu_seconds += shielded(UNMEASURED, self.gpu_time.rise, seat) or 0.0

    def _wake_at(self, at: int, now: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        assert self._loop is not None
        self._timer = self._loop.call_later(max(0.0, (at - now) / 1e9), self._wake, at)

    def _wake(self, at: int) -> None:
        """The loop's clock and ours are two: a Tick that came too early would find nothing
        due, and nothing would wake us again."""
        now = self._clock.now()
        if now < at:
            self._wake_at(at, now)
        else:
            self.post(events.Tick())

    def _rebuild(self, event: Event) -> None:
        """Start anew from what is known outside the state that failed."""
        now = self._clock.now()
        culprit = self.calls.pop(request_of(event), None)
        if culprit is not None:
            self._note(self._recorder.closed, culprit, now)
            self._leave(culprit)
            culprit.resolve(Refusal("internal_error", None))
        told: list[Told] = [*self._fleet.values(), *self._quotas.values(), self._cards]
        # What comes behind the event that failed is stepped as ever.
        ahead = {request_of(e) for e in self._inbox if isinstance(e, events.Arrived)}
        calls = [call for name, call in self.calls.items() if name not in ahead]
        policy = event.policy if isinstance(event, events.PolicyChanged) else self.state.policy
        found = self._rescue.rebuild(self.state, policy, told, calls, now)
        self.state = found.state
        for call in found.lost:
            self._give_up(call.ticket.id)
        if found.clean:
            self._note(self.on_forgotten)
        self._carry_out_all(found.decisions, now)
