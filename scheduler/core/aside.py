"""Requests set aside from their lines, because room is made for them.

An urgent request for which running work was told to stop has a *claim* on what comes free there.
One at the head of its queue that fits into no KV cache yet has one replica *kept* for it, and only
one at a time of each model and lane; those behind it go on elsewhere. Either takes whatever room
comes up before, and nobody behind it waits for what it waits for.
"""

from .conduct import note_missed
from .queues import Aside
from .replica import Replica
from .request import Request
from .state import State

SECOND = 1_000_000_000
# A victim may take so many times as long to stop as it usually takes there, and no less than this
# (ns), until its beneficiary looks for another.
PATIENCE, LEAST = 4, 2 * SECOND
# Of each model and lane so many are set aside at once because they do not fit; more of them at the
# head of the queue keep waiting there.
MOST_KEPT = 32


def claim(state: State, request: Request, replica: Replica) -> None:
    """Work on the replica was told to stop for a waiting request."""
    until = state.now + patience_with(replica)
    found = Aside(request, replica.facts.name, until, (request.lane, request.ticket.level))
    state.queues.set_aside(request, found)


def patience_with(replica: Replica) -> int:
    """How long (ns) after it was told so a victim there is still expected to stop."""
    return max(LEAST, PATIENCE * replica.stopping)


def claims_before(state: State, model: str, lane: int) -> int:
    """Claims of requests for the model, in this lane and those above."""
    return sum(
        bool(found.until) and found.request.ticket.model == model and found.request.lane <= lane
        for found in state.queues.aside.values()
    )


def keep(state: State, request: Request, *, overdue: bool) -> bool:
    """Set a request aside that fits nowhere yet, and keep a replica for it, unless one is kept for
    another of its model and lane. False: enough of them are set aside. One that is ``overdue``
    lets only P0 pass."""
    flow = (request.ticket.model, request.lane)
    known = state.queues.aside.get(request.ticket.id)
    bar = (1, 0) if overdue else precedence(state, request)
    if known is not None:
        known.bar = min(bar, known.bar)
        return True
    same = kept_for(state, flow)
    if len(same) >= MOST_KEPT:
        return False
    found = Aside(request, "", 0, bar)
    state.queues.set_aside(request, found)
    if not any(other.replica for other in same):
        _give_replica(state, found)
    return True


def kept_for(state: State, flow: tuple[str, int]) -> list[Aside]:
    """Those of a flow that are set aside because they are too big for the room there is."""
    return [
        found
        for found in state.queues.aside.values()
        if not found.until and flow == (found.request.ticket.model, found.request.lane)
    ]


def reseat(state: State) -> None:
    """Keep a replica for the first of each model and lane that has none, or whose has gone."""
    served: set[tuple[str, int]] = set()
    for found in first_served(state):
        flow = (found.request.ticket.model, found.request.lane)
        if not found.until and flow not in served:
            served.add(flow)
            replica = state.replicas.get(found.replica)
            if replica is None or not replica.serving():
                _give_replica(state, found)


def _give_replica(state: State, found: Aside) -> None:
    """The replica where it should fit soonest of those that are kept for nobody."""
    request, layout = found.request, state.layout
    taken = {other.replica for other in state.queues.aside.values()}
    rated: list[tuple[float, str]] = []
    for group in layout.sets.get((request.ticket.model, request.lane), ()):
        for replica in group:
            most, name = replica.facts.kv_tokens, replica.facts.name
            if most is not None and name not in taken and not request.avoids(replica):
                short = replica.kv_used + replica.need(request.context) - most
                ends = replica.kv_turnover
                rated.append((short / ends if ends else float("inf"), name))
    found.replica = min(rated, default=(0.0, ""))[1]


def passes(state: State, request: Request, replica: Replica, *, claims: bool = True) -> bool:
    """Whether the request may start on the replica although that may be kept for another, or
    vacated for one by its claim."""
    for found in state.queues.aside.values():
        if (
            found.replica == replica.facts.name
            and found.request is not request
            and _goes_before(found, request, claims=claims)
        ):
            return False
    return True


def _goes_before(found: Aside, request: Request, *, claims: bool) -> bool:
    if found.until:
        return claims and rank(found.request) < rank(request)
    return (request.lane, request.ticket.level) >= found.bar


def first_served(state: State) -> list[Aside]:
    """Those set aside, in the order in which they are offered room."""
    return sorted(state.queues.aside.values(), key=lambda found: rank(found.request))


def miss(state: State) -> None:
    """Who has missed its budget meanwhile has no room made for it any more."""
    for found in list(state.queues.aside.values()):
        if not found.until and found.request.latest < state.now and not found.request.missed:
            note_missed(found.request)
            state.queues.put_back(found.request)
            if found.replica:
                state.queues.vacated.append(found.replica)


def rank(request: Request) -> tuple[int, int, int, int]:
    """Who comes first of those for whom room is made."""
    return request.lane, request.ticket.level, request.key, request.sequence


def precedence(state: State, request: Request) -> tuple[int, int]:
    """Its lane, and its level where the lane serves one level before the next."""
    return request.lane, request.ticket.level if state.policy.by_level(request.lane) else 0


def give_up(state: State) -> None:
    """End claims on what did not come free in time: who has one takes its place in the queue again,
    and may look for other victims."""
    for found in list(state.queues.aside.values()):
        if found.until and found.until <= state.now:
            state.queues.put_back(found.request)


def next_end(state: State) -> int:
    """When the next claim is given up (ns); 0: there is none."""
    return min((found.until for found in state.queues.aside.values() if found.until), default=0)
