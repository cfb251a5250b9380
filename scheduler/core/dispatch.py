"""The moves a request makes between queue and replica: start, release."""

from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from .admission import lighten, refused_late, too_many, turned_away
from .aside import first_served, keep, passes, precedence, rank, reseat
from .caching import enter
from .caching import leave as leave_cache
from .choice import choose, overdue_here
from .cold import may_wait
from .completion import completion, prefill_of
from .decisions import Decision, Dispatch, Promote, Reason, Reject
from .delay import first_delayed, holder_to_wait_for, wait_for
from .outstanding import advance, begin, closed, leave, tidy
from .paths import note_start
from .placement import may_start, place, served
from .queues import Aside
from .replica import Replica
from .request import ENDED, RUNNING, YIELDING, Request
from .scoring import note_pick, scores
from .shares import charge, join, settle
from .state import State
from .victims import stoppable
from .waiting import enqueue, measure, time_to_drain, unqueue

# Candidates and what they cost are given with one dispatch in so many.
TRACED = 100


def start_or_queue(state: State, request: Request, out: list[Decision]) -> None:
    """Run a new request at once if it can, else queue it, else refuse it."""
    ticket = request.ticket
    tenant = request.tenant
    unusual = state.breakers or state.broken or state.watching
    if (
        unusual or tenant.suspended or tenant.running_limit == 0 or not served(state, request)
    ) and _turned_away(state, request, out):
        return
    measure(state, request)
    replica = None
    if state.free and tenant.may_run:
        replica = place(state, request)
    if replica is not None and choose(state, replica) is None:
        _admit(state, request)
        _start_or_wait(state, request, replica, out)
        return
    if not tenant.may_wait:
        reason = Reason.QUEUE_FULL if tenant.may_run else Reason.CONCURRENCY_EXCEEDED
        out.append(Reject(ticket.id, reason, time_to_drain(state, tenant.queued + 1)))
    elif too_many(state, request):
        request.conduct.dropped += 1.0
        waiting = state.lane_queued[request.lane]
        out.append(Reject(ticket.id, Reason.QUEUE_FULL, time_to_drain(state, waiting)))
    elif not refused_late(state, request, out):
        _admit(state, request)
        enqueue(state, request)
        for other in _outside(state, request) if replica is None else (replica,):
            fill(state, other, out)
    elif request.ticket is not ticket:
        start_or_queue(state, request, out)


def _start_or_wait(state: State, request: Request, replica: Replica, out: list[Decision]) -> None:
    """Run a new request on the replica, unless it should wait for the one that has its prefix."""
    if request.ticket.blocks and request.tenant.may_wait and not too_many(state, request):
        holder = holder_to_wait_for(state, request, replica)
        if holder is not None:
            enqueue(state, request)
            wait_for(state, request, holder, replica)
            return
    start(state, request, replica, out, "set")


def _turned_away(state: State, request: Request, out: list[Decision]) -> bool:
    """Whether nothing more is to be done for a new request that may not run, or not as it is:
    it is refused, or has gone to a lighter model. One that waits for a start is queued."""
    layout = state.layout
    refusal = turned_away(state, request)
    if state.layout is not layout:
        # What it may try now may be tried by one that has waited for longer.
        fill_all(state, out)
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


def fill(state: State, replica: Replica, out: list[Decision]) -> None:
    """Give the replica's free slots to the requests they belong to."""
    skip: set[tuple[str, int]] = set()
    while replica.open(state.now):
        if state.lane_queued[2]:
            overdue = overdue_here(state, replica)
            if overdue is not None and not replica.fits(overdue.context, overdue.variance):
                keep(state, overdue, overdue=True)
        found = _next(state, replica, skip)
        if found is None:
            return
        request, why = found
        if not replica.fits(request.context, request.variance):
            if state.policy.mode == "fifo":
                return
            # Smaller ones behind it must not keep it waiting for ever, nor it them.
            if not keep(state, request, overdue=False):
                skip.add((request.ticket.model, request.lane))
        elif why != "guard" and state.queues.aside and not passes(state, request, replica):
            skip.add((request.ticket.model, request.lane))
        elif (
            request.ticket.blocks
            and why == "set"
            and (holder := _holder(state, request, replica)) is not None
        ):
            wait_for(state, request, holder, replica)
        else:
            unqueue(state, request)
            start(state, request, replica, out, why)


