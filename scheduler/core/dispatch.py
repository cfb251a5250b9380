"""The moves a request makes: queue, start, release, end."""

from heapq import heapify, heappop, heappush

from .decisions import Decision, Dispatch, Reason, Reject
from .placement import place, served
from .replica import Replica
from .request import Phase, Request
from .state import State


def start_or_queue(state: State, request: Request, out: list[Decision]) -> None:
    """Run a new request at once if it can, else queue it, else refuse it."""
    ticket = request.ticket
    tenant = state.tenant(ticket.business)
    if tenant.suspended:
        out.append(Reject(ticket.id, Reason.TENANT_SUSPENDED, state.service))
        return
    if tenant.running_limit == 0:
        out.append(Reject(ticket.id, Reason.CONCURRENCY_EXCEEDED, state.service))
        return
    if not served(state, request):
        out.append(Reject(ticket.id, Reason.NO_CAPACITY, state.service))
        return
    replica = place(state, request) if tenant.may_run else None
    if replica is not None and _next_on(state, replica, request):
        state.requests[ticket.id] = request
        _start(state, request, replica, out)
        return
    if not tenant.may_wait:
        reason = Reason.QUEUE_FULL if tenant.may_run else Reason.CONCURRENCY_EXCEEDED
        out.append(Reject(ticket.id, reason, _drain(state, tenant.queued + 1)))
        return
    waiting = state.lane_queued[ticket.lane]
    if waiting >= state.policy.queue(ticket.lane).max_queue:
        out.append(Reject(ticket.id, Reason.QUEUE_FULL, _drain(state, waiting)))
        return
    state.requests[ticket.id] = request
    enqueue(state, request)
    if replica is not None:
        fill(state, replica, out)


def _next_on(state: State, replica: Replica, request: Request) -> bool:
    """Whether the replica's free slot belongs to this request and to none that waits."""
    ahead = _first(state, replica)
    if ahead is None or ahead.ticket.lane > request.ticket.lane:
        return True
    return (
        ahead.ticket.lane == request.ticket.lane
        and state.by_level(request.ticket.lane)
        and ahead.ticket.level > request.ticket.level
    )


def _drain(state: State, waiting: int) -> int:
    """A guess (ns) at when this many requests have found a slot: mean service over slots."""
    slots = sum(r.facts.slots for r in state.replicas.values() if r.serving())
    return state.service * max(1, waiting) // max(1, slots)


def enqueue(state: State, request: Request) -> None:
    """Queue a request at the place that its arrival gives it, be it the first time or not."""
    ticket = request.ticket
    request.phase = Phase.QUEUED
    state.queues.push(request)
    state.tenant(ticket.business).queued += 1
    state.lane_queued[ticket.lane] += 1
    timeout = state.policy.queue(ticket.lane).queue_timeout_ms * 1_000_000
    state.sequence += 1
    heappush(state.expiries, (ticket.arrived + timeout, state.sequence, request))
    # Most requests start long before they would expire: drop their entries when they prevail.
    if len(state.expiries) > 64 and len(state.expiries) > 2 * sum(state.lane_queued):
        live = [entry for entry in state.expiries if entry[2].phase is Phase.QUEUED]
        state.expiries[:] = live
        heapify(state.expiries)


def _unqueue(state: State, request: Request) -> None:
    ticket = request.ticket
    request.phase = Phase.ENDED
    state.queues.drop(request)
    state.tenant(ticket.business).queued -= 1
    state.lane_queued[ticket.lane] -= 1


def _first(state: State, replica: Replica) -> Request | None:
    """The request that a free slot on this replica belongs to, by lane, band and arrival."""
    for lane in (0, 1, 2):
        if state.lane_queued[lane] and lane in replica.pool.lanes:
            found = state.queues.first(replica, lane, state.by_level(lane), state.may_run)
            if found is not None:
                return found
    return None


def fill(state: State, replica: Replica, out: list[Decision]) -> None:
    """Give the replica's free slots to the requests they belong to."""
    while replica.open(state.now):
        request = _first(state, replica)
        if request is None:
            return
        if not replica.fits(request.ticket.tokens):
            # Smaller requests behind it must not keep it waiting for ever.
            state.blocked.add(replica.facts.name)
            return
        _unqueue(state, request)
        _start(state, request, replica, out)


def fill_all(state: State, out: list[Decision]) -> None:
    """``fill`` every replica, those first that the longest wait leaves emptiest."""
    if not any(state.lane_queued):
        return
    for replica in sorted(
        state.replicas.values(),
        key=lambda r: (not r.pool.dedicated, r.running / r.facts.slots, r.picked, r.facts.name),
    ):
        fill(state, replica, out)


def _start(state: State, request: Request, replica: Replica, out: list[Decision]) -> None:
    request.attempt += 1
    occupy(state, request, replica)
    state.sequence += 1
    replica.picked = state.sequence
    ticket = request.ticket
    waited = state.now - ticket.arrived
    name, generation = replica.facts.name, replica.generation
    out.append(Dispatch(ticket.id, request.attempt, name, generation, waited))


def occupy(state: State, request: Request, replica: Replica) -> None:
    """Count a request as running on the replica from now on."""
    ticket = request.ticket
    request.phase = Phase.RUNNING
    request.replica, request.dispatched = replica, state.now
    replica.running += 1
    replica.kv_used += replica.need(ticket.tokens)
    state.tenant(ticket.business).running += 1
    state.lane_running[ticket.lane] += 1


def release(state: State, request: Request) -> Replica:
    """Take a running request off its replica and out of its business's running count."""
    replica, ticket = request.replica, request.ticket
    assert replica is not None
    replica.running -= 1
    replica.kv_used -= replica.need(ticket.tokens)
    state.tenant(ticket.business).running -= 1
    state.lane_running[ticket.lane] -= 1
    request.replica = None
    request.phase = Phase.ENDED
    return replica


def end(state: State, request: Request) -> None:
    """The request is over. It holds no slot any more."""
    if request.phase is Phase.QUEUED:
        _unqueue(state, request)
    del state.requests[request.ticket.id]


def expire(state: State, out: list[Decision]) -> None:
    """Refuse what has waited past its lane's time limit."""
    while state.expiries and state.expiries[0][0] <= state.now:
        _, _, request = heappop(state.expiries)
        if request.phase is Phase.QUEUED and request.ticket.id in state.requests:
            end(state, request)
            waiting = state.lane_queued[request.ticket.lane]
            out.append(Reject(request.ticket.id, Reason.QUEUE_TIMEOUT, _drain(state, waiting)))


def next_wake(state: State) -> int:
    """When a Tick is due (ns), or 0: the next expiry, or the end of a replica's busy time."""
    expiries = state.expiries
    while expiries and expiries[0][2].phase is not Phase.QUEUED:
        heappop(expiries)
    wake = expiries[0][0] if expiries else 0
    if any(state.lane_queued):
        for replica in state.replicas.values():
            if state.now < replica.busy_until and (not wake or replica.busy_until < wake):
                wake = replica.busy_until
    return wake
