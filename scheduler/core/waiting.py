"""The queue's side of a request: it waits, moves down, is refused, ends."""

from heapq import heapify, heappop, heappush

from .choice import MS
from .decisions import Decision, Reason, Reject
from .placement import served
from .request import ENDED, QUEUED, Request
from .shares import join, leave
from .state import State

# Puts a key before those of all that arrived at any time.
AHEAD = 1 << 62


def enqueue(state: State, request: Request) -> None:
    """Queue a request where its arrival puts it. Its key is fixed the first time."""
    request.since = state.now if request.attempt else request.ticket.arrived
    line_up(state, request)


def enqueue_ahead(state: State, request: Request) -> None:
    """Queue a request that lost its slot to another at the head of its own queue."""
    if state.policy.mode != "fifo":
        request.key = request.ticket.arrived - AHEAD
    enqueue(state, request)


def line_up(state: State, request: Request) -> None:
    """Let a request wait at the place that its key says."""
    ticket, lane = request.ticket, request.lane
    request.key = request.key or _key(state, request)
    request.phase = QUEUED
    tenant = request.tenant
    state.queues.push(request, tenant.served[lane])
    tenant.queued += 1
    state.lane_queued[lane] += 1
    if lane != ticket.lane:
        # It may have waited longer than what the next look was set for.
        state.overdue_at = 0
    expires = request.since + _patience(state, request)
    state.sequence += 1
    heappush(state.expiries, (expires, state.sequence, request))
    # Most requests start long before they would expire: drop their entries when they prevail.
    expiries = state.expiries
    if len(expiries) > 64 and len(expiries) > 2 * sum(state.lane_queued):
        live = [entry for entry in expiries if entry[2].phase is QUEUED]
        expiries[:] = live
        heapify(expiries)


def _patience(state: State, request: Request) -> int:
    """The longest time (ns) that the request may wait at once in its lane, or for a start."""
    if request.cold and not request.attempt:
        return int(state.policy.cold_start.wait_s * 1000 * MS)
    own = request.ticket.patience
    return state.policy.queue(request.lane).queue_timeout_ms * MS if own is None else own


def _key(state: State, request: Request) -> int:
    """Arrival, later by level, service and budget: all linear, so time reorders nothing."""
    ticket = request.ticket
    if state.policy.mode == "fifo":
        return ticket.arrived
    order, least = ticket.order or state.policy.order, state.policy.least_level(request.lane)
    later = order.level * 1000 * MS * (ticket.level - least)
    later += order.expected_service * state.estimates.typical(ticket, request.work)
    if ticket.budget is not None:
        later += order.deadline * ticket.budget
    return ticket.arrived + int(later)


def unqueue(state: State, request: Request) -> None:
    """Take a request out of its queue, for good or for a slot."""
    request.phase = ENDED
    state.queues.drop(request)
    request.tenant.queued -= 1
    state.lane_queued[request.lane] -= 1


def end(state: State, request: Request) -> None:
    """The request is over. It holds no slot any more."""
    if request.phase is QUEUED:
        unqueue(state, request)
    leave(state, request)
    del state.requests[request.ticket.id]


def expire(state: State, out: list[Decision]) -> None:
    """Refuse, or move down, what has waited past its lane's time limit."""
    while state.expiries and state.expiries[0][0] <= state.now:
        _, _, request = heappop(state.expiries)
        ticket, lane = request.ticket, request.lane
        if request.phase is not QUEUED or state.requests.get(ticket.id) is not request:
            continue
        if request.since + _patience(state, request) > state.now:
            continue  # an entry from before it ran, or moved down
        if request.cold and not served(state, request):
            end(state, request)
            rest = int(state.policy.failover.open_s * 1000 * MS)
            out.append(Reject(ticket.id, Reason.NO_CAPACITY, rest))
            continue
        if state.policy.queue(lane).on_timeout == "move_down":
            unqueue(state, request)
            leave(state, request)
            request.lane, request.key = lane + 1, 0
            join(state, request)
            enqueue(state, request)
            continue
        end(state, request)
        request.conduct.dropped += 1.0
        waiting = state.lane_queued[lane]
        out.append(Reject(ticket.id, Reason.QUEUE_TIMEOUT, time_to_drain(state, waiting)))


def next_wake(state: State) -> int:
    """When a Tick is due (ns), or 0: the next expiry, the end of a replica's busy time, the
    moment when a request becomes overdue, or too late for its set, or another look at
    preemption."""
    expiries = state.expiries
    while expiries and expiries[0][2].phase is not QUEUED:
        heappop(expiries)
    wake = expiries[0][0] if expiries else 0
    queued, now = state.lane_queued, state.now
    if (
        now < state.press_at
        and (queued[0] or state.watching)
        and (state.press_at < wake or not wake)
    ):
        wake = state.press_at
    if not (queued[0] or queued[1] or queued[2]):
        return wake
    if queued[2]:
        if state.overdue_at <= now:
            state.overdue_at = _next_overdue(state)
        if now < state.overdue_at and (state.overdue_at < wake or not wake):
            wake = state.overdue_at
    if now < state.late_at and (state.late_at < wake or not wake):
        wake = state.late_at
    if now < state.look_again and (state.look_again < wake or not wake):
        wake = state.look_again
    if now < state.busy_until:
        ends = [r.busy_until for r in state.replicas.values() if r.busy_until > now]
        wake = min([*ends, wake] if wake else ends, default=0)
    return wake


def _next_overdue(state: State) -> int:
    """When the next waiting P2 request becomes overdue (ns), 0 if none will. It stays as it
    is until then: should the request leave before, one Tick finds nothing to do."""
    patience = state.policy.queues.P2.max_wait_ms * MS
    since = state.queues.next_overdue(state.now - patience, state.tenants)
    return since + patience if since else 0


def time_to_drain(state: State, waiting: int) -> int:
    """A guess (ns) at when this many requests have found a slot: mean service over slots."""
    slots = sum(r.facts.slots for r in state.replicas.values() if r.serving())
    return state.service * max(1, waiting) // max(1, slots)