def _next(
    state: State, replica: Replica, skip: Collection[tuple[str, int]]
) -> tuple[Request, str] | None:
    """Of those that wait for the replica alone, those set aside and those in line whose turn it is
    there, and why."""
    if not state.queues.aside and not state.queues.delayed:
        return choose(state, replica, skip)
    found = _next_of_all(state, replica, skip)
    if state.queues.delayed and (found is None or found[1] != "guard"):
        delayed = first_delayed(state, replica)
        if delayed is not None and (found is None or rank(delayed) < rank(found[0])):
            return delayed, "set"
    return found


def _holder(state: State, request: Request, replica: Replica) -> Replica | None:
    """The replica that a request in line should rather wait for."""
    if request.ticket.id in state.queues.aside or request.holder:
        return None
    return holder_to_wait_for(state, request, replica)


def _next_of_all(
    state: State, replica: Replica, skip: Collection[tuple[str, int]]
) -> tuple[Request, str] | None:
    if not state.queues.aside:
        return choose(state, replica, skip)
    aside = _startable(state, replica)
    found = choose(state, replica, skip)
    if aside is None or found is None:
        return found if aside is None else (aside.request, "set")
    if aside.until and aside.replica == replica.facts.name:
        # Unless its claim has made it pass one that came before it.
        ahead = found[1] != "guard" and rank(found[0]) < rank(aside.request)
        return found if ahead else (aside.request, "set")
    if found[1] == "guard":
        return found
    # It was at the head of its line when it was set aside.
    if aside.request.lane <= found[0].lane:
        return aside.request, "set"
    return found


def _startable(state: State, replica: Replica) -> Aside | None:
    """The first of those set aside that may start on the replica; one that has a claim there goes
    before its equals."""
    found = None
    for aside in first_served(state):
        request = aside.request
        if (
            replica.takes(request.ticket.model, request.lane, request.ticket.level)
            and request.tenant.may_run
            and may_start(state, request, replica)
        ):
            if found is None:
                found = aside
            if precedence(state, found.request) < precedence(state, request):
                break
            if aside.until and aside.replica == replica.facts.name:
                return aside
    return found


def fill_vacated(state: State, out: list[Decision]) -> None:
    """Fill replicas that were kept for requests which need them no longer."""
    vacated = state.queues.vacated
    while vacated:
        replica = state.replicas.get(vacated.pop())
        reseat(state)
        if replica is not None:
            fill(state, replica, out)


def fill_moved(state: State, out: list[Decision]) -> None:
    """Where one has left a line, the next may find more of its prompt than that on a replica which
    has enough to prefill."""
    moved = state.queues.moved
    while moved:
        flow = moved.pop()
        if state.gates and flow in state.queues.waiting:
            head = state.queues.foremost(flow, state.tenants)
            if head is not None and head.ticket.blocks:
                replica = place(state, head)
                if replica is not None:
                    fill(state, replica, out)


def fill_all(state: State, out: list[Decision]) -> None:
    """``fill`` every replica: dedicated ones first, then the emptiest."""
    if any(state.lane_queued):
        if state.queues.aside:
            reseat(state)
        for replica in sorted(
            (r for r in state.replicas.values() if r.open(state.now)),
            key=lambda r: (not r.pool.dedicated, r.running / r.facts.slots, r.facts.name),
        ):
            fill(state, replica, out)
            if not any(state.lane_queued):
                return


def start(state: State, request: Request, replica: Replica, out: list[Decision], why: str) -> None:
    """Run a request that waits nowhere on the replica; ``why`` as in ``choose``."""
    ticket = request.ticket
    waited = state.now - ticket.arrived
    if why == "guard" and not request.promoted:
        request.promoted = True
        out.append(Promote(ticket.id, waited))
    state.dispatches += 1
    shown: tuple[tuple[str, float], ...] = ()
    if state.dispatches % TRACED == 0:
        shown = _traced(state, request, replica)
    request.attempt += 1
    occupy(state, request, replica)
    if state.paths:
        note_start(state, request, replica)
    if state.policy.placement.mode == "score":
        note_pick(state, replica)
    name, generation = replica.facts.name, replica.generation
    out.append(
        Dispatch(ticket.id, request.attempt, name, generation, waited, request.promoted, shown)
    )


