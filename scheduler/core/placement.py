"""Which replica a request goes to, among those that may take it now."""

from .choice import allowed
from .replica import Replica
from .request import Request
from .state import State

MOST_SESSIONS = 10_000
SECOND = 1_000_000_000
# Fewer starts in a second say nothing of whose turn it was.
FEW = 4


def served(state: State, request: Request) -> bool:
    """Whether any replica in service would take the request when it has room, and is warm."""
    ticket, lane = request.ticket, request.lane
    if not request.tried:
        levels = state.layout.levels.get((ticket.model, lane), ())
        for least, most in levels:  # noqa: SIM110 - a generator takes longer than it
            if least <= ticket.level <= most:
                return True
        return False
    return any(
        replica.serving()
        and replica.will_take(ticket.model, lane, ticket.level)
        and not request.avoids(replica)
        for replica in state.replicas.values()
    )


def place(state: State, request: Request, tokens: int) -> Replica | None:
    """The replica that should take the request now, or None: the best of the first tier of
    its placement set that has room, else of its spill. ``tokens`` is its need of KV cache."""
    flow = (request.ticket.model, request.lane)
    layout = state.layout
    for tiers in (layout.sets.get(flow, ()), layout.spills.get(flow, ())):
        for tier in tiers:
            found = _best(state, request, tier, tokens)
            if found is not None:
                return found
    return None


def fits(state: State, request: Request, replica: Replica, tokens: int) -> bool:
    """Whether the replica has KV cache free for a request of so many tokens."""
    return replica.fits(tokens) and is_large_enough(state, request, replica, tokens)


def is_large_enough(state: State, request: Request, replica: Replica, tokens: int) -> bool:
    """Whether the replica's whole KV cache holds so many tokens, or as many as that of any
    other which may take the request."""
    most = replica.facts.kv_tokens
    if most is None or tokens <= most:
        return True
    flow = (request.ticket.model, request.lane)
    layout, level = state.layout, request.ticket.level
    return not any(
        (other.facts.kv_tokens is None or other.facts.kv_tokens > most)
        and other.takes(request.ticket.model, request.lane, level)
        and not request.avoids(other)
        for tiers in (layout.sets.get(flow, ()), layout.spills.get(flow, ()))
        for tier in tiers
        for other in tier
    )


def roomy(state: State, request: Request) -> list[str]:
    """Replicas for the request with a slot free, but not the KV cache."""
    flow = (request.ticket.model, request.lane)
    bounded = state.layout.bounded.get(flow, ())
    return [replica.facts.name for replica in bounded if replica.open(state.now)]


def _best(state: State, request: Request, tier: tuple[Replica, ...], tokens: int) -> Replica | None:
    now, level, lane = state.now, request.ticket.level, request.lane
    free = []
    for replica in tier:
        if replica.open(now) and fits(state, request, replica, tokens):
            least, most = replica.facts.levels
            if (
                least <= level <= most
                and not (request.tried and request.avoids(replica))
                and (lane < 2 or allowed(state, replica.use, lane))
            ):
                free.append(replica)
    if len(free) < 2:
        return free[0] if free else None
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
    tier: tuple[Replica, ...],
    chosen: Replica,
    others: list[Replica],
) -> Replica:
    """The chosen one, or the best of the others if it has been given more than is its due in
    the last second: what has just come back is empty, and looks better to each request in turn
    than the load of the next second will show. A request's own home is not damped."""
    name = chosen.facts.name
    if name in (request.last, state.sessions.get(request.ticket.session, "")):
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


def scores(
    state: State, request: Request, replicas: list[Replica]
) -> list[tuple[float, str, Replica]]:
    """Placement scores, best first; equal ones by name."""
    placement, estimates = state.policy.placement, state.estimates
    weights = (placement.weights.gpu, placement.weights.memory, placement.weights.queue)
    model = request.ticket.model
    home = request.last or state.sessions.get(request.ticket.session, "")
    fastest = min(estimates.per_unit(model, r.facts.name) for r in replicas)
    found = []
    for replica in replicas:
        name = replica.facts.name
        score = replica.score(state.now, weights)
        if fastest:
            slower = estimates.per_unit(model, name) / fastest - 1.0
            # Noise of measurement must not beat load: only what is clearly slower counts.
            if slower > 0.25 and estimates.explored(model, name):
                score -= placement.latency_risk * min(slower, 1.0)
        if name == home:
            score += placement.affinity
        found.append((score, name, replica))
    found.sort(key=lambda item: (-item[0], item[1]))
    return found


def remember(state: State, request: Request, replica: Replica) -> None:
    """Keep where a session runs, for the next request of it."""
    session = request.ticket.session
    state.sessions.pop(session, None)
    state.sessions[session] = replica.facts.name
    if len(state.sessions) > MOST_SESSIONS:
        del state.sessions[next(iter(state.sessions))]
