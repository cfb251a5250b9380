"""The moves a request makes: queue, start, release, end."""

from heapq import heapify, heappop, heappush

from .choice import LANES, MS, allowed, choose
from .decisions import Decision, Dispatch, Promote, Reason, Reject
from .placement import place, remember, scores, served
from .replica import Replica
from .request import Phase, Request
from .state import State
from .ticket import Resume

# Candidates and scores are given with one dispatch in so many.
TRACED = 100


def kv_need(state: State, request: Request) -> int:
    """Tokens that the request will hold in the KV cache."""
    ticket = request.ticket
    if not ticket.prompt and not ticket.output:
        return 0
    return ticket.prompt + max(state.estimates.tokens(ticket), request.produced + 1)


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
    replica = None
    if tenant.may_run:
        replica = place(state, request, kv_need(state, request))
        if replica is not None and not allowed(state, state.pool(replica), request.lane):
            replica = None
    if replica is not None and choose(state, replica) is None:
        _admit(state, request)
        _start(state, request, replica, out, "set")
        return
    waiting = state.lane_queued[request.lane]
    if not tenant.may_wait:
        reason = Reason.QUEUE_FULL if tenant.may_run else Reason.CONCURRENCY_EXCEEDED
        out.append(Reject(ticket.id, reason, _drain(state, tenant.queued + 1)))
    elif waiting >= state.policy.queue(request.lane).max_queue:
        out.append(Reject(ticket.id, Reason.QUEUE_FULL, _drain(state, waiting)))
    else:
        _admit(state, request)
        enqueue(state, request)
        if replica is not None:
            fill(state, replica, out)


def _admit(state: State, request: Request) -> None:
    """Take a new request in."""
    join(state, request)
    state.requests[request.ticket.id] = request


def join(state: State, request: Request) -> None:
    """Count a request in its lane. A business that was idle there starts with the least
    served of those that were not, a lane that was idle with the others."""
    business, lane = request.ticket.business, request.lane
    tenant = state.tenant(business)
    if not tenant.active[lane]:
        least = state.active[lane].least(state.tenants)
        if least is None:
            least = state.virtual[lane]
            _join_lane(state, lane)
        if tenant.used[lane] < least:
            tenant.served[lane] += least - tenant.used[lane]
            tenant.used[lane] = least
        state.active[lane].join(business, tenant.used[lane])
    tenant.active[lane] += 1


def _join_lane(state: State, lane: int) -> None:
    others = [state.passes[other] for other in LANES if state.active[other].entries]
    if others:
        state.passes[lane] = max(state.passes[lane], min(others))


def leave(state: State, request: Request) -> None:
    """Take a request out of its lane's count."""
    business, lane = request.ticket.business, request.lane
    tenant = state.tenant(business)
    tenant.active[lane] -= 1
    if not tenant.active[lane]:
        state.active[lane].leave(business)
        state.virtual[lane] = max(state.virtual[lane], tenant.used[lane])


def _drain(state: State, waiting: int) -> int:
    """A guess (ns) at when this many requests have found a slot: mean service over slots."""
    slots = sum(r.facts.slots for r in state.replicas.values() if r.serving())
    return state.service * max(1, waiting) // max(1, slots)


def enqueue(state: State, request: Request) -> None:
    """Queue a request at the place that its arrival gives it, be it the first time or not."""
    ticket, lane = request.ticket, request.lane
    request.phase = Phase.QUEUED
    request.key = _key(state, request)
    request.since = state.now if request.attempt else ticket.arrived
    tenant = state.tenant(ticket.business)
    state.queues.push(request, tenant.served[lane])
    tenant.queued += 1
    state.lane_queued[lane] += 1
    if lane != ticket.lane:
        # It may have waited longer than what the next look was set for.
        state.overdue_at = 0
    expires = request.since + state.policy.queue(lane).queue_timeout_ms * MS
    state.sequence += 1
    heappush(state.expiries, (expires, state.sequence, request))
    # Most requests start long before they would expire: drop their entries when they prevail.
    if len(state.expiries) > 64 and len(state.expiries) > 2 * sum(state.lane_queued):
        live = [entry for entry in state.expiries if entry[2].phase is Phase.QUEUED]
        state.expiries[:] = live
        heapify(state.expiries)