def _traced(state: State, request: Request, replica: Replica) -> tuple[tuple[str, float], ...]:
    """The replicas of the request's set with their scores, or with when it would be done there (s
    from now, and what that costs others)."""
    groups = state.layout.sets.get((request.ticket.model, request.lane), ())
    candidates = [r for group in groups for r in group][:TRACED] or [replica]
    if state.policy.placement.mode == "score":
        return tuple(
            (name, round(score, 4)) for score, name, _ in scores(state, request, candidates)
        )
    rated = [(completion(state, request, r) / 1e9, r.facts.name) for r in candidates]
    return tuple((name, round(seconds, 4)) for seconds, name in sorted(rated))


def occupy(state: State, request: Request, replica: Replica) -> None:
    """Count a request as running on the replica from now on."""
    lane, facts, now = request.lane, replica.facts, state.now
    advance(replica, now)
    replica.running += 1
    request.phase = RUNNING
    request.replica, request.dispatched = replica, now
    request.seen, request.first, request.prefill = 0, 0, 0.0
    request.kv = 0 if facts.kv_tokens is None else replica.need(request.context)
    running = float(replica.running)
    ticket, estimates = request.ticket, state.estimates
    if request.generative:
        request.prefill = prefill_of(state, request, replica)
        decoding = estimates.decoding(ticket, facts.name, running, request.produced)
        request.estimate = int(request.prefill + decoding + sum(replica.prefill_ns))
        # What was never measured closes no replica.
        known = estimates.prefill_known(ticket.model)
        until = begin(replica, request, request.prefill if known else 0.0, now)
        if closed(replica, 2):
            heappush(state.gates, (until, facts.name))
    else:
        request.estimate = estimates.expected(ticket, facts.name, running, request.produced)
    if replica.counted and replica.running <= facts.slots:
        state.free -= 1
    rate = 1.0 / (request.estimate or 1)
    replica.turnover += rate
    replica.kv_used += request.kv
    if ticket.blocks or ticket.session:
        enter(state, request, replica)
    replica.kv_variance += request.variance
    replica.kv_turnover += request.kv * rate
    replica.holds[request.ticket.id] = request
    replica.use.running[lane] += 1
    if request.promoted:
        replica.use.promoted += 1
    request.tenant.running += 1
    state.lane_running[lane] += 1
    if state.policy.mode != "fifo":
        charge(state, request, replica)
    if lane == 2 and stoppable(state, request):
        state.stoppable += 1
        replica.stoppable[request.ticket.id] = request
    group = replica.group
    if group is not None:
        group.turnover += rate
        if replica.stoppable:
            group.stoppable[facts.name] = replica
        group.touch(replica)


def open_gates(state: State, out: list[Decision]) -> None:
    """Let replicas take work again of which it is not believed any longer that they prefill."""
    while state.gates and state.gates[0][0] <= state.now:
        replica = state.replicas.get(heappop(state.gates)[1])
        if replica is not None and tidy(replica, state.now):
            if replica.group is not None:
                replica.group.touch(replica)
            fill(state, replica, out)


def release(state: State, request: Request, *, lost: bool = False) -> Replica:
    """Take a running request off its replica and out of its business's running count.
    ``lost``: what it did will be done again, which its business is not charged for."""
    replica, lane = request.replica, request.lane
    assert replica is not None
    leave(replica, request, state.now)
    if replica.counted and replica.running <= replica.facts.slots:
        state.free += 1
    replica.running -= 1
    replica.kv_used -= request.kv
    replica.kv_variance -= request.variance
    if request.named or state.prefixes.caches:
        leave_cache(state, request, replica)
    replica.use.running[lane] -= 1
    if request.promoted:
        replica.use.promoted -= 1
    request.tenant.running -= 1
    state.lane_running[lane] -= 1
    if state.policy.mode != "fifo":
        settle(state, request, replica, lost=lost)
    del replica.holds[request.ticket.id]
    rate = 1.0 / (request.estimate or 1)
    if replica.holds:
        replica.turnover -= rate
        replica.kv_turnover -= request.kv * rate
    else:
        # Whatever rounding has left.
        replica.turnover = replica.kv_turnover = replica.kv_variance = 0.0
    if replica.stoppable.pop(request.ticket.id, None) is not None:
        state.stoppable -= 1
    group = replica.group
    if group is not None:
        group.turnover -= rate
        if not replica.stoppable:
            group.stoppable.pop(replica.facts.name, None)
        group.touch(replica, left=True)
    if request.phase is YIELDING:
        state.yielding -= 1
    request.last = replica.facts.name
    request.replica = None
    request.phase = ENDED
    return replica
