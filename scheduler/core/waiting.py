"""The queue's side of a request: it waits, moves down, is refused, ends."""

from heapq import heapify, heappop, heappush
from math import exp

from .aside import next_end
from .choice import MS
from .circuits import back_at
from .request import ENDED, NO_END, QUEUED, Request
from .shares import leave
from .state import State

# The variance of an answer's logarithm that is believed at most.
MOST_SPREAD = 1.0
# Puts a key before those of all that arrived at any time.
AHEAD = 1 << 62


def measure(state: State, request: Request) -> None:
    """Say how many tokens the request is to hold in a KV cache."""
    if request.generative:
        ticket, answer = request.ticket, max(request.answer, request.produced + 1)
        request.context = ticket.prompt + answer
        length = state.estimates.length(ticket)
        if length is not None:
            request.variance = (exp(min(length.spread, MOST_SPREAD)) - 1.0) * answer * answer


def enqueue(state: State, request: Request, *, worked: bool = False) -> None:
    """Queue a request where its arrival puts it. Its key is fixed the first time. Its wait goes on
    from what it has waited before; the time of its last attempt was one of waiting too, unless that
    has ``worked``."""
    if worked:
        request.since += state.now - request.dispatched
    line_up(state, request)


def enqueue_ahead(state: State, request: Request) -> None:
    """Queue a request that lost its slot to another at the head of its own queue."""
    if state.policy.mode != "fifo":
        request.key = request.ticket.arrived - AHEAD
    enqueue(state, request, worked=True)


def line_up(state: State, request: Request) -> None:
    """Let a request wait at the place that its key says."""
    ticket, lane, conduct = request.ticket, request.lane, request.conduct
    request.key = request.key or _key(state, request)
    request.phase = QUEUED
    if request.attempt or not request.context:
        measure(state, request)
    request.missed, request.latest = False, latest(state, request)
    state.queues.push(request)
    request.tenant.queued += 1
    state.lane_queued[lane] += 1
    state.lane_tokens[lane] += request.context
    if not conduct.queued[lane]:
        state.queuers[lane] += 1
    conduct.queued[lane] += 1
    conduct.queued_tokens[lane] += request.context
    if lane == 2 and (request.attempt or lane != ticket.lane):
        # It may have waited longer than what the next look was set for.
        state.overdue_at = 0
    expires = request.since + patience(state, request)
    state.sequence += 1
    heappush(state.expiries, (expires, state.sequence, request))
    # Most requests start long before they would expire: drop their entries when they prevail.
    expiries = state.expiries
    if len(expiries) > 64 and len(expiries) > 2 * sum(state.lane_queued):
        live = [entry for entry in expiries if entry[2].phase is QUEUED]
        expiries[:] = live
        heapify(expiries)


def patience(state: State, request: Request) -> int:
    """The longest time (ns) that the request may wait at once in its lane, or for a start."""
    if request.cold and not request.attempt:
        return int(state.policy.cold_start.wait_s * 1000 * MS)
    own = request.ticket.patience
    return state.policy.queue(request.lane).queue_timeout_ms * MS if own is None else own


def latest(state: State, request: Request) -> int:
    """Until when (ns) it may start and still be expected within its budget."""
    ticket = request.ticket
    if ticket.budget is None or state.policy.mode == "fifo":
        return NO_END
    return ticket.arrived + ticket.budget - needed(state, request)


def needed(state: State, request: Request, deviations: float | None = None) -> int:
    """Time (ns) from its start to what its budget is measured to, as it is to be expected, or where
    it is so many standard deviations longer than the middle; 0 as long as the model was hardly
    measured of late."""
    ticket, estimates = request.ticket, state.estimates
    if not estimates.known(ticket.model, state.now):
        return 0
    if state.policy.queue(request.lane).budget_on == "completion":
        if deviations is not None and not request.produced:
            return estimates.quantile(ticket, deviations)
        return estimates.typical(ticket, max(1, request.answer - request.produced))
    if request.produced or not request.generative:
        return 0
    return int(estimates.prefill(ticket.model, "", ticket.prompt))


def _key(state: State, request: Request) -> int:
    """Arrival, later by level, service and budget: all linear, so time reorders nothing."""
    ticket = request.ticket
    if state.policy.mode == "fifo":
        return ticket.arrived
    order, least = ticket.order or state.policy.order, state.policy.least_level(request.lane)
    later = order.level * 1000 * MS * (ticket.level - least)
    later += order.expected_service * state.estimates.typical(ticket, request.answer)
    if ticket.budget is not None:
        later += order.deadline * ticket.budget
    return ticket.arrived + int(later)


def unqueue(state: State, request: Request) -> None:
    """Take a request out of its queue, for good or for a slot."""
    request.phase = ENDED
    state.queues.drop(request)
    lane, conduct = request.lane, request.conduct
    request.tenant.queued -= 1
    state.lane_queued[lane] -= 1
    state.lane_tokens[lane] -= request.context
    conduct.queued[lane] -= 1
    conduct.queued_tokens[lane] -= request.context
    if not conduct.queued[lane]:
        state.queuers[lane] -= 1


def end(state: State, request: Request) -> None:
    """The request is over. It holds no slot any more."""
    if request.phase is QUEUED:
        unqueue(state, request)
    leave(state, request)
    del state.requests[request.ticket.id]


def next_wake(state: State) -> int:
    """When a Tick is due (ns), or 0: the next expiry, the end of a replica's busy time or of its
    prefills, of a claim, the moment when a request becomes overdue, or too late for its set, or
    another look at P0's wait, at cards, or at preemption."""
    expiries, now, wake = state.expiries, state.now, NO_END
    urgent, middle, low = state.lane_queued
    while expiries:
        expires, _, first = expiries[0]
        if first.phase is QUEUED:
            wake = expires
            break
        heappop(expiries)
    if now < state.press_at < wake and (urgent or state.watching):
        wake = state.press_at
    if state.cards and now < state.plan_at < wake:
        wake = state.plan_at
    if urgent or middle or low:
        wake = _next_turn(state, wake)
    return wake if wake < NO_END else 0


def _next_turn(state: State, wake: int) -> int:
    """The same, or when one that waits is to be looked at, if that is before."""
    now, queues = state.now, state.queues
    if state.lane_queued[2]:
        if state.overdue_at <= now:
            state.overdue_at = _next_overdue(state)
        if now < state.overdue_at < wake:
            wake = state.overdue_at
    if now < state.look_again < wake:
        wake = state.look_again
    if now < state.late_at < wake:
        wake = state.late_at
    if state.gates or queues.delays or queues.aside or now < state.busy_until:
        wake = min(wake, _next_end(state))
    return wake


def _next_end(state: State) -> int:
    """When a replica's prefills end, or a wait for one replica alone, or a claim, or the next
    replica is asked again."""
    now, queues = state.now, state.queues
    ends = [NO_END, queues.next_delay() or NO_END, next_end(state) or NO_END]
    if state.gates:
        ends.append(state.gates[0][0])
    if now < state.busy_until:
        ends += [r.busy_until for r in state.replicas.values() if r.busy_until > now]
        ends += back_at(state)
    return min(ends)


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
