"""When pausing a running job pays: gain against cost.

For urgent requests that wait with no free slot, running P2 attempts are weighed one by one:

gain = (expected wait without preemption - time to free the slot) x P0's weight
       + the deadline missed otherwise
cost = work to be done again + the victim's added delay x P2's weight
       + a share of both for each earlier pause

All in ns from expected tokens, tokens so far and measured speeds. The best positive
difference above a margin wins; estimates travel with the decision to be judged later.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from math import ceil

from .aside import claim, claims_before, passes, patience_with
from .choice import MS
from .completion import shut
from .decisions import Decision, Preempt
from .outstanding import remaining
from .placement import is_large_enough
from .replica import Replica
from .request import YIELDING, Request
from .state import State
from .victims import Victim, enough, may_stop, weigh

# Claims made in one step, and replicas looked at for one: others are as good.
MOST_CLAIMS = 16
MOST_LOOKED_AT = 8
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
    # Short waits are not worth a look at each event, but estimates may be wrong.
    tick = policy.tick_ms * MS
    if state.now < state.looked + tick and not _worth_a_look(state, lanes):
        state.look_again = state.looked + tick
        return
    state.looked, state.look_again = state.now, state.now + tick
    passed: set[tuple[int, int, str]] = set()
    for _ in range(MOST_CLAIMS):
        found = next(_urgent(state, lanes, passed), None)
        if found is None:
            return
        kind, request = found
        offer = _best_offer(state, request)
        if offer is None:
            # Others of its model and level find nobody to stop either; those of other models may.
            passed.add(kind)
            continue
        for victim in offer.victims:
            _stop(state, victim.request, request, offer, out)
        replica = offer.victims[0].request.replica
        assert replica is not None
        claim(state, request, replica)


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


def _urgent(
    state: State, lanes: list[int], passed: set[tuple[int, int, str]]
) -> Iterator[tuple[tuple[int, int, str], Request]]:
    """The waiting requests that may preempt and come first of their model and level, the most
    urgent first; those in ``passed`` are left out."""
    for lane in lanes:
        found = []
        for level, model, line in state.queues.lines(lane):
            kind = (lane, level, model)
            if kind in passed or (model, lane) not in state.layout.sets:
                continue  # one that waits for a replica must not stand in the way of others
            head = line.peek(state.tenants)
            if head is not None and not head[1].missed and _may_claim(state, head[1]):
                found.append((level, head[0], head[1].sequence, kind, head[1]))
        for _, _, _, kind, request in sorted(found, key=lambda item: item[:3]):
            yield kind, request


def _may_claim(state: State, request: Request) -> bool:
    """Whether its business may run one more beside those that have a slot made for them already."""
    tenant = request.tenant
    if tenant.running_limit is None:
        return True
    claims = sum(
        bool(found.until) and found.request.tenant is tenant
        for found in state.queues.aside.values()
    )
    return tenant.may_run_beside(claims)


def _best_offer(state: State, request: Request) -> Offer | None:
    """The best victims for a waiting request; None when it doesn't pay to stop any."""
    where = list(islice(_where(state, request), MOST_LOOKED_AT))
    if not where:
        return None
    wait = _expected_wait(state, request, where)
    offers = [
        offer for replica in where if (offer := _offer(state, replica, request, wait)) is not None
    ]
    return min(offers, key=Offer.rank, default=None)


def _where(state: State, request: Request) -> Iterator[Replica]:
    """Replicas for the request where something may be stopped. Slots on loan count, be the
    request's set elsewhere or not."""
    ticket = request.ticket
    for group in state.layout.groups.values():
        for replica in group.stoppable.values():
            if not replica.takes(ticket.model, request.lane, ticket.level):
                break  # and none of its group does
            if (
                replica.serving()
                and replica.busy_until <= state.now
                and not request.avoids(replica)
                and passes(state, request, replica, claims=False)
                and is_large_enough(state, request, replica)
            ):
                yield replica


def _expected_wait(state: State, request: Request, where: list[Replica]) -> int:
    """Time (ns) that is won by one more slot now: all that wait for the same move up by one, so it
    is what the last of them would wait until so many slots have come free by themselves. When these
    do is told by what runs on the replicas ``where`` something may be stopped, and some others, as
    a sample. Slots that are about to be left are left to those who claim them."""
    waiting, flow = state.queues.waiting, (request.ticket.model, request.lane)
    count = sum(waiting.get((request.ticket.model, lane), 0) for lane in range(request.lane + 1))
    count -= claims_before(state, *flow)
    ends: list[int] = []
    for replica in _sample(state, flow, where):
        if shut(state, request, replica) and replica.running < replica.facts.slots:
            ends.append(int(remaining(replica, state.now)))
        else:
            ends += [
                held.remaining(state.now)
                for held in replica.holds.values()
                if not _leaves(state, held, replica)
            ]
    if not ends:
        return state.service
    place = max(1, count) * len(ends) / max(len(ends), state.layout.slots.get(flow, 0))
    if place < 1.0:
        return int(place * min(ends))
    return nsmallest(ceil(place), ends)[-1] if place <= len(ends) else _by_rate(state, flow, count)


def _sample(state: State, flow: tuple[str, int], where: list[Replica]) -> list[Replica]:
    found = list(where)
    for group in state.layout.sets.get(flow, ()):
        for replica in group:
            if len(found) >= MOST_LOOKED_AT:
                return found
            if replica not in where:
                found.append(replica)
    return found


def _by_rate(state: State, flow: tuple[str, int], count: int) -> int:
    rate = state.turnover(*flow)
    return int(count / rate) if rate else state.service * count


def _leaves(state: State, running: Request, replica: Replica) -> bool:
    return running.phase is YIELDING and state.now < running.stopped + patience_with(replica)


def _offer(state: State, replica: Replica, request: Request, wait: int) -> Offer | None:
    """The fewest victims on one replica that free a slot and enough KV cache, if they pay
    against a ``wait`` (ns)."""
    newest = reversed(replica.stoppable.values())
    candidates = [weigh(state, held) for held in newest if may_stop(state, held)]
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
    # A start after ``latest`` misses the budget.
    if state.now + stopping <= request.latest < state.now + wait:
        gain += min(request.ticket.budget or 0, MOST_MISS)
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
