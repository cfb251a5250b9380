"""``step``: one event in, decisions out.

Work-conserving throughout: after each step no request waits that could run, but for a
replica kept free for a head of queue that needs more KV cache than is free yet.
"""

from collections.abc import Callable
from heapq import heappush
from typing import Any

from . import events
from .decisions import Decision, Reason, Reject, Trip, WakeAt
from .dispatch import (
    end,
    enqueue,
    expire,
    fill,
    fill_all,
    next_wake,
    occupy,
    release,
    start_or_queue,
)
from .placement import served
from .replica import Replica
from .request import Phase, Request
from .state import State

# An attempt that failed may be made elsewhere, but not without end.
MOST_FAILURES = 3
SERVICE_SMOOTHING = 16


def step(state: State, event: events.Event, now: int) -> list[Decision]:
    """Apply one event at time ``now`` (ns; a clock that went back is held) to the state.

    Events about requests, attempts or replicas that are no more change nothing.
    """
    state.now = max(state.now, now)
    out: list[Decision] = []
    HANDLERS[type(event)](state, event, out)
    if state.blocked:
        for name in sorted(state.blocked):
            state.blocked.discard(name)
            if name in state.replicas:
                fill(state, state.replicas[name], out)
    wake = next_wake(state)
    if wake and wake != state.wake:
        out.append(WakeAt(wake))
    state.wake = wake
    return out


def _arrived(state: State, event: events.Arrived, out: list[Decision]) -> None:
    ticket = event.ticket
    if ticket.id in state.requests:
        return
    state.sequence += 1
    start_or_queue(state, Request(ticket, state.sequence), out)


def _adopted(state: State, event: events.Adopted, out: list[Decision]) -> None:
    ticket = event.ticket
    if ticket.id in state.requests:
        return
    state.sequence += 1
    request = Request(ticket, state.sequence, attempt=event.attempt)
    if event.replica is None:
        state.requests[ticket.id] = request
        enqueue(state, request)
        fill_all(state, out)
        return
    replica = state.replicas.get(event.replica)
    if replica is not None and replica.generation == event.generation:
        # What runs on a replica that has left runs on, but takes no slot of any we know.
        state.requests[ticket.id] = request
        occupy(state, request, replica)


def _running(state: State, request: str, attempt: int) -> Request | None:
    found = state.requests.get(request)
    if found is None or found.phase is not Phase.RUNNING or found.attempt != attempt:
        return None
    return found


def _finished(state: State, event: events.Finished, out: list[Decision]) -> None:
    request = _running(state, event.request, event.attempt)
    if request is None:
        return
    held = state.now - request.dispatched
    state.service += (held - state.service) // SERVICE_SMOOTHING
    if request.replica is not None:
        request.replica.busy_for = 0
    replica = release(state, request)
    end(state, request)
    _freed(state, replica, request.ticket.business, out)


def _failed(state: State, event: events.Failed, out: list[Decision]) -> None:
    request = _running(state, event.request, event.attempt)
    if request is None or request.replica is None:
        return
    replica = release(state, request)
    if event.fault is events.Fault.BUSY:
        replica.hold_off(state.now)
    else:
        request.failures += 1
        request.tried |= {(replica.facts.name, replica.generation)}
        if event.fault is events.Fault.UNREACHABLE and replica.ready:
            replica.ready = False
            out.append(Trip(replica.facts.name, replica.generation))
    if request.failures >= MOST_FAILURES or (request.failures and not served(state, request)):
        end(state, request)
        out.append(Reject(request.ticket.id, Reason.UPSTREAM_ERROR, state.service))
    else:
        enqueue(state, request)
        fill_all(state, out)
    _freed(state, replica, request.ticket.business, out)


def _cancelled(state: State, event: events.Cancelled, out: list[Decision]) -> None:
    request = state.requests.get(event.request)
    if request is None:
        return
    if request.phase is Phase.RUNNING:
        replica = release(state, request)
        end(state, request)
        _freed(state, replica, request.ticket.business, out)
    else:
        end(state, request)


def _freed(state: State, replica: Replica, business: str, out: list[Decision]) -> None:
    """A slot and a place in a business's running limit came free."""
    if state.queues.unpark(business):
        fill_all(state, out)
    elif state.replicas.get(replica.facts.name) is replica:
        fill(state, replica, out)


def _replica_changed(state: State, event: events.ReplicaChanged, out: list[Decision]) -> None:
    name = event.facts.name
    known = state.replicas.get(name)
    if known is not None and known.generation == event.generation:
        known.facts, known.pool, known.ready = event.facts, event.pool, event.ready
    else:
        state.replicas[name] = Replica(event.facts, event.pool, event.generation, event.ready)
    fill_all(state, out)


def _replica_removed(state: State, event: events.ReplicaRemoved, out: list[Decision]) -> None:
    state.replicas.pop(event.name, None)
    state.blocked.discard(event.name)


def _policy_changed(state: State, event: events.PolicyChanged, out: list[Decision]) -> None:
    state.policy = event.policy
    state.expiries.clear()
    for request in state.requests.values():
        if request.phase is Phase.QUEUED:
            timeout = event.policy.queue(request.ticket.lane).queue_timeout_ms * 1_000_000
            state.sequence += 1
            heappush(state.expiries, (request.ticket.arrived + timeout, state.sequence, request))
    fill_all(state, out)


def _quota_changed(state: State, event: events.QuotaChanged, out: list[Decision]) -> None:
    tenant = state.tenant(event.business)
    facts = event.facts
    tenant.running_limit = facts.running if facts is not None else None
    tenant.queued_limit = facts.queued if facts is not None else None
    tenant.suspended = facts.suspended if facts is not None else False
    state.queues.unpark(event.business)
    fill_all(state, out)
    if facts is None and not tenant.running and not tenant.queued:
        del state.tenants[event.business]


def _tick(state: State, event: events.Tick, out: list[Decision]) -> None:
    expire(state, out)
    fill_all(state, out)


Handler = Callable[[State, Any, list[Decision]], None]
HANDLERS: dict[type, Handler] = {
    events.Arrived: _arrived,
    events.Adopted: _adopted,
    events.Finished: _finished,
    events.Failed: _failed,
    events.Cancelled: _cancelled,
    events.ReplicaChanged: _replica_changed,
    events.ReplicaRemoved: _replica_removed,
    events.PolicyChanged: _policy_changed,
    events.QuotaChanged: _quota_changed,
    events.Tick: _tick,
}
