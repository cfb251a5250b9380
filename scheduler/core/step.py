"""``step``: one event in, decisions out.

Work-conserving throughout: after each step no request waits that could use a free slot of
its placement set, but for a replica kept free for a head of queue that needs more KV cache
than is free yet.
"""

from collections.abc import Callable
from typing import Any

from . import events
from .aside import give_up, miss
from .cards import reconcile
from .cold import tend
from .conduct import note_end
from .decisions import Decision, Reason, Reject
from .decisions import WakeAt as Wake
from .delay import end_delays
from .demand import note_arrival, renew_layout, turn
from .dispatch import fill, fill_all, fill_moved, fill_vacated, open_gates, release, start_or_queue
from .expiry import expire
from .feedback import adjusted, set_pace
from .learning import learn_from, note_pause, note_progress
from .membership import cards_changed, replica_changed, replica_removed, set_limits
from .outcomes import note_failed, note_finished
from .preempt import consider
from .pressure import look
from .rebuilding import adopt
from .recalling import recall
from .replica import Replica
from .request import QUEUED, YIELDING, Request
from .shares import forget_shares
from .state import State
from .victims import list_stoppable
from .waiting import end, enqueue, enqueue_ahead, line_up, next_wake, unqueue

MS = 1_000_000
SMOOTHING = 64


def step(state: State, event: events.Event, now: int) -> list[Decision]:
    """Apply one event at time ``now`` (ns; a clock that went back is held) to the state.

    Events about requests, attempts or replicas that are no more change nothing.
    """
    if now > state.now:  # noqa: PLR1730 - twice as fast as max, at every event
        state.now = now
    out: list[Decision] = []
    urgent = state.lane_queued[0]
    if state.now >= state.turn_at:
        turn(state, out)
        # What is laid out anew may have slots that those who wait could not use before.
        fill_all(state, out)
    HANDLERS[type(event)](state, event, out)
    if state.gates and state.gates[0][0] <= state.now:
        open_gates(state, out)
    state.look_again = 0
    queues = state.queues
    if queues.aside or queues.delays:
        _give_up(state)
    if (
        queues.vacated
        or state.pressure.holding
        or state.layout.bounded
        or (queues.moved and state.prefixes.caches)
    ):
        _fill_kept(state, urgent, out)
    if state.stoppable and (
        state.lane_queued[0] or (state.lane_queued[1] and state.policy.queues.P1.preempt)
    ):
        consider(state, out)
    if state.now >= state.plan_at or (
        state.now >= state.press_at and (state.lane_queued[0] or state.watching)
    ):
        _look(state, out)
    if state.news:
        out += state.news
        state.news.clear()
    wake = next_wake(state)
    if wake and wake != state.wake:
        out.append(Wake(wake))
    state.wake = wake
    return out


def _give_up(state: State) -> None:
    """End what was waited for long enough."""
    give_up(state)
    miss(state)
    if state.queues.delays and state.queues.delays[0][0] <= state.now:
        end_delays(state)


def _fill_kept(state: State, urgent: int, out: list[Decision]) -> None:
    """Fill what was kept for requests that need it no longer; so many of P0 waited before."""
    fill_vacated(state, out)
    fill_moved(state, out)
    if urgent and not state.lane_queued[0] and state.pressure.holding:
        fill_all(state, out)
    before = -1 if state.layout.bounded and state.policy.mode == "fifo" else len(out)
    while len(out) != before:
        # Who came first and was too large for a replica may have gone: to another, or for good.
        before = len(out)
        fill_all(state, out)


def _look(state: State, out: list[Decision]) -> None:
    """See how long P0 waits, what becomes of starts, and how many cards there should be."""
    waits = state.lane_queued[0] or state.watching
    if waits and state.now >= state.press_at and look(state, out):
        fill_all(state, out)
    tend(state, out)
    if state.now >= state.plan_at:
        reconcile(state, out)


def _arrived(state: State, event: events.Arrived, out: list[Decision]) -> None:
    ticket = event.ticket
    if ticket.id in state.requests:
        return
    state.sequence += 1
    state.arrivals += 1
    tenant = state.tenants.get(ticket.business) or state.tenant(ticket.business)
    conduct = tenant.conduct(ticket.model)
    if conduct.steps > 0:
        ticket = adjusted(state, conduct, ticket, out)
    answer = note_arrival(state, ticket)
    generative = ticket.prompt > 0 or ticket.output > 0
    request = Request(ticket, state.sequence, tenant, conduct, answer, generative, lane=ticket.lane)
    request.since = ticket.arrived
    start_or_queue(state, request, out)


def _adopted(state: State, event: events.Adopted, out: list[Decision]) -> None:
    adopt(state, event)


def _holder(state: State, request: str, attempt: int) -> Request | None:
    """The request, if this attempt of it holds a slot."""
    found = state.requests.get(request)
    if found is None or found.replica is None or found.attempt != attempt:
        return None
    return found


def _progress(state: State, event: events.Progress, out: list[Decision]) -> None:
    request = _holder(state, event.request, event.attempt)
    if request is not None and request.replica is not None:
        note_progress(state, request, request.replica, event.tokens)
        replica = request.replica
        if not request.seen and any(state.lane_queued):
            # What it kept the card busy with is over.
            request.seen = max(event.tokens, 1)
            if state.replicas.get(replica.facts.name) is replica:
                fill(state, replica, out)
        request.seen = max(request.seen, event.tokens, 1)


