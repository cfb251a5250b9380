"""Who may be stopped for more urgent work, what that costs, and how few it takes."""

from math import ceil
from typing import NamedTuple

from .choice import MS, next_slot
from .completion import shut
from .replica import SPARE, Replica
from .request import RUNNING, YIELDING, Request
from .state import State
from .ticket import CONTINUE, NEVER


class Victim(NamedTuple):
    """A running request, what stopping it would cost (weighted ns), and what it would still
    run (ns)."""

    request: Request
    cost: int
    left: int

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Who is stopped first: the cheapest; of equals the lowest level, then the youngest."""
        request = self.request
        return self.cost, -request.ticket.level, -request.dispatched, -request.sequence


def stoppable(state: State, request: Request) -> bool:
    """Whether it is of the kind that preemption may stop while it runs, and was not stopped as
    often as it may be: who can't be stopped is no candidate that each event looks at."""
    return (
        request.lane == 2
        and not request.promoted
        and request.ticket.resume is not NEVER
        and request.preempted < state.policy.preemption.max_per_request
    )


def list_stoppable(state: State) -> None:
    """Find those that may be stopped by a new policy; groups are to be made anew."""
    state.stoppable = 0
    # Some run on replicas that have left the fleet.
    held = [request.replica for request in state.requests.values() if request.replica is not None]
    for replica in {id(replica): replica for replica in held}.values():
        replica.stoppable = {
            name: request for name, request in replica.holds.items() if stoppable(state, request)
        }
        state.stoppable += len(replica.stoppable)


def may_stop(state: State, running: Request) -> bool:
    """Whether a request may be stopped at all, and would not be over before it has stopped."""
    rules, ticket, replica = state.policy.preemption, running.ticket, running.replica
    return (
        running.phase is RUNNING
        and replica is not None
        and stoppable(state, running)
        and (ticket.resume is CONTINUE or not running.seen)
        and (not running.preempted or state.now - running.stopped >= rules.cooldown_ms * MS)
        and running.remaining(state.now) > replica.stopping
    )


def weigh(state: State, running: Request) -> Victim:
    """What it costs to stop a running request: work done again, and its delay until it has a
    slot again and has done that."""
    ticket, held = running.ticket, state.now - running.dispatched
    left, again = running.remaining(state.now), held
    if ticket.resume is CONTINUE and (ticket.prompt or ticket.output):
        share = held / max(1, held + left)
        tokens = running.produced + share * state.estimates.tokens(ticket)
        assert running.replica is not None
        name = running.replica.facts.name
        again = min(held, state.estimates.resuming(ticket, name, tokens))
    delay = again + next_slot(state, ticket.model, 2)
    cost = again + delay * state.policy.preemption.weights.P2
    return Victim(running, int(cost * (1 + 0.5 * running.preempted)), left)


def enough(
    state: State, replica: Replica, request: Request, candidates: list[Victim]
) -> list[Victim] | None:
    """The fewest of the candidates, and of so many the cheapest, whose end lets the request
    run on the replica; None where all of them are too few."""
    slots = max(1, replica.running + 1 - replica.facts.slots)
    short = 0
    if replica.facts.kv_tokens is not None:
        spare = SPARE * max(0.0, replica.kv_variance + request.variance) ** 0.5
        short = (
            ceil(replica.kv_used + replica.need(request.context) + spare) - replica.facts.kv_tokens
        )
    most = len(candidates)
    if state.policy.mode == "weighted":
        most = min(most, _above_minimum(state, replica))
    if shut(state, request, replica):
        return None  # nor would it start there with a slot
    cheapest = sorted(candidates, key=lambda victim: victim.rank)
    if short <= 0:
        return cheapest[:slots] if slots <= most else None
    for count in range(slots, most + 1):
        if _largest(cheapest, count) >= short:
            return _cheapest(cheapest, count, short)
    return None


def _largest(candidates: list[Victim], count: int) -> int:
    """KV tokens that the largest so many hold."""
    return sum(sorted((victim.request.kv for victim in candidates), reverse=True)[:count])


def _cheapest(candidates: list[Victim], count: int, short: int) -> list[Victim]:
    """One by one the cheapest with which the others of so many can still free enough."""
    chosen: list[Victim] = []
    rest = candidates
    while count:
        for victim in rest:
            others = [other for other in rest if other is not victim]
            if victim.request.kv + _largest(others, count - 1) >= short:
                break
        else:
            raise AssertionError("so many were enough")
        chosen.append(victim)
        short -= victim.request.kv
        rest, count = others, count - 1
    return chosen


def _above_minimum(state: State, replica: Replica) -> int:
    """Mode weighted: how many P2 attempts the pool has beyond the lane's least share."""
    pool = replica.use
    yielding = sum(
        held.phase is YIELDING
        for other in state.replicas.values()
        if other.use is pool
        for held in other.holds.values()
    )
    return pool.running[2] - yielding - ceil(state.policy.queues.P2.min_share * pool.slots)
