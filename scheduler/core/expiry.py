"""The end of a wait: what has waited past its lane's time limit is refused, or moved down."""

from heapq import heappop

from .choice import MS
from .decisions import Decision, Reason, Reject
from .dispatch import start
from .placement import place, served
from .request import QUEUED, Request
from .shares import join, leave
from .state import State
from .waiting import end, enqueue, patience, time_to_drain, unqueue


def expire(state: State, out: list[Decision]) -> None:
    """Refuse, or move down, what has waited past its lane's time limit."""
    while state.expiries and state.expiries[0][0] <= state.now:
        _, _, request = heappop(state.expiries)
        if request.phase is not QUEUED or state.requests.get(request.ticket.id) is not request:
            continue
        if request.since + patience(state, request) > state.now:
            continue  # an entry from before it ran, or moved down
        if not (_starts(state, request, out) or _moves_down(state, request)):
            _refuse(state, request, out)


def _starts(state: State, request: Request, out: list[Decision]) -> bool:
    """Start a request that was held back only because replicas have enough to prefill: better that
    it waits there than that it is refused, as long as it may be in time and nobody more urgent
    waits."""
    if (
        not request.generative
        or request.latest < state.now
        or not request.tenant.may_run
        or any(state.lane_queued[: request.lane])
    ):
        return False
    replica = place(state, request, gated=False)
    if replica is None:
        return False
    unqueue(state, request)
    start(state, request, replica, out, "set")
    return True


def _moves_down(state: State, request: Request) -> bool:
    """Move the request to the next lane, where the policy says so and somebody serves it there."""
    lane = request.lane
    if state.policy.queue(lane).on_timeout != "move_down":
        return False
    level = request.ticket.level
    levels = state.layout.levels.get((request.ticket.model, lane + 1), ())
    if not any(least <= level <= most for least, most in levels):
        return False
    unqueue(state, request)
    leave(state, request)
    request.lane, request.key = lane + 1, 0
    join(state, request)
    enqueue(state, request)
    return True


def _refuse(state: State, request: Request, out: list[Decision]) -> None:
    name = request.ticket.id
    cold = request.cold and not served(state, request)
    waiting = state.lane_queued[request.lane]
    end(state, request)
    if cold:
        rest = int(state.policy.failover.open_s * 1000 * MS)
        out.append(Reject(name, Reason.NO_CAPACITY, rest))
        return
    request.conduct.dropped += 1.0
    out.append(Reject(name, Reason.QUEUE_TIMEOUT, time_to_drain(state, waiting)))
