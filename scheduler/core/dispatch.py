"""The moves a request makes between queue and replica: start, release."""

from collections.abc import Sequence

from .admission import lighten, refused_late, turned_away
from .choice import choose
from .cold import may_wait
from .decisions import Decision, Dispatch, Promote, Reason, Reject
from .paths import note_start
from .placement import fits, note_pick, place, remember, roomy, scores, served
from .replica import Replica
from .request import ENDED, RUNNING, YIELDING, Request
from .shares import charge, join, settle
from .state import State
from .ticket import NEVER
from .waiting import enqueue, time_to_drain, unqueue

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
    tenant = request.tenant
    unusual = state.breakers or state.broken or state.watching
    if (
        unusual or tenant.suspended or tenant.running_limit == 0 or not served(state, request)
    ) and _turned_away(state, request, out):
        return
    replica = None
    if state.free and tenant.may_run:
        bounded = (ticket.model, request.lane) in state.layout.bounded
        replica = place(state, request, kv_need(state, request) if bounded else 0)
    if replica is not None and choose(state, replica) is None:
        _admit(state, request)
        _start(state, request, replica, out, "set")
        return
    waiting = state.lane_queued[request.lane]
    if not tenant.may_wait:
        reason = Reason.QUEUE_FULL if tenant.may_run else Reason.CONCURRENCY_EXCEEDED
        out.append(Reject(ticket.id, reason, time_to_drain(state, tenant.queued + 1)))
    elif waiting >= state.policy.queue(request.lane).max_queue:
        request.conduct.dropped += 1.0
        out.append(Reject(ticket.id, Reason.QUEUE_FULL, time_to_drain(state, waiting)))
    elif ticket.budget is None or not refused_late(state, request, out):
        _admit(state, request)
        enqueue(state, request)
        if replica is None and state.layout.bounded:
            # It may yet fit when its answers turn out shorter, with no slot coming free.
            state.blocked.update(roomy(state, request))
        for other in _outside(state, request) if replica is None else (replica,):
            fill(state, other, out)
    elif request.ticket is not ticket:
        start_or_queue(state, request, out)


def _turned_away(state: State, request: Request, out: list[Decision]) -> bool:
    """Whether nothing more is to be done for a new request that may not run, or not as it is:
    it is refused, or has gone to a lighter model. One that waits for a start is queued."""
    refusal = turned_away(state, request)
    if refusal is None:
        return False
    waits = may_wait(state, request, refusal, out)
    if refusal.reason is Reason.NO_CAPACITY and lighten(state, request, refusal.reason, out):
        start_or_queue(state, request, out)
        return True
    if not waits:
        out.append(refusal)
    return not waits


def _outside(state: State, request: Request) -> Sequence[Replica]:
    """Replicas neither in the request's set nor in its spill that it might still be given:
    rather than miss its budget, or on loan."""
    if request.ticket.budget is not None and request.lane < 2:
        return state.layout.apart.get((request.ticket.model, request.lane), ())
    if request.lane == 2 and state.policy.lending.enabled:
        return [replica for replica in state.replicas.values() if replica.pool.dedicated]
    return ()


def _admit(state: State, request: Request) -> None:
    """Take a new request in."""
    join(state, request)
    state.requests[request.ticket.id] = request


def fill(state: State, replica: Replica, out: list[Decision], *, preempted: bool = False) -> None:
    """Give the replica's free slots to the requests they belong to."""
    bounded = replica.facts.kv_tokens is not None
    while replica.open(state.now):
        found = choose(state, replica, preempted=preempted)
        if found is None:
            return
        request, why = found
        if bounded and not fits(state, request, replica, kv_need(state, request)):
            # Smaller requests behind it must not keep it waiting for ever.
            state.blocked.add(replica.facts.name)
            return
        unqueue(state, request)
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
    if why == "guard" and not request.promoted:
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
    if state.paths:
        note_start(state, request, replica)
    if ticket.session:
        remember(state, request, replica)
    note_pick(state, replica)
    name, generation = replica.facts.name, replica.generation
    out.append(
        Dispatch(ticket.id, request.attempt, name, generation, waited, request.promoted, shown)
    )


def occupy(state: State, request: Request, replica: Replica) -> None:
    """Count a request as running on the replica from now on."""
    lane, facts = request.lane, replica.facts
    request.phase = RUNNING
    request.replica, request.dispatched = replica, state.now
    request.seen = 0
    request.kv = 0 if facts.kv_tokens is None else replica.need(kv_need(state, request))
    request.estimate = state.estimates.expected(request.ticket, facts.name, request.produced)
    replica.running += 1
    if replica.counted and replica.running <= facts.slots:
        state.free -= 1
    replica.turnover += 1.0 / (request.estimate or 1)
    replica.kv_used += request.kv
    use = replica.use
    use.running[lane] += 1
    use.promoted += request.promoted
    request.tenant.running += 1
    state.lane_running[lane] += 1
    if state.policy.mode != "fifo":
        charge(state, request)
    replica.holds[request.ticket.id] = request
    if lane == 2:
        state.stoppable += stoppable(request)


def stoppable(request: Request) -> bool:
    """Whether it is of the kind that preemption may stop while it runs."""
    return request.lane == 2 and not request.promoted and request.ticket.resume is not NEVER


def release(state: State, request: Request, *, lost: bool = False) -> Replica:
    """Take a running request off its replica and out of its business's running count.
    ``lost``: what it did will be done again, which its business is not charged for."""
    replica, lane = request.replica, request.lane
    assert replica is not None
    if replica.counted and replica.running <= replica.facts.slots:
        state.free += 1
    replica.running -= 1
    replica.kv_used -= request.kv
    use = replica.use
    use.running[lane] -= 1
    use.promoted -= request.promoted
    request.tenant.running -= 1
    state.lane_running[lane] -= 1
    if state.policy.mode != "fifo":
        settle(state, request, lost=lost)
    del replica.holds[request.ticket.id]
    if replica.holds:
        replica.turnover -= 1.0 / (request.estimate or 1)
    else:
        replica.turnover = 0.0  # whatever rounding has left
    if lane == 2:
        state.stoppable -= stoppable(request)
    if request.phase is YIELDING:
        state.yielding -= 1
    request.last = replica.facts.name
    request.replica = None
    request.phase = ENDED
    return replica