def _finished(state: State, event: events.Finished, out: list[Decision]) -> None:
    request = _holder(state, event.request, event.attempt)
    if request is None or request.replica is None:
        return
    held = state.now - request.dispatched
    state.service += (held - state.service) // SMOOTHING
    note_finished(state, request, request.replica, event, out)
    if not event.failed:
        learn_from(state, request, request.replica, event)
        request.conduct.ended += 1.0
        if event.output or request.ticket.budget is not None:
            note_end(state, request, event)
    replica = release(state, request)
    end(state, request)
    _freed(state, replica, request, out)


def _yielded(state: State, event: events.Yielded, out: list[Decision]) -> None:
    request = _holder(state, event.request, event.attempt)
    if request is None:
        return
    if request.phase is YIELDING and request.replica is not None:
        request.replica.note_stop(state.now - request.stopped)
    note_pause(state, request, event.produced)
    replica = release(state, request, lost=not event.produced)
    enqueue_ahead(state, request)
    if state.replicas.get(replica.facts.name) is replica:
        fill(state, replica, out)
    _freed(state, replica, request, out)
    # Its replica may have been replaced meanwhile: then a slot elsewhere may be free for it.
    fill_all(state, out)


def _failed(state: State, event: events.Failed, out: list[Decision]) -> None:
    request = _holder(state, event.request, event.attempt)
    if request is None:
        return
    request.produced = max(request.produced, event.produced)
    replica = release(state, request, lost=True)
    if note_failed(state, request, replica, event, out):
        enqueue(state, request)
    else:
        end(state, request)
        out.append(Reject(request.ticket.id, Reason.UPSTREAM_ERROR, state.service))
    # Without this replica others may be in the sets of those that wait.
    fill_all(state, out)
    _freed(state, replica, request, out)


def _cancelled(state: State, event: events.Cancelled, out: list[Decision]) -> None:
    request = state.requests.get(event.request)
    if request is None:
        return
    if request.running:
        replica = release(state, request)
        end(state, request)
        _freed(state, replica, request, out)
    else:
        end(state, request)


def _freed(state: State, replica: Replica, request: Request, out: list[Decision]) -> None:
    """A request has left a slot and a place in its business's running limit."""
    policy, tenant = state.policy, request.tenant
    # While the business was at its limit, slots may have come free that its requests could use.
    hidden = bool(tenant.queued) and tenant.running + 1 == tenant.running_limit
    if hidden:
        state.queues.unpark(request.ticket.business, tenant)
        state.overdue_at = 0
    # Limits of the whole pool may have kept another of its replicas idle.
    bound = request.lane == 2 and not policy.queues.P2.borrow
    if hidden or bound or (policy.lending.enabled and replica.pool.dedicated):
        fill_all(state, out)
    elif state.replicas.get(replica.facts.name) is replica:
        fill(state, replica, out)


def _measured(state: State, event: events.Measured, out: list[Decision]) -> None:
    replica = state.replicas.get(event.replica)
    if replica is not None:
        replica.gpu, replica.memory, replica.queue = event.gpu, event.memory, event.queue
        replica.measured, replica.cache_tokens = state.now, event.cache_tokens


def _cache_changed(state: State, event: events.CacheChanged, out: list[Decision]) -> None:
    state.prefixes.evict(event.replica, event.evicted)


def _recalled(state: State, event: events.Recalled, out: list[Decision]) -> None:
    recall(state, event.samples)


def _policy_changed(state: State, event: events.PolicyChanged, out: list[Decision]) -> None:
    """Waiting requests are lined up anew, for lanes may have other time limits. Their keys
    stay: a new order holds for later arrivals. Only to mode fifo and back all are sorted
    again, and shares count from nothing, for that mode knows neither."""
    sort = (state.policy.mode == "fifo") != (event.policy.mode == "fifo")
    if state.policy.mode != event.policy.mode:
        # What lanes had by another mode's order gives nobody a turn by this one's.
        state.passes[:] = [0.0, 0.0, 0.0]
    state.policy = event.policy
    state.turn_at = state.review_at = state.plan_at = 0
    waiting = [r for r in state.requests.values() if r.phase is QUEUED]
    for request in waiting:
        unqueue(state, request)
    state.queues = type(state.queues)()
    state.expiries.clear()
    state.overdue_at = 0
    if sort:
        forget_shares(state)
    for request in sorted(waiting, key=lambda r: (r.ticket.arrived, r.sequence)):
        if sort:
            request.key = 0
        line_up(state, request)
    list_stoppable(state)
    renew_layout(state)
    fill_all(state, out)


def _quota_changed(state: State, event: events.QuotaChanged, out: list[Decision]) -> None:
    tenant = state.tenant(event.business)
    set_limits(tenant, event.facts)
    for conduct in tenant.conducts.values():
        set_pace(state, tenant, conduct)
    state.queues.unpark(event.business, tenant)
    state.overdue_at = 0
    fill_all(state, out)
    if event.facts is None and not any(tenant.active):
        del state.tenants[event.business]


def _tick(state: State, event: events.Tick, out: list[Decision]) -> None:
    expire(state, out)
    fill_all(state, out)


Handler = Callable[[State, Any, list[Decision]], None]
HANDLERS: dict[type, Handler] = {
    events.Arrived: _arrived,
    events.Adopted: _adopted,
    events.Progress: _progress,
    events.Finished: _finished,
    events.Yielded: _yielded,
    events.Failed: _failed,
    events.Cancelled: _cancelled,
    events.ReplicaChanged: replica_changed,
    events.ReplicaRemoved: replica_removed,
    events.CardsChanged: cards_changed,
    events.Measured: _measured,
    events.CacheChanged: _cache_changed,
    events.Recalled: _recalled,
    events.PolicyChanged: _policy_changed,
    events.QuotaChanged: _quota_changed,
    events.Tick: _tick,
}
