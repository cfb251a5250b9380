"""Which replica a request goes to, among those that may take it now: where it is expected to be
done soonest, counting what it does to those that are there already (see ``completion``).

Where kinds of card differ, the toll for taking a slot that others need more is added (see
``layout``). Chance decides only among equals.
"""

from collections.abc import Iterator
from itertools import chain

from .aside import passes
from .choice import allowed, kept_for_p0
from .completion import completion, shut
from .group import FEW, Group
from .prefixes import WORTH
from .replica import Replica
from .request import Request
from .scoring import best_by_score
from .state import State

# Costs this near to each other are equal.
EQUAL = 1.001
# Of a large group so many of the least loaded are weighed: they are equally fast, and in order.
LOOKED_AT = 3


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


def place(state: State, request: Request, *, gated: bool = True) -> Replica | None:
    """The replica that should take the request now, or None: the best of its placement set that
    has room, else of its spill. Not ``gated``: be there ever so much to prefill."""
    flow = (request.ticket.model, request.lane)
    layout = state.layout
    for groups in (layout.sets.get(flow, ()), layout.spills.get(flow, ())):
        by_score = state.policy.placement.mode == "score"
        found = (_best_scored if by_score else _soonest)(state, request, groups, gated=gated)
        if found is not None:
            return found
    return None


def may_start(state: State, request: Request, replica: Replica, *, gated: bool = True) -> bool:
    """Whether the replica, of the request's set or spill, takes it now. Not ``gated``: be there
    ever so much to prefill."""
    least, most = replica.facts.levels
    return (
        replica.open(state.now)
        and least <= request.ticket.level <= most
        and (not replica.circuits or replica.admits(request.ticket.model))
        and replica.fits(request.context, request.variance)
        and not (request.tried and request.avoids(replica))
        and (
            request.lane < 2
            or (allowed(state, replica.use, request.lane) and not kept_for_p0(state, replica))
        )
        and (not state.queues.aside or passes(state, request, replica))
        and is_large_enough(state, request, replica)
        and not (gated and shut(state, request, replica))
    )


def is_large_enough(state: State, request: Request, replica: Replica) -> bool:
    """Whether the replica's whole KV cache holds what the request needs, or as much as that of any
    other which may take it."""
    most, tokens = replica.facts.kv_tokens, request.context
    if most is None or tokens <= most:
        return True
    flow = (request.ticket.model, request.lane)
    layout, level = state.layout, request.ticket.level
    return not any(
        (other.facts.kv_tokens is None or other.facts.kv_tokens > most)
        and other.takes(request.ticket.model, request.lane, level)
        and not request.avoids(other)
        for groups in (layout.sets.get(flow, ()), layout.spills.get(flow, ()))
        for group in groups
        for other in group
    )


def _best_scored(
    state: State, request: Request, groups: tuple[Group, ...], *, gated: bool
) -> Replica | None:
    """The same by the policy's weights; the cold path waits until no hot one has room."""
    for hot in (True, False):
        members = [r for group in groups for r in group if r.facts.hot is hot]
        free = [r for r in members if may_start(state, request, r, gated=gated)]
        if free:
            return best_by_score(state, request, members, free)
    return None


def _soonest(
    state: State, request: Request, groups: tuple[Group, ...], *, gated: bool
) -> Replica | None:
    """Of what may take the request now the replica where it costs least; of equal ones the one
    where it was before, else a dedicated one, else the emptier of two drawn. The cold path waits
    until no hot one has room."""
    ticket = request.ticket
    home = request.last or state.prefixes.home(ticket.session, ticket.blocks)
    for hot in (True, False):
        found: list[tuple[float, Replica]] = []
        for group in groups:
            if group.members[0].facts.hot is hot:
                _weigh(state, request, group, home, found, gated=gated)
        if found:
            least = min(cost for cost, _ in found) * EQUAL
            best = [replica for cost, replica in found if cost <= least]
            return best[0] if len(best) == 1 else _pick(state, best, home)
    return None


def _weigh(
    state: State,
    request: Request,
    group: Group,
    home: str,
    found: list[tuple[float, Replica]],
    *,
    gated: bool,
) -> None:
    """Add what the request costs (ns) on those of the group that may take it."""
    if group.short is not None and request.context >= group.short:
        return
    toll = state.layout.tolls.get(((request.ticket.model, request.lane), group.name), 0.0)
    most = state.prefixes.tokens(home, request.ticket.blocks) if home else 0
    large, looked = len(group) > FEW, 0
    for replica in _candidates(group, home, gated=gated):
        if may_start(state, request, replica, gated=gated):
            cost = toll + completion(state, request, replica)
            if most:
                cost += left_behind(state, request, replica, most)
            found.append((cost, replica))
            looked += 1
            if looked == LOOKED_AT and large:
                break
    if large and not looked and _is_full(group, request):
        group.short = request.context


def _is_full(group: Group, request: Request) -> bool:
    """Whether the request is too large for what room there is in the group's KV caches."""
    return bool(request.context) and not any(
        replica.running < replica.facts.slots and replica.fits(request.context, request.variance)
        for replica in group
    )


def left_behind(state: State, request: Request, replica: Replica, most: int) -> float:
    """What it counts (ns) that the replica has not as much of the prompt as its home, ``most``
    tokens."""
    ticket, name = request.ticket, replica.facts.name
    lost = most - state.prefixes.tokens(name, ticket.blocks)
    return WORTH * state.estimates.prefill(ticket.model, name, lost) if lost > 0 else 0.0


def _candidates(group: Group, home: str, *, gated: bool) -> Iterator[Replica]:
    """Members of the group, the least loaded first; before these the request's home, which a large
    group might not come to otherwise."""
    if not gated:
        return iter(group.members)
    if home and len(group) > FEW:
        known = group.member(home)
        if known is not None:
            return chain((known,), group.least_loaded())
    return group.least_loaded()


def _pick(state: State, equal: list[Replica], home: str) -> Replica:
    for replica in equal:
        if replica.facts.name == home:
            return replica
    found = [replica for replica in equal if replica.pool.dedicated] or equal
    # The emptier of two drawn: of all of them one that has just come back would get everything.
    one = found.pop(state.draw(len(found)))
    other = found[state.draw(len(found))] if found else one
    return one if one.running * other.facts.slots <= other.running * one.facts.slots else other
