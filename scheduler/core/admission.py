"""Who is let in: nobody who is suspended, held back, or would wait longer than it may.

A request is refused for its latency budget only if it would be late with the *least* wait that
it can have: the requests of its own model that come before it, over the rate at which slots that
may take them come free. Its own time counts at the policy's quantile. Its model must have been
measured of late: estimates age with time, and one refusal in ``probe_every`` is let in all the
same, so that no stale estimate locks anybody out.

Who would be refused so, or because no replica is there, gets a lighter model instead where its
ticket names one that can take it in time and ``admission.degrade`` is on.
"""

from dataclasses import replace
from statistics import NormalDist

from .breaker import held_back
from .circuits import all_broken, second_opinion
from .cold import time_to_start
from .decisions import Decision, Degrade, Reason, Reject
from .demand import note_arrival, renew_layout
from .placement import served
from .request import Request
from .state import State
from .waiting import needed

STANDARD = NormalDist()
MS = 1_000_000
NS = 1_000_000_000


def turned_away(state: State, request: Request) -> Reject | None:
    """The refusal of a new request that may not run, or could not whatever came free."""
    refusal = _held_back(state, request)
    if refusal is None and state.broken and second_opinion(state, request):
        renew_layout(state)
    refusal = refusal or _no_capacity(state, request) or _pressed(state, request)
    return Reject(request.ticket.id, *refusal) if refusal is not None else None


def _held_back(state: State, request: Request) -> tuple[Reason, int] | None:
    """Reason and wait (ns) where its business or its lane may not run at present."""
    tenant = request.tenant
    if tenant.suspended:
        return Reason.TENANT_SUSPENDED, state.service
    ticket = request.ticket
    wait = held_back(state, ticket.business, ticket.model) if state.breakers else 0
    if wait:
        return Reason.TENANT_SUSPENDED, wait
    if tenant.running_limit == 0:
        return Reason.CONCURRENCY_EXCEEDED, state.service
    return None


def _no_capacity(state: State, request: Request) -> tuple[Reason, int] | None:
    if not served(state, request):
        return Reason.NO_CAPACITY, time_to_start(state, request.ticket.model)
    wait = all_broken(state, request) if state.broken else 0
    return (Reason.NO_CAPACITY, wait) if wait else None


def _pressed(state: State, request: Request) -> tuple[Reason, int] | None:
    if request.lane < 2 or "refuse_P2" not in state.policy.backpressure.action:
        return None
    wait = state.pressure.holds(request.ticket.model)
    return (Reason.BACKPRESSURE, max(NS, wait)) if wait else None


def too_many(state: State, request: Request) -> bool:
    """Whether the lane's queue has no room for a new request. While it is full, in tickets or in
    tokens, a business still has an even part of these for each of its models, one request at
    least, so that nobody is shut out by others' floods."""
    lane, queue = request.lane, state.policy.queue(request.lane)
    own = request.conduct.queued[lane]
    if not own and state.lane_queued[lane]:
        return False
    parts = max(1, state.queuers[lane])
    if state.lane_queued[lane] >= queue.max_queue and own * parts >= queue.max_queue:
        return True
    tokens, most = request.conduct.queued_tokens[lane], queue.max_queue_tokens
    full = state.lane_tokens[lane] + request.context > most
    return full and (tokens + request.context) * parts > most


def refused_late(state: State, request: Request, out: list[Decision]) -> bool:
    """Refuse a new request that would come too late, but for those let in to see if it is so.
    Where a lighter model comes in time the ticket is one for that instead."""
    late, admission = too_late(state, request), state.policy.admission
    if not late:
        return False
    state.hopeless += 1
    if state.hopeless % admission.probe_every == 0:
        return False
    if lighten(state, request, Reason.LATENCY_BUDGET, out, late):
        return True
    request.conduct.dropped += not request.ticket.budget_named
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
        request.ticket = replace(full, model=model, lighter=(), blocks=())
        if (full.business, model) in state.breakers:
            continue
        if _no_capacity(state, request) is None and not too_late(state, request):
            request.answer = note_arrival(state, request.ticket)
            request.conduct = request.tenant.conduct(model)
            request.cold = False
            out.append(Degrade(full.id, model, reason, late))
            return True
    request.ticket, request.least = full, 0
    return False


def too_late(state: State, request: Request) -> int:
    """How much longer (ns) than its budget allows a new request would take; 0 if it
    may come in time, or nothing is known."""
    budget = request.ticket.budget
    if budget is None or not state.policy.admission.latency_budget or state.policy.mode == "fifo":
        return 0
    wait = request.least = least_wait(state, request)
    deviations = STANDARD.inv_cdf(state.policy.admission.quantile)
    return max(0, wait + needed(state, request, deviations) - budget)


def least_wait(state: State, request: Request) -> int:
    """The least time (ns) until a slot for a request that comes now is free."""
    model, lane = request.ticket.model, request.lane
    waiting = state.queues.waiting
    if not any((model, other) in waiting for other in range(lane + 1)):
        return 0
    if not state.estimates.known(model, state.now):
        return 0
    ahead = _ahead(state, request)
    if state.policy.queue(lane).preempt and state.policy.preemption.enabled:
        freed = _stoppable(state, request, ahead + 1.0)
        if freed > ahead:
            return 0
        ahead -= freed
    ends = state.turnover(model, lane)
    return int(ahead / ends) if ends else 0


def _stoppable(state: State, request: Request, enough: float) -> int:
    """Slots for such a request that preemption could free; no more are counted than ``enough``."""
    count = 0
    for group in state.layout.groups.values() if state.stoppable else ():
        for replica in group.stoppable.values():
            if count >= enough or not replica.takes(
                request.ticket.model, request.lane, request.ticket.level
            ):
                break
            count += len(replica.stoppable)
    return count


def _ahead(state: State, request: Request) -> float:
    """Requests of its model that come before a new one: those of higher lanes, of higher levels
    where these are strict, and of its equals as many as its business's turns let by, however
    many others have queued."""
    ticket, lane, tenant = request.ticket, request.lane, request.tenant
    by_level = state.policy.by_level(lane)
    ahead, equals = 0, 0
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
    own = request.conduct.queued[lane]
    others = max(1.0, state.weights[lane] / tenant.weight)
    return ahead + min(equals, own * others)
