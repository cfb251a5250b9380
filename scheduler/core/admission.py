"""Who is let in: nobody who is suspended, held back, or would wait longer than it may.

A request is refused for its latency budget only if the *least* wait that it can have is too
long: the requests of its own model that come before it, over the rate at which slots that may
take them come free. Its model must have been measured; each refusal
takes from the confidence in what was, and one in ``probe_every`` is let in all the same, so
that no stale estimate locks anybody out.

Who would be refused so, or because no replica is there, gets a lighter model instead where its
ticket names one that can take it in time and ``admission.degrade`` is on.
"""

from dataclasses import replace

from .breaker import held_back
from .cold import time_to_start
from .decisions import Decision, Degrade, Reason, Reject
from .demand import note_arrival
from .estimates import EXPLORED
from .placement import served
from .request import Request
from .state import State

MS = 1_000_000
NS = 1_000_000_000


def turned_away(state: State, request: Request) -> Reject | None:
    """The refusal of a new request that may not run, or could not whatever came free."""
    refusal = _held_back(state, request) or _no_capacity(state, request)
    return Reject(request.ticket.id, *refusal) if refusal is not None else None


def _held_back(state: State, request: Request) -> tuple[Reason, int] | None:
    """Reason and wait (ns) where its business or its lane may not run at present."""
    tenant, pressure = request.tenant, state.pressure
    if tenant.suspended:
        return Reason.TENANT_SUSPENDED, state.service
    wait = held_back(state, request.ticket.business) if state.breakers else 0
    if wait:
        return Reason.TENANT_SUSPENDED, wait
    if request.lane == 2 and pressure.active and "throttle_P2" in state.policy.backpressure.action:
        return Reason.BACKPRESSURE, max(NS, pressure.wait)
    if tenant.running_limit == 0:
        return Reason.CONCURRENCY_EXCEEDED, state.service
    return None


def _no_capacity(state: State, request: Request) -> tuple[Reason, int] | None:
    if not served(state, request):
        return Reason.NO_CAPACITY, time_to_start(state, request.ticket.model)
    wait = all_broken(state, request) if state.broken else 0
    return (Reason.NO_CAPACITY, wait) if wait else None


def all_broken(state: State, request: Request) -> int:
    """Time (ns) until a replica for the request may be tried again, if all of them have open
    breakers; else 0."""
    ticket, lane = request.ticket, request.lane
    ends = [
        replica.busy_until if replica.probes else 0
        for replica in state.replicas.values()
        if replica.serving() and replica.takes(ticket.model, lane, ticket.level)
    ]
    return max(0, min(ends, default=0) - state.now)


def refused_late(state: State, request: Request, out: list[Decision]) -> bool:
    """Refuse a new request that would come too late, but for those let in to see if it is so.
    Where a lighter model comes in time the ticket is one for that instead."""
    late, admission = too_late(state, request), state.policy.admission
    if not late:
        return False
    state.hopeless += 1
    if state.hopeless % admission.probe_every == 0:
        return False
    state.estimates.doubt(request.ticket.model)
    if lighten(state, request, Reason.LATENCY_BUDGET, out, late):
        return True
    request.conduct.dropped += 1.0
    out.append(Reject(request.ticket.id, Reason.LATENCY_BUDGET, late))
    return True


def lighten(
    state: State, request: Request, reason: Reason, out: list[Decision], late: int = 0
) -> bool:
    """Make a new request one for the first lighter model that it may have and that can take it
    in time, if there is one."""
    full = request.ticket
    if not full.lighter or not state.policy.admission.degrade:
        return False
    for model in full.lighter:
        request.ticket = replace(full, model=model, lighter=())
        if _no_capacity(state, request) is None and not too_late(state, request):
            request.work = note_arrival(state, request.ticket)
            request.conduct = request.tenant.conduct(model)
            request.cold = False
            out.append(Degrade(full.id, model, reason, late))
            return True
    request.ticket, request.least = full, 0
    return False


def too_late(state: State, request: Request) -> int:
    """How much longer (ns) than its budget allows a new request would wait at least; 0 if it
    may come in time, or nothing is known."""
    budget, lane = request.ticket.budget, request.lane
    if budget is None or not state.policy.admission.latency_budget or state.policy.mode == "fifo":
        return 0
    wait = request.least = least_wait(state, request)
    if state.policy.queue(lane).budget_on == "completion" and known(state, request.ticket.model):
        wait += state.estimates.foreseen(request.ticket)
    return max(0, wait - budget)


def known(state: State, model: str) -> bool:
    """Whether the model's service time has been measured well enough to refuse by it."""
    mean = state.estimates.models.get(model)
    return mean is not None and mean.samples >= EXPLORED


def least_wait(state: State, request: Request) -> int:
    """The least time (ns) until a slot for a request that comes now is free."""
    model, lane, level = request.ticket.model, request.lane, request.ticket.level
    waiting = state.queues.waiting
    if not any((model, other) in waiting for other in range(lane + 1)) or not known(state, model):
        return 0
    queue = state.policy.queue(lane)
    if queue.preempt and state.policy.preemption.enabled and state.stoppable:
        return 0
    ahead = _ahead(state, request)
    ends = 0.0
    for replica in state.replicas.values():
        if replica.takes(model, lane, level) and replica.serving():
            if replica.open(state.now):
                return 0
            ends += replica.turnover
    return int(ahead / ends) if ends else 0


def _ahead(state: State, request: Request) -> float:
    """Requests of its model that come before a new one: those of higher lanes, of higher levels
    where these are strict, and of its equals as many as its business's turns let by, however
    many others have queued."""
    ticket, lane, tenant = request.ticket, request.lane, request.tenant
    by_level = state.policy.by_level(lane)
    ahead, equals, own = 0, 0, 0
    for other in range(lane):
        ahead += state.queues.waiting.get((ticket.model, other), 0)
    for level, models in state.queues.lanes[lane].items():
        line = models.get(ticket.model)
        if line is None or (by_level and level > ticket.level):
            continue
        if by_level and level < ticket.level:
            ahead += line.live
        else:
            equals += line.live
            own += len(line.heaps.get(ticket.business, ()))
    others = max(1.0, state.weights[lane] / tenant.weight)
    return ahead + min(equals, own * others)
