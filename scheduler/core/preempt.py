"""When pausing a running job pays: gain against cost.

For urgent requests that wait with no free slot, running P2 attempts are weighed one by one:

gain = (expected wait without preemption - time to free the slot) x P0's weight
       + the deadline missed otherwise
cost = work to be done again + the victim's added delay x P2's weight
       + a share of both for each earlier pause

All in ns from expected tokens, tokens so far and measured speeds. The best positive
difference above a margin wins; estimates travel with the decision to be judged later.
"""

from collections import Counter
from dataclasses import dataclass
from heapq import nsmallest

from .choice import MS
from .decisions import Decision, Preempt
from .dispatch import kv_need
from .placement import is_large_enough
from .replica import Replica
from .request import YIELDING, Request
from .state import State
from .victims import Victim, enough, may_stop, weigh

# Urgent requests looked at in one step: more would wait for the first ones' slots anyway.
MOST_LOOKED_AT = 16
# A missed deadline counts as so much waiting at most, however long the budget.
MOST_MISS = 10_000 * MS


@dataclass(frozen=True, slots=True)
class Offer:
    """What stopping some requests of one replica brings and costs (ns)."""

    gain: int
    cost: int
    victims: list[Victim]

    def rank(self) -> tuple[int, int, tuple[int, int, int, int]]:
        """The lower the better; of equals the fewest, lowest and youngest victims."""
        return self.cost - self.gain, len(self.victims), self.victims[0].rank


def consider(state: State, out: list[Decision]) -> None:
    """Decide on preemptions for the urgent requests that wait now."""
    policy = state.policy
    lanes = [lane for lane in (0, 1) if state.lane_queued[lane] and policy.queue(lane).preempt]
    if not (lanes and policy.preemption.enabled) or policy.mode == "fifo":
        return
    if sum(state.lane_queued[lane] for lane in lanes) <= state.yielding:
        return
    # Short waits are not worth a look at each event, but estimates may be wrong.
    tick = policy.tick_ms * MS
    if state.now < state.looked + tick and not _worth_a_look(state, lanes):
        state.look_again = state.looked + tick
        return
    state.looked, state.look_again = state.now, state.now + tick
    waiting = _urgent(state, lanes)
    for place, request in enumerate(waiting[state.yielding :], start=state.yielding):
        offer = _best_offer(state, request, place)
        if offer is None:
            return
        for victim in offer.victims:
            _stop(state, victim.request, request, offer, out)


def _worth_a_look(state: State, lanes: list[int]) -> bool:
    """Whether slots are lent, or any urgent request can expect to wait longer than the margin."""
    if state.policy.lending.enabled:
        return True
    margin = state.policy.preemption.margin_ms * MS
    for (model, lane), count in state.queues.waiting.items():
        if lane in lanes:
            ends = state.turnover(model, lane)
            if count > margin * ends:
                return True
    return False


def _urgent(state: State, lanes: list[int]) -> list[Request]:
    """Waiting requests that may preempt and could run, in order, as far as it pays to look."""
    most = MOST_LOOKED_AT + state.yielding
    found: list[Request] = []
    for lane in lanes:
        levels = state.queues.lanes[lane]
        for level in sorted(levels):
            for line in levels[level].values():
                found += line.foremost(most)
            if len(found) >= most and state.policy.by_level(lane):
                break
        found += [request for request in state.queues.retries if request.lane == lane]
    started: Counter[str] = Counter()
    urgent = []
    for request in nsmallest(
        len(found), found, key=lambda r: (r.lane, r.ticket.level, r.key, r.sequence)
    ):
        business = request.ticket.business
        if (request.ticket.model, request.lane) not in state.layout.sets:
            continue  # it waits for a replica, and must not stand in the way of others
        if request.tenant.may_run_beside(started[business]):
            started[business] += 1
            urgent.append(request)
    return urgent[:most]


def _best_offer(state: State, request: Request, place: int) -> Offer | None:
    """The best victims for one waiting request, ``place`` others being ahead of it; None when
    it doesn't pay to stop any."""
    ticket, tokens = request.ticket, kv_need(state, request)
    where = [
        replica
        for replica in state.replicas.values()
        if replica.serving()
        and replica.busy_until <= state.now
        and replica.takes(ticket.model, request.lane, ticket.level)
        and not request.avoids(replica)
        and is_large_enough(state, request, replica, tokens)
    ]
    if not where:
        return None
    wait = _expected_wait(state, where, place)
    offers = [
        offer for replica in where if (offer := _offer(state, replica, request, wait)) is not None
    ]
    return min(offers, key=Offer.rank, default=None)


def _expected_wait(state: State, where: list[Replica], place: int) -> int:
    """Time (ns) until a slot for the request at this place in the queue comes free by itself."""
    ends = [_ends_in(state, held) for replica in where for held in replica.holds.values()]
    soonest = nsmallest(place + 1, ends)
    return soonest[-1] if len(soonest) > place else state.service


def _ends_in(state: State, running: Request) -> int:
    if running.phase is YIELDING and running.replica is not None:
        return max(0, running.stopped + running.replica.stopping - state.now)
    return running.remaining(state.now)


def _offer(state: State, replica: Replica, request: Request, wait: int) -> Offer | None:
    """The fewest victims on one replica that free a slot and enough KV cache, if they pay
    against a ``wait`` (ns)."""
    candidates = [weigh(state, held) for held in replica.holds.values() if may_stop(state, held)]
    victims = enough(state, replica, request, candidates)
    if victims is None:
        return None
    cost = sum(victim.cost for victim in victims)
    gain = _gain(state, request, wait, replica.stopping)
    lent = replica.pool.dedicated and 2 not in replica.lanes
    if not lent and gain - cost < state.policy.preemption.margin_ms * MS:
        return None
    return Offer(gain, cost, victims)


def _gain(state: State, request: Request, wait: int, stopping: int) -> int:
    """Weighted time (ns) that the request wins when a slot is free ``stopping`` ns from now
    instead of after the ``wait``."""
    queues, weight = state.policy.queues, state.policy.preemption.weights.P0
    if request.lane:
        weight *= queues.P1.weight / queues.P0.weight
    gain = int((wait - stopping) * weight)
    budget = request.ticket.budget
    if budget is not None:
        due = request.ticket.arrived + budget
        service = state.estimates.typical(request.ticket, request.work)
        if state.now + stopping + service <= due < state.now + wait + service:
            gain += min(budget, MOST_MISS)
    return gain


def _stop(
    state: State, victim: Request, request: Request, offer: Offer, out: list[Decision]
) -> None:
    assert victim.replica is not None
    victim.phase = YIELDING
    victim.preempted += 1
    victim.stopped = state.now
    state.yielding += 1
    out.append(
        Preempt(
            request=victim.ticket.id,
            attempt=victim.attempt,
            replica=victim.replica.facts.name,
            generation=victim.replica.generation,
            beneficiary=request.ticket.id,
            gain=offer.gain,
            cost=offer.cost,
            remain=max(found.left for found in offer.victims),
        )
    )
