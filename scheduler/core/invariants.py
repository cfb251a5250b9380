"""What must hold of a state after every step, and of every decision.

Said once for the property tests and for the search for counterexamples (``simulation.fuzz``); no
running system calls it. Each check raises BrokenInvariantError, whatever came before.
"""

from collections.abc import Iterable
from math import ceil, floor

from .aside import MOST_KEPT, kept_for
from .choice import allowed
from .completion import shut
from .decisions import Dispatch, Preempt, Promote
from .delay import MOST as MOST_DELAYED
from .placement import may_start
from .prefixes import MOST_BLOCKS, MOST_SESSIONS, Prefixes
from .replica import Replica
from .request import QUEUED, YIELDING, Request
from .state import State
from .ticket import CONTINUE, NEVER

MS = 1_000_000


class BrokenInvariantError(AssertionError):
    """The scheduler has broken one of its promises; the message says which, and of what."""


def hold(promise: object, *what: object) -> None:
    """Raise BrokenInvariantError unless the promise is true."""
    if not promise:
        raise BrokenInvariantError(" ".join(map(str, what)))


def check_counts(state: State) -> None:
    """Every count is a recount of the requests, by lane, business, pool and replica."""
    requests = list(state.requests.values())
    for lane in range(3):
        mine = [request for request in requests if request.lane == lane]
        running = sum(request.running for request in mine)
        counts = (state.lane_queued[lane], state.lane_running[lane])
        hold(counts == (len(mine) - running, running), "lane", lane, counts, len(mine), running)
    for name, tenant in state.tenants.items():
        own = [request for request in requests if request.ticket.business == name]
        running = sum(request.running for request in own)
        hold(tenant.running == running, "running of", name, tenant.running, running)
        hold(tenant.queued == len(own) - running, "queued of", name, tenant.queued)
        active = [sum(request.lane == lane for request in own) for lane in range(3)]
        hold(tenant.active == active, "active of", name, tenant.active, active)
        for model, conduct in tenant.conducts.items():
            mine = [r for r in own if r.ticket.model == model and not r.running]
            for lane in range(3):
                contexts = [r.context for r in mine if r.lane == lane]
                counts = (conduct.queued[lane], conduct.queued_tokens[lane])
                hold(counts == (len(contexts), sum(contexts)), "waiting of", name, model, counts)
    for lane in range(3):
        mine = [r for r in requests if r.lane == lane and not r.running]
        hold(state.lane_tokens[lane] == sum(r.context for r in mine), "tokens of lane", lane)
        kinds = {(r.ticket.business, r.ticket.model) for r in mine}
        hold(state.queuers[lane] == len(kinds), "queuers of lane", lane)
    hold(state.yielding == sum(request.phase is YIELDING for request in requests), "yielding")
    check_pools(state)
    for replica in state.replicas.values():
        here = [request for request in requests if request.replica is replica]
        hold(len(here) == len(replica.holds), replica.facts.name, "holds", len(here))
        check_replica(replica)
    check_delays(state)
    check_prefixes(state.prefixes)


def check_pools(state: State) -> None:
    """What each part of a pool is used for is what its replicas hold."""
    for replica in state.replicas.values():
        use = replica.use
        part = [other for other in state.replicas.values() if other.use is use]
        here = [request for other in part for request in other.holds.values()]
        lanes = [sum(request.lane == lane for request in here) for lane in range(3)]
        hold(use.running == lanes, "running beside", replica.facts.name, use.running, lanes)
        hold(use.promoted == sum(request.promoted for request in here), "promoted", use.promoted)


def check_delays(state: State) -> None:
    """Who waits for one replica alone waits, is in no line, and only few do."""
    known = {r.ticket.id: r.holder for r in state.requests.values() if r.holder}
    listed = {name: holder for holder, all_ in state.queues.delayed.items() for name in all_}
    hold(known == listed, "wait for one replica alone:", known, listed)
    ends = {request.ticket.id: until for until, _, request in state.queues.delays}
    for name in known:
        request = state.requests[name]
        hold(request.phase is QUEUED, name, "waits for a replica and runs")
        hold(name not in state.queues.aside, name, "is set aside twice")
        hold(ends.get(name) == request.delayed, name, "waits for a replica without end")
    for holder, waiting in state.queues.delayed.items():
        hold(len(waiting) <= MOST_DELAYED, len(waiting), "wait for", holder)


def check_prefixes(prefixes: Prefixes) -> None:
    """The index of prefixes is as large as it says, and within its bounds."""
    count = sum(len(cache.blocks) for cache in prefixes.caches.values())
    hold(prefixes.count == count <= MOST_BLOCKS, "blocks", prefixes.count, count)
    hold(len(prefixes.sessions) <= MOST_SESSIONS, "sessions", len(prefixes.sessions))
    for name, cache in prefixes.caches.items():
        tokens = sum(cache.blocks.values())
        hold(cache.tokens == tokens, name, "is believed to hold", cache.tokens, tokens)
        hold(all(size > 0 for size in cache.blocks.values()), name, "holds empty blocks")
    for block, name in prefixes.latest.items():
        known = prefixes.caches.get(name)
        hold(known is not None and block in known.blocks, name, "does not hold", block)


