"""``step``: one event in, decisions out.

Work-conserving throughout: after each step no request waits that could use a free slot of
its placement set, but for a replica kept free for a head of queue that needs more KV cache
than is free yet.
"""

from collections.abc import Callable
from typing import Any

from . import events
from .breaker import note_outcome
from .cold import tend
from .conduct import note_end
from .decisions import Decision, Kind, Notice, Reason, Reject, Trip
from .decisions import WakeAt as Wake
from .demand import note_arrival, renew_layout, turn
from .dispatch import fill, fill_all, occupy, release, start_or_queue
from .feedback import adjusted, set_pace
from .membership import (
    cards_changed,
    count_broken,
    count_slots,
    replica_changed,
    replica_removed,
)
from .paths import note_attempt
from .placement import served
from .preempt import consider
from .pressure import look
from .replica import Replica
from .request import QUEUED, YIELDING, Request
from .shares import forget_shares, join
from .state import State
from .waiting import end, enqueue, enqueue_ahead, expire, line_up, next_wake

MS = 1_000_000
# An attempt that failed may be made elsewhere, but not without end.
MOST_FAILURES = 3
SMOOTHING = 64
# What the retry budget comes to at most, however long all has gone well.
MOST_RETRIES = 10.0


def step(state: State, event: events.Event, now: int) -> list[Decision]:
    """Apply one event at time ``now`` (ns; a clock that went back is held) to the state.

    Events about requests, attempts or replicas that are no more change nothing.
    """
    if now > state.now:  # noqa: PLR1730 - twice as fast as max, at every event
        state.now = now
    out: list[Decision] = []
    if state.now >= state.turn_at:
        turn(state, out)
        # What is laid out anew may have slots that those who wait could not use before.
        fill_all(state, out)
    HANDLERS[type(event)](state, event, out)
    if state.blocked:
        for name in sorted(state.blocked):
            state.blocked.discard(name)
            if name in state.replicas:
                fill(state, state.replicas[name], out)
    state.look_again = 0
    if state.stoppable and (
        state.lane_queued[0] or (state.lane_queued[1] and state.policy.queues.P1.preempt)
    ):
        consider(state, out)
    if state.now >= state.press_at and (state.lane_queued[0] or state.watching):
        look(state, out)
        tend(state, out)
    if state.news:
        out += state.news
        state.news.clear()
    wake = next_wake(state)
    if wake and wake != state.wake:
        out.append(Wake(wake))
    state.wake = wake
    return out


def _arrived(state: State, event: events.Arrived, out: list[Decision]) -> None:
    ticket = event.ticket
    if ticket.id in state.requests:
        return
    state.sequence += 1
    state.arrivals += 1
    tenant = state.tenants.get(ticket.business) or state.tenant(ticket.business)
    conduct = tenant.conduct(ticket.model)
    if conduct.level:
        ticket = adjusted(state, conduct, ticket, out)
    work = note_arrival(state, ticket)
    request = Request(ticket, state.sequence, tenant, conduct, work, lane=ticket.lane)
    start_or_queue(state, request, out)


def _adopted(state: State, event: events.Adopted, out: list[Decision]) -> None:
    ticket = event.ticket
    if ticket.id in state.requests:
        return
    state.sequence += 1
    tenant, work = state.tenant(ticket.business), state.estimates.work(ticket)
    conduct, number = tenant.conduct(ticket.model), state.sequence
    request = Request(ticket, number, tenant, conduct, work, lane=ticket.lane)
    request.attempt = event.attempt
    replica = state.replicas.get(event.replica) if event.replica is not None else None
    if event.replica is None:
        request.cold = ticket.model in state.cold and not served(state, request)
        state.requests[ticket.id] = request
        join(state, request)
        enqueue(state, request)
        fill_all(state, out)
    elif replica is not None and replica.generation == event.generation:
        # What runs on a replica that has left runs on, but takes no slot of any we know.
        state.requests[ticket.id] = request
        join(state, request)
        occupy(state, request, replica)


def _holder(state: State, request: str, attempt: int) -> Request | None:
    """The request, if this attempt of it holds a slot."""
    found = state.requests.get(request)
    if found is None or found.replica is None or found.attempt != attempt:
        return None
    return found


def _progress(state: State, event: events.Progress, out: list[Decision]) -> None:
    request = _holder(state, event.request, event.attempt)
    if request is not None and request.replica is not None:
        if request.produced and not request.seen:
            took = state.now - request.dispatched
            name = request.replica.facts.name
            state.estimates.resumed(request.ticket, name, request.produced, took)
        request.seen = max(request.seen, event.tokens, 1)


def _finished(state: State, event: events.Finished, out: list[Decision]) -> None:
    request = _holder(state, event.request, event.attempt)
    if request is None or request.replica is None:
        return
    held = state.now - request.dispatched
    state.service += (held - state.service) // SMOOTHING
    request.replica.busy_for = 0
    if event.failed or state.breakers:
        note_outcome(state, request, out, failed=event.failed)
    else:
        state.outcomes.ended += 1
        request.tenant.outcomes.ended += 1
    if event.failed:
        _failed_at(state, request, request.replica, out)
    elif request.replica.failures:
        _mended(state, request.replica, out)
    if state.paths and note_attempt(
        state, request, request.replica, event.output, failed=event.failed
    ):
        _switched(state, out)
    if not request.produced and not event.failed:
        name = request.replica.facts.name
        state.estimates.finished(request.ticket, name, held, event.output)
    if not event.failed:
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
    request.produced = max(request.produced, event.produced)
    replica = release(state, request, lost=not event.produced)
    enqueue_ahead(state, request)
    if state.replicas.get(replica.facts.name) is replica:
        fill(state, replica, out, preempted=True)
    _freed(state, replica, request, out)
    # Its replica may have been replaced meanwhile: then a slot elsewhere may be free for it.
    fill_all(state, out)


