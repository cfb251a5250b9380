"""When pausing a running job pays: gain against cost.

For urgent requests that wait with no free slot, running P2 attempts are weighed one by one:

gain = (expected wait without preemption - time to free the slot) x P0's weight
       + the deadline missed otherwise
cost = work to be done again + the victim's added delay x P2's weight
       + a share of both for each earlier pause

All in ns from expected tokens, tokens so far and measured speeds. The best positive
difference above a margin wins; estimates travel with the decision to be judged later.
"""

from heapq import nsmallest

from .choice import MS, next_slot
from .decisions import Decision, Preempt
from .dispatch import stoppable
from .estimates import PREFILL_PER_DECODE
from .replica import Replica
from .request import Phase, Request
from .state import State
from .ticket import Resume

# Urgent requests looked at in one step: more would wait for the first ones' slots anyway.
MOST_LOOKED_AT = 16
# A missed deadline counts as so much waiting at most, however long the budget.
MOST_MISS = 10_000 * MS


def consider(state: State, out: list[Decision]) -> None:
    """Decide on preemptions for the urgent requests that wait now."""
    policy = state.policy
    state.look_again = 0
    if not (policy.preemption.enabled and policy.queues.P0.preempt and state.stoppable):
        return
    if policy.mode == "fifo" or state.lane_queued[0] <= state.yielding:
        return
    if not policy.lending.enabled and not _worth_a_look(state):
        return
    state.look_again = state.now + policy.tick_ms * MS
    waiting = _urgent(state)
    for place, request in enumerate(waiting[state.yielding :], start=state.yielding):
        if not _help(state, request, place, out):
            return


def _worth_a_look(state: State) -> bool:
    """Whether any urgent request can expect to wait longer than preemption would take."""
    margin = state.policy.preemption.margin_ms * MS
    return any(
        next_slot(state, model, 0) * count > margin
        for (model, lane), count in state.queues.waiting.items()
        if lane == 0
    )


def _urgent(state: State) -> list[Request]:
    """Waiting P0 requests whose business may run, in order, as far as it pays to look."""
    found: list[Request] = []
    levels = state.queues.lanes[0]
    for level in sorted(levels):
        for line in levels[level].values():
            for business, heap in line.heaps.items():
                if state.tenant(business).may_run:
                    found += [e[2] for e in heap if e[2].phase is Phase.QUEUED]
    found += [r for r in state.queues.retries if r.lane == 0]
    return nsmallest(MOST_LOOKED_AT, found, key=lambda r: (r.ticket.level, r.key, r.sequence))


def _help(state: State, request: Request, place: int, out: list[Decision]) -> bool:
    """Find victims for one waiting request; False when none pays. ``place`` others are
    ahead of it."""
    ticket = request.ticket
    where = [
        replica
        for replica in state.replicas.values()
        if replica.serving()
        and (replica.takes(ticket.model, 0, ticket.level))
        and not request.avoids(replica)
    ]
    if not where:
        return False
    wait = _expected_wait(state, where, place)
    best: tuple[int, int, int, list[Request]] | None = None
    for replica in where:
        found = _victims_on(state, replica, request, wait)
        if found is not None and (best is None or found[0] - found[1] > best[0] - best[1]):
            best = found
    if best is None:
        return False
    gain, cost, remain, victims = best
    for victim in victims:
        _stop(state, victim, request, (gain, cost, remain), out)
    return True


def _expected_wait(state: State, where: list[Replica], place: int) -> int:
    """Time (ns) until a slot for the request at this place in the queue comes free by itself."""
    ends = [remaining(state, held) for replica in where for held in replica.holds.values()]
    soonest = nsmallest(place + 1, ends)
    return soonest[-1] if len(soonest) > place else state.service


def remaining(state: State, running: Request) -> int:
    """Slot time (ns) that a running request is still expected to hold."""
    held = state.now - running.dispatched
    # What has outrun its estimate is expected to need a tenth of its time again.
    return max(running.estimate - held, held // 10)


def _victims_on(
    state: State, replica: Replica, request: Request, wait: int
) -> tuple[int, int, int, list[Request]] | None:
    """The fewest victims on one replica that free a slot and enough KV cache: (gain, cost,
    what they would still have run, victims), or None where it doesn't pay."""
    rules = state.policy.preemption
    lent = replica.pool.dedicated and 2 not in replica.pool.lanes
    candidates = [
        (cost, left, victim.sequence, victim)
        for victim in replica.holds.values()
        if _may_stop(state, victim)
        if (left := remaining(state, victim)) > state.stopping
        for cost in (_cost(state, victim, left),)
    ]
    if not candidates:
        return None
    candidates.sort(key=lambda item: item[:3])
    chosen: list[Request] = []
    cost = remain = 0
    need = replica.need(request.ticket.prompt + state.estimates.tokens(request.ticket))
    short = 0
    if replica.facts.kv_tokens and request.ticket.prompt:
        short = replica.kv_used + need - replica.facts.kv_tokens
    for its_cost, left, _, victim in candidates:
        chosen.append(victim)
        cost += its_cost
        remain = max(remain, left)
        short -= victim.kv
        if short <= 0:
            break
    if short > 0:
        return None
    gain = _gain(state, request, wait)
    if not lent and gain - cost < rules.margin_ms * MS:
        return None
    return gain, cost, remain, chosen


def _may_stop(state: State, victim: Request) -> bool:
    rules, ticket = state.policy.preemption, victim.ticket
    return (
        victim.phase is Phase.RUNNING
        and stoppable(victim)
        and (ticket.resume is Resume.CONTINUE or not victim.seen)
        and victim.preempted < rules.max_per_request
        and (not victim.preempted or state.now - victim.stopped >= rules.cooldown_ms * MS)
    )


def _gain(state: State, request: Request, wait: int) -> int:
    saved = wait - state.stopping
    gain = int(saved * state.policy.preemption.weights.P0)
    budget = request.ticket.budget
    if budget is not None:
        due = request.ticket.arrived + budget
        service = state.estimates.typical(request.ticket)
        if state.now + state.stopping + service <= due < state.now + wait + service:
            gain += min(budget, MOST_MISS)
    return gain


def _cost(state: State, victim: Request, left: int) -> int:
    """Work done again, and the victim's delay: until it has a slot again, and what it redoes."""
    ticket, held = victim.ticket, state.now - victim.dispatched
    again = held
    if ticket.resume is Resume.CONTINUE and (ticket.prompt or ticket.output):
        share = held / max(1, held + left)
        tokens = victim.produced + share * state.estimates.tokens(ticket)
        assert victim.replica is not None
        unit = state.estimates.per_unit(ticket.model, victim.replica.facts.name)
        again = min(held, int(unit * (ticket.prompt + tokens) / PREFILL_PER_DECODE))
    delay = again + next_slot(state, ticket.model, 2)
    cost = again + delay * state.policy.preemption.weights.P2
    return int(cost * (1 + 0.5 * victim.preempted))


def _stop(
    state: State,
    victim: Request,
    request: Request,
    figures: tuple[int, int, int],
    out: list[Decision],
) -> None:
    assert victim.replica is not None
    victim.phase = Phase.YIELDING
    victim.preempted += 1
    victim.stopped = state.now
    state.yielding += 1
    gain, cost, remain = figures
    out.append(
        Preempt(
            request=victim.ticket.id,
            attempt=victim.attempt,
            replica=victim.replica.facts.name,
            generation=victim.replica.generation,
            beneficiary=request.ticket.id,
            gain=gain,
            cost=cost,
            remain=remain,
        )
    )