def check_replica(replica: Replica) -> None:
    """Its slots and KV cache are those of what it holds, and no more than it has."""
    name, held = replica.facts.name, replica.holds.values()
    hold(replica.running == len(replica.holds), name, "runs", replica.running)
    tokens = sum(request.kv for request in held)
    hold(replica.kv_used == tokens, name, "counts", replica.kv_used, "tokens of", tokens)
    hold(all(request.kv >= request.named >= 0 for request in held), name, "holds less than nothing")
    named = sum(request.named for request in held)
    hold(replica.kv_named == named, name, "counts", replica.kv_named, "in blocks of", named)
    if replica.facts.kv_tokens is not None:
        hold(tokens <= replica.facts.kv_tokens, name, "holds", tokens, "tokens")


def check_limits(state: State, decision: Dispatch) -> None:
    """No dispatch leaves a replica, a lane or a business over its limit."""
    request = state.requests[decision.request]
    replica = state.replicas[decision.replica]
    pool, policy, lane = replica.use, state.policy, request.lane
    name = replica.facts.name
    hold(replica.running <= replica.facts.slots, name, "runs", replica.running)
    hold(replica.serving(), name, "is not in service")
    hold((decision.replica, decision.generation) not in request.tried, name, "has failed it")
    tenant = state.tenant(request.ticket.business)
    if tenant.running_limit is not None:
        hold(tenant.running <= tenant.running_limit, request.ticket.business, "is over its limit")
    if lane in replica.lanes:
        model = request.ticket.model
        resting = request.tried and model in replica.rest[lane]
        takes = replica.could_take(model, lane, request.ticket.level)
        hold(resting or takes, name, "does not take", request.ticket)
        hold(_tried_by_few(replica, model), "too many try", model, "on", name)
        bound = lane == 2 and not policy.queues.P2.borrow and policy.mode != "fifo"
        if bound and not request.promoted:
            share = max(1, floor(policy.queues.P2.max_occupy * pool.slots + 1e-9))
            hold(pool.running[2] - pool.promoted <= share, "P2 has more than", share)
    else:
        lent = lane == 2 and not request.promoted and replica.pool.dedicated
        hold(lent and policy.lending.enabled, name, "is not for lane", lane)
        hold(pool.free >= policy.lending.keep_free, "too much is lent of", name)


def _tried_by_few(replica: Replica, model: str) -> bool:
    """Whether the model's breaker there is closed, or is tried by no more requests than may, that
    which has just been started included."""
    circuit = replica.circuits.get(model)
    if circuit is None:
        return True
    mine = [r for r in replica.holds.values() if r.ticket.model == model]
    trials = sum(request.dispatched >= circuit.until for request in mine)
    return circuit.trying and trials <= circuit.probes


def check_promoted(state: State, decision: Promote) -> None:
    """Promoted is overdue P2, into a few slots of its pool."""
    request = state.requests[decision.request]
    hold(request.lane == 2, decision.request, "is not of P2")
    patience = state.policy.queues.P2.max_wait_ms * MS
    hold(state.now - request.ticket.arrived >= patience, decision.request, "is not overdue")
    hold(request.replica is not None, decision.request, "does not run")
    if request.replica is not None:
        pool = request.replica.use
        most = ceil(state.policy.starvation.pool_share * pool.slots)
        hold(pool.promoted <= most, "more are promoted than", most)


def check_preempted(state: State, decision: Preempt) -> None:
    """Stopped is P2 that may be, by who comes before it and could run there."""
    victim, urgent = state.requests[decision.request], state.requests[decision.beneficiary]
    replica, rules = victim.replica, state.policy.preemption
    hold(replica is not None, decision.request, "does not run")
    if replica is None:
        return
    hold(victim.lane == 2 and urgent.lane < 2, "of lane", victim.lane, "for", urgent.lane)
    hold(state.policy.queue(urgent.lane).preempt, "lane", urgent.lane, "may stop nobody")
    hold(not victim.promoted, decision.request, "was promoted")
    hold(victim.preempted <= rules.max_per_request, decision.request, "was stopped too often")
    resume = victim.ticket.resume
    hold(resume is not NEVER, decision.request, "is no victim")
    hold(resume is CONTINUE or not victim.seen, decision.request, "has been seen")
    hold(replica.serving() and replica.busy_until <= state.now, replica.facts.name, "is away")
    ticket = urgent.ticket
    takes = replica.takes(ticket.model, urgent.lane, ticket.level) and not urgent.avoids(replica)
    hold(takes, replica.facts.name, "does not take", ticket)
    hold(state.tenant(ticket.business).may_run, ticket.business, "may run no more")
    lent = replica.pool.dedicated and 2 not in replica.lanes
    gains = decision.gain - decision.cost >= rules.margin_ms * MS
    hold(lent or gains, "nothing is gained", decision)


