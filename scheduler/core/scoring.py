"""``placement.mode: score``: replicas weighed by how idle they are, and one drawn of the best.

``w1(1 - gpu) + w2(1 - memory) + w3(1 - queue)``, less for one that is slower for the model, and
more for the one that has most of the prompt in its cache. What has just come back is empty, and
looks better to each request in turn than the next second will show, so starts are damped.
"""

from collections.abc import Iterable

from .replica import Replica
from .request import Request
from .state import State

SECOND = 1_000_000_000
# Fewer starts in a second say nothing of whose turn it was.
FEW = 4
# Figures older than this (ns) count as unknown, never as idle.
STALE = 10_000_000_000
UNKNOWN = 0.5


def best_by_score(
    state: State, request: Request, tier: Iterable[Replica], free: list[Replica]
) -> Replica:
    """The replica that should take the request, of those of a tier that are free."""
    if len(free) < 2:
        return free[0]
    scored = scores(state, request, free)
    best = scored[0][0]
    placement = state.policy.placement
    near = [replica for score, _, replica in scored if best - score <= placement.band]
    chosen = near[state.draw(min(len(near), placement.top_k))]
    if chosen.picked >= FEW:
        return _damped(state, request, tier, chosen, [replica for _, _, replica in scored])
    return chosen


def _damped(
    state: State,
    request: Request,
    tier: Iterable[Replica],
    chosen: Replica,
    others: list[Replica],
) -> Replica:
    """The chosen one, or the best of the others if it has been given more than is its due in
    the last second. A request's own home is not damped."""
    if chosen.facts.name in (request.last, _home(state, request)):
        return chosen
    forget_picks(state)
    slots, picked = 0, 1
    for replica in tier:
        slots += replica.facts.slots
        picked += replica.picked
    due = state.policy.placement.most_share * picked / slots
    if chosen.picked >= due * chosen.facts.slots:
        for replica in others:
            if replica.picked < due * replica.facts.slots:
                return replica
    return chosen


def note_pick(state: State, replica: Replica) -> None:
    """A request starts there."""
    replica.picked += 1
    state.picks.append((state.now, replica))
    forget_picks(state)


def forget_picks(state: State) -> None:
    """Let go of what is longer than a second ago."""
    picks, before = state.picks, state.now - SECOND
    while picks and picks[0][0] <= before:
        picks.popleft()[1].picked -= 1


def _home(state: State, request: Request) -> str:
    ticket = request.ticket
    return request.last or state.prefixes.home(ticket.session, ticket.blocks)


def scores(
    state: State, request: Request, replicas: list[Replica]
) -> list[tuple[float, str, Replica]]:
    """Placement scores, best first; equal ones by name."""
    placement, estimates = state.policy.placement, state.estimates
    weights = (placement.weights.gpu, placement.weights.memory, placement.weights.queue)
    model, home = request.ticket.model, _home(state, request)
    times = {r.facts.name: estimates.expected(request.ticket, r.facts.name) for r in replicas}
    fastest = max(1, min(times.values()))  # nanoseconds
    found = []
    for replica in replicas:
        name = replica.facts.name
        score = idleness(replica, state.now, weights)
        slower = times[name] / fastest - 1.0
        # Noise of measurement must not beat load: only what is clearly slower counts.
        if slower > 0.25 and estimates.explored(model, name):
            score -= placement.latency_risk * min(slower, 1.0)
        if name == home:
            score += placement.affinity
        found.append((score, name, replica))
    found.sort(key=lambda item: (-item[0], item[1]))
    return found


def idleness(replica: Replica, now: int, weights: tuple[float, float, float]) -> float:
    """How idle it is; never more than our own count says."""
    load = replica.running / replica.facts.slots
    kv = replica.kv_used / replica.facts.kv_tokens if replica.facts.kv_tokens else load
    fresh = replica.measured and now - replica.measured <= STALE
    # What nobody knows may be as busy as it may be idle.
    gpu = replica.gpu if fresh and replica.gpu is not None else UNKNOWN
    memory = replica.memory if fresh and replica.memory is not None else UNKNOWN
    waiting = replica.queue / replica.facts.slots if fresh and replica.queue else 0.0
    gpu, memory, queue = max(load, gpu), max(kv, memory), max(load, min(1.0, waiting))
    w_gpu, w_memory, w_queue = weights
    return w_gpu * (1.0 - gpu) + w_memory * (1.0 - memory) + w_queue * (1.0 - queue)