def _failed(state: State, event: events.Failed, out: list[Decision]) -> None:
    request = _holder(state, event.request, event.attempt)
    if request is None:
        return
    request.produced = max(request.produced, event.produced)
    replica = release(state, request, lost=True)
    if event.fault is events.Fault.BUSY:
        replica.hold_off(state.now)
        state.busy_until = max(state.busy_until, replica.busy_until)
    else:
        request.failures += 1
        request.tried |= {(replica.facts.name, replica.generation)}
        known = state.replicas.get(replica.facts.name) is replica
        if event.fault is not events.Fault.UNREACHABLE:
            _failed_at(state, request, replica, out)
            if state.paths and note_attempt(state, request, replica, 0, failed=True):
                _switched(state, out)
        elif replica.ready and known:
            replica.ready = False
            count_slots(state)
            renew_layout(state)
            out.append(Trip(replica.facts.name, replica.generation))
    if request.failures and not (
        request.failures < MOST_FAILURES
        and served(state, request)
        and _retries(state, request, event)
    ):
        end(state, request)
        note_outcome(state, request, out, failed=True)
        out.append(Reject(request.ticket.id, Reason.UPSTREAM_ERROR, state.service))
    else:
        enqueue(state, request)
    # Without this replica others may be in the sets of those that wait.
    fill_all(state, out)
    _freed(state, replica, request, out)


def _retries(state: State, request: Request, event: events.Failed) -> bool:
    """Whether the budget has room for one more attempt. One that goes on from what the caller
    has, or whose replica was gone, is not counted: it makes no work twice."""
    if request.produced or event.fault is events.Fault.UNREACHABLE:
        return True
    earned = state.arrivals * state.policy.failover.retry_budget
    state.arrivals = 0
    state.retries = min(MOST_RETRIES, state.retries + earned)
    if state.retries < 1.0:
        return False
    state.retries -= 1.0
    return True


def _failed_at(state: State, request: Request, replica: Replica, out: list[Decision]) -> None:
    """An attempt has failed at the replica: its breaker may open."""
    alone = state.outcomes.total()[0] == request.tenant.outcomes.total()[0]
    if not replica.fail(state.now, state.policy.failover, request.ticket.business, alone=alone):
        return
    state.busy_until = max(state.busy_until, replica.busy_until)
    count_broken(state)
    cause = f"{replica.failures} failures in a row"
    out.append(Notice(Kind.BROKEN, replica.facts.name, cause, replica.busy_until))
    if state.paths:
        _switched(state, out)


def _mended(state: State, replica: Replica, out: list[Decision]) -> None:
    """An attempt has gone well there."""
    if replica.mend():
        count_broken(state)
        out.append(Notice(Kind.MENDED, replica.facts.name, "an attempt has gone well"))
        if state.paths:
            _switched(state, out)


def _switched(state: State, out: list[Decision]) -> None:
    """A model is to be served by others."""
    renew_layout(state)
    fill_all(state, out)


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
        replica.measured = state.now


def _policy_changed(state: State, event: events.PolicyChanged, out: list[Decision]) -> None:
    """Waiting requests are lined up anew, for lanes may have other time limits. Their keys
    stay: a new order holds for later arrivals. Only to mode fifo and back all are sorted
    again, and shares count from nothing, for that mode knows neither."""
    sort = (state.policy.mode == "fifo") != (event.policy.mode == "fifo")
    state.policy = event.policy
    state.turn_at = state.review_at = 0
    waiting = [r for r in state.requests.values() if r.phase is QUEUED]
    state.queues = type(state.queues)()
    state.expiries.clear()
    state.overdue_at = 0
    state.lane_queued[:] = [0, 0, 0]
    if sort:
        forget_shares(state)
    for request in sorted(waiting, key=lambda r: (r.ticket.arrived, r.sequence)):
        request.tenant.queued -= 1
        if sort:
            request.key = 0
        line_up(state, request)
    renew_layout(state)
    fill_all(state, out)


def _quota_changed(state: State, event: events.QuotaChanged, out: list[Decision]) -> None:
    tenant = state.tenant(event.business)
    facts = event.facts
    tenant.running_limit = facts.running if facts is not None else None
    tenant.queued_limit = facts.queued if facts is not None else None
    tenant.suspended = facts.suspended if facts is not None else False
    tenant.weight = facts.weight if facts is not None else 1.0
    for conduct in tenant.conducts.values():
        set_pace(state, tenant, conduct)
    state.queues.unpark(event.business, tenant)
    state.overdue_at = 0
    fill_all(state, out)
    if facts is None and not any(tenant.active):
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
    events.PolicyChanged: _policy_changed,
    events.QuotaChanged: _quota_changed,
    events.Tick: _tick,
}