def check_work_conserving(state: State, waiting: Iterable[Request]) -> None:
    """None of these waiting requests could use a slot of its placement set that is free, nor an
    overdue one a slot for such, unless the replica is kept for a larger one ahead, or has enough to
    prefill, or many larger ones come first, or it waits for another replica, which has its prefix;
    in mode fifo a single one that came before."""
    waiting = list(waiting)
    share = state.policy.starvation.pool_share
    patience = state.policy.queues.P2.max_wait_ms * MS
    open_now = [replica for replica in state.replicas.values() if replica.open(state.now)]
    shut_for = _shut_for(state, waiting, open_now)
    for request in waiting if open_now else ():
        if not state.tenant(request.ticket.business).may_run:
            continue
        if len(kept_for(state, (request.ticket.model, request.lane))) >= MOST_KEPT:
            continue
        overdue = request.lane == 2 and state.now - request.ticket.arrived >= patience
        overdue = overdue and state.policy.mode != "fifo"
        inside = placement_set(state, request)
        for replica in open_now:
            name = replica.facts.name
            due = name in inside and allowed(state, replica.use, request.lane)
            due = (due and request.holder in ("", name)) or (
                overdue and replica.use.promotable(share)
            )
            blocked = (request.ticket.model, request.lane, name) in shut_for
            if due and not blocked and not _comes_later(state, waiting, request, replica):
                hold(not could_take(state, request, replica), request.ticket, "waits for", name)


def _shut_for(
    state: State, waiting: list[Request], open_now: list[Replica]
) -> set[tuple[str, int, str]]:
    """Models, lanes and replicas where one that waits does so until the replica has less to
    prefill."""
    return {
        (request.ticket.model, request.lane, replica.facts.name)
        for replica in open_now
        for request in waiting
        if shut(state, request, replica)
    }


def _comes_later(state: State, waiting: list[Request], request: Request, replica: Replica) -> bool:
    """Whether, in mode fifo, one that came before waits for the replica, whatever for."""
    return state.policy.mode == "fifo" and any(
        (other.ticket.arrived, other.sequence) < (request.ticket.arrived, request.sequence)
        and replica.takes(other.ticket.model, other.lane, other.ticket.level)
        for other in waiting
    )


def check_order(state: State, decision: Dispatch, waiting: Iterable[Request]) -> None:
    """Mode strict: nobody of a higher lane who waited before and could use the slot waits on, but
    for those at whose head is one for whom the replica has enough to prefill."""
    chosen = state.requests.get(decision.request)
    if state.policy.mode != "strict" or decision.promoted or chosen is None or not chosen.lane:
        return
    replica, waiting = state.replicas[decision.replica], list(waiting)
    closed = {(r.ticket.model, r.lane) for r in waiting if shut(state, r, replica)}
    for other in waiting:
        ticket = other.ticket
        if (
            other.lane < chosen.lane
            and state.tenant(ticket.business).may_run
            and replica.takes(ticket.model, other.lane, ticket.level)
            and not other.avoids(replica)
            and other.holder in ("", replica.facts.name)
            and (ticket.model, other.lane) not in closed
            and replica.facts.name in placement_set(state, other)
        ):
            bounded = replica.facts.kv_tokens is not None
            smaller = not bounded or (
                other.context <= chosen.kv and other.variance <= chosen.variance
            )
            hold(not smaller, ticket, "waits while", decision.request, "runs on", decision.replica)


def check_rest(state: State) -> None:
    """Once every request has ended, everything is free and nothing is kept of them."""
    hold(not state.requests, "requests are left:", sorted(state.requests))
    counts = (*state.lane_queued, *state.lane_running, state.stoppable, state.yielding)
    hold(not any(counts), "counts are left:", counts)
    queues = state.queues
    hold(not (queues.waiting or queues.retries or queues.aside), "queues are not empty")
    hold(not queues.delayed, "requests wait for one replica alone")
    hold(not any((*queues.lanes, *queues.missed)), "lines are left in the queues")
    hold(not (any(state.lane_tokens) or any(state.queuers)), "tokens are left in the queues")
    for replica in state.replicas.values():
        hold(not replica.running and not replica.kv_used, replica.facts.name, "is not free")
        hold(not replica.prefills and not replica.stoppable, replica.facts.name, "has work")
    for name, tenant in state.tenants.items():
        hold(not (tenant.running or tenant.queued or any(tenant.active)), name, "is not at rest")


def placement_set(state: State, request: Request) -> set[str]:
    """Names of the replicas whose slots the request could use."""
    tiers = state.layout.sets.get((request.ticket.model, request.lane), ())
    return {replica.facts.name for tier in tiers for replica in tier}


def could_take(state: State, request: Request, replica: Replica) -> bool:
    """Whether the replica has a slot and KV cache for the request, and would take it."""
    ticket = request.ticket
    takes = replica.takes(ticket.model, request.lane, ticket.level)
    return takes and may_start(state, request, replica)