def _key(state: State, request: Request) -> int:
    """Arrival, later by level, service and budget: all linear, so time reorders nothing."""
    ticket = request.ticket
    if state.policy.mode == "fifo":
        return ticket.arrived
    order, lanes = state.policy.order, state.policy.lanes
    least = (lanes.P0, lanes.P1, lanes.P2)[request.lane][0]
    later = order.level * 1000 * MS * (ticket.level - least)
    later += order.expected_service * state.estimates.typical(ticket)
    if ticket.budget is not None:
        later += order.deadline * ticket.budget
    return ticket.arrived + int(later)


def _unqueue(state: State, request: Request) -> None:
    request.phase = Phase.ENDED
    state.queues.drop(request)
    state.tenant(request.ticket.business).queued -= 1
    state.lane_queued[request.lane] -= 1


def fill(state: State, replica: Replica, out: list[Decision]) -> None:
    """Give the replica's free slots to the requests they belong to."""
    while replica.open(state.now):
        found = choose(state, replica)
        if found is None:
            return
        request, why = found
        if not replica.fits(kv_need(state, request)):
            # Smaller requests behind it must not keep it waiting for ever.
            state.blocked.add(replica.facts.name)
            return
        _unqueue(state, request)
        _start(state, request, replica, out, why)


def fill_all(state: State, out: list[Decision]) -> None:
    """``fill`` every replica: dedicated ones first, then the emptiest."""
    if any(state.lane_queued):
        for replica in sorted(
            state.replicas.values(),
            key=lambda r: (not r.pool.dedicated, r.running / r.facts.slots, r.facts.name),
        ):
            fill(state, replica, out)


def _start(state: State, request: Request, replica: Replica, out: list[Decision], why: str) -> None:
    ticket = request.ticket
    waited = state.now - ticket.arrived
    if why == "guard":
        request.promoted = True
        out.append(Promote(ticket.id, waited))
    state.dispatches += 1
    shown: tuple[tuple[str, float], ...] = ()
    if state.dispatches % TRACED == 0:
        tiers = state.layout.sets.get((ticket.model, request.lane), ((replica,),))
        rated = scores(state, request, [r for tier in tiers for r in tier])
        shown = tuple((name, round(score, 4)) for score, name, _ in rated)
    request.attempt += 1
    occupy(state, request, replica)
    remember(state, request, replica)
    name, generation = replica.facts.name, replica.generation
    out.append(
        Dispatch(ticket.id, request.attempt, name, generation, waited, request.promoted, shown)
    )


def occupy(state: State, request: Request, replica: Replica) -> None:
    """Count a request as running on the replica from now on."""
    ticket, lane = request.ticket, request.lane
    request.phase = Phase.RUNNING
    request.replica, request.dispatched = replica, state.now
    request.seen = 0
    request.kv = replica.need(kv_need(state, request))
    request.estimate = state.estimates.expected(ticket, replica.facts.name, request.produced)
    replica.running += 1
    replica.kv_used += request.kv
    pool = state.pool(replica)
    pool.running[lane] += 1
    pool.promoted += request.promoted
    tenant = state.tenant(ticket.business)
    tenant.running += 1
    state.lane_running[lane] += 1
    if state.policy.mode != "fifo":
        request.charged = tenant.charge(lane, request.estimate * state.policy.order.fairness)
        state.sequence += 1
        tenant.turns[ticket.model] = state.sequence
        state.passes[lane] += request.estimate / state.shares[lane]
    replica.holds[ticket.id] = request
    state.stoppable += stoppable(request)


