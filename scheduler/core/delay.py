"""Delay scheduling: a request waits a little for the replica that holds its prompt's beginning.

Where that has no room just now, and another one has, going there computes again what is held, and
displaces there what others need. More often than not a slot of the holder comes free in a fraction
of that time. So the request waits for it, once, and no longer than what it saves is worth; then it
goes wherever there is room. Meanwhile it stands in no line: nobody waits behind it, and of the
holder's slots only those that come free go to it, when its turn has come by lane and level.
"""

from .aside import rank
from .completion import completion, shut
from .placement import left_behind, may_start, place
from .replica import Replica
from .request import Request
from .state import State
from .waiting import latest

# So many wait for one replica at most.
MOST = 16


def holder_to_wait_for(state: State, request: Request, replica: Replica) -> Replica | None:
    """The replica that the request, for which another one has room, should rather wait for."""
    ticket, policy, prefixes = request.ticket, state.policy, state.prefixes
    if not ticket.blocks or request.delayed or request.produced or request.missed:
        return None
    if policy.placement.mode != "completion" or policy.mode == "fifo":
        return None
    holder = state.replicas.get(prefixes.home("", ticket.blocks))
    if holder is None or holder is replica or not _takes(state, request, holder):
        return None
    worth = left_behind(state, request, replica, prefixes.tokens(holder.facts.name, ticket.blocks))
    wait = _wait(state, request, holder) if worth else 0.0
    if not 0.0 < wait < worth or state.now + worth > latest(state, request):
        return None
    here = completion(state, request, replica) + worth
    return holder if wait + completion(state, request, holder) < here else None


def wait_for(state: State, request: Request, holder: Replica, replica: Replica) -> None:
    """Let a request of the queue wait for the holder instead of going to the replica."""
    most = state.prefixes.tokens(holder.facts.name, request.ticket.blocks)
    until = state.now + int(left_behind(state, request, replica, most)) + 1
    state.queues.delay(request, holder.facts.name, until)


def first_delayed(state: State, replica: Replica) -> Request | None:
    """Of the requests that wait for the replica the first that may start there."""
    waiting = state.queues.delayed.get(replica.facts.name)
    if not waiting:
        return None
    able = [
        request
        for request in waiting.values()
        if replica.takes(request.ticket.model, request.lane, request.ticket.level)
        and request.tenant.may_run
        and may_start(state, request, replica)
    ]
    return min(able, key=rank, default=None)


def end_delays(state: State) -> None:
    """Those that have waited long enough take their places in the queue, and what has room for them
    is to be filled."""
    ended = state.queues.overdue_delays(state.now)
    for request in ended:
        state.queues.end_delay(request)
    for request in ended:
        replica = place(state, request)
        if replica is not None:
            state.queues.vacated.append(replica.facts.name)


def lose_holder(state: State, holder: str) -> None:
    """A replica holds nothing any more, or takes no work: nobody waits for it alone."""
    for request in list(state.queues.delayed.get(holder, {}).values()):
        state.queues.end_delay(request)


def _takes(state: State, request: Request, holder: Replica) -> bool:
    ticket, name = request.ticket, holder.facts.name
    return (
        holder.serving()
        and holder.busy_until <= state.now
        and holder.takes(ticket.model, request.lane, ticket.level)
        and not request.avoids(holder)
        and len(state.queues.delayed.get(name, ())) < MOST
    )


def _wait(state: State, request: Request, holder: Replica) -> float:
    """ns until the holder is expected to take the request; 0: it might now, or nobody knows."""
    wait = 0.0
    if holder.running >= holder.facts.slots or not holder.fits(request.context, request.variance):
        ahead = len(state.queues.delayed.get(holder.facts.name, ()))
        wait = (1 + ahead) / holder.turnover if holder.turnover > 0.0 else 0.0
    if shut(state, request, holder):
        wait = max(wait, sum(holder.prefill_ns[: request.lane + 1]))
    return wait