def stoppable(request: Request) -> bool:
    """Whether it is of the kind that preemption may stop while it runs."""
    return request.lane == 2 and not request.promoted and request.ticket.resume is not Resume.NEVER


def release(state: State, request: Request, *, lost: bool = False) -> Replica:
    """Take a running request off its replica and out of its business's running count.
    ``lost``: what it did will be done again, which its business is not charged for."""
    replica, ticket, lane = request.replica, request.ticket, request.lane
    assert replica is not None
    replica.running -= 1
    replica.kv_used -= request.kv
    pool = state.pool(replica)
    pool.running[lane] -= 1
    pool.promoted -= request.promoted
    tenant = state.tenant(ticket.business)
    tenant.running -= 1
    state.lane_running[lane] -= 1
    if state.policy.mode != "fifo":
        held = state.now - request.dispatched
        state.passes[lane] += (held - request.estimate) / state.shares[lane]
        before = tenant.served[lane]
        due = 0.0 if lost else held * state.policy.order.fairness
        tenant.settle(lane, request.charged, due)
        if tenant.served[lane] < before and tenant.queued and state.lane_queued[lane]:
            state.queues.fell(ticket.business, lane, tenant.served[lane])
    request.charged = 0.0
    del replica.holds[ticket.id]
    state.stoppable -= stoppable(request)
    if request.phase is Phase.YIELDING:
        state.yielding -= 1
    request.last = replica.facts.name
    request.replica = None
    request.phase = Phase.ENDED
    return replica


def end(state: State, request: Request) -> None:
    """The request is over. It holds no slot any more."""
    if request.phase is Phase.QUEUED:
        _unqueue(state, request)
    leave(state, request)
    del state.requests[request.ticket.id]


def expire(state: State, out: list[Decision]) -> None:
    """Refuse, or move down, what has waited past its lane's time limit."""
    while state.expiries and state.expiries[0][0] <= state.now:
        _, _, request = heappop(state.expiries)
        ticket, lane = request.ticket, request.lane
        if request.phase is not Phase.QUEUED or state.requests.get(ticket.id) is not request:
            continue
        queue = state.policy.queue(lane)
        if request.since + queue.queue_timeout_ms * MS > state.now:
            continue  # an entry from before it ran, or moved down
        if queue.on_timeout == "move_down":
            _unqueue(state, request)
            leave(state, request)
            request.lane = lane + 1
            join(state, request)
            enqueue(state, request)
            continue
        end(state, request)
        waiting = state.lane_queued[lane]
        out.append(Reject(ticket.id, Reason.QUEUE_TIMEOUT, _drain(state, waiting)))


def next_wake(state: State) -> int:
    """When a Tick is due (ns), or 0: the next expiry, the end of a replica's busy time, the
    moment when a request becomes overdue, or another look at preemption."""
    expiries = state.expiries
    while expiries and expiries[0][2].phase is not Phase.QUEUED:
        heappop(expiries)
    wake = expiries[0][0] if expiries else 0
    if not any(state.lane_queued):
        return wake
    times = []
    if state.busy_until > state.now:
        times += [r.busy_until for r in state.replicas.values() if r.busy_until > state.now]
    if state.lane_queued[2]:
        if state.overdue_at <= state.now:
            state.overdue_at = _next_overdue(state)
        if state.overdue_at > state.now:
            times.append(state.overdue_at)
    if state.look_again > state.now:
        times.append(state.look_again)
    return min([*times, wake] if wake else times, default=0)


def _next_overdue(state: State) -> int:
    """When the next waiting P2 request becomes overdue (ns), 0 if none will. It stays as it
    is until then: should the request leave before, one Tick finds nothing to do."""
    patience = state.policy.queues.P2.max_wait_ms * MS
    times = []
    for model in list(state.queues.oldest):
        head = state.queues.overdue(model, state.now)
        if head is not None and head.since + patience > state.now:
            times.append(head.since + patience)
    return min(times, default=0)
