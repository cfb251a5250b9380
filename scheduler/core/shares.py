"""Whose turn it is: what businesses and lanes have used of the slots."""

from .choice import LANES
from .request import Request
from .state import State


def join(state: State, request: Request) -> None:
    """Count a request in its lane. A business that was idle there starts with the least
    served of those that were not, a lane that was idle with the others."""
    business, lane, tenant = request.ticket.business, request.lane, request.tenant
    if not tenant.active[lane]:
        least = state.active[lane].least(state.tenants)
        if least is None:
            least = state.virtual[lane]
            _join_lane(state, lane)
        if tenant.used[lane] < least:
            tenant.served[lane] += least - tenant.used[lane]
            tenant.used[lane] = least
        state.active[lane].join(business, tenant.used[lane])
    tenant.active[lane] += 1


def _join_lane(state: State, lane: int) -> None:
    others = [state.passes[other] for other in LANES if state.active[other].entries]
    if others:
        state.passes[lane] = max(state.passes[lane], min(others))


def leave(state: State, request: Request) -> None:
    """Take a request out of its lane's count."""
    lane, tenant = request.lane, request.tenant
    tenant.active[lane] -= 1
    if not tenant.active[lane]:
        state.active[lane].leave(request.ticket.business)
        state.virtual[lane] = max(state.virtual[lane], tenant.used[lane])


def charge(state: State, request: Request) -> None:
    """Count the slot time expected of a request that starts."""
    lane, tenant = request.lane, request.tenant
    due = request.estimate * state.policy.order.fairness / request.conduct.pace
    request.charged = due
    tenant.served[lane] += due
    state.sequence += 1
    tenant.turns[request.ticket.model] = state.sequence
    state.passes[lane] += request.estimate / state.shares[lane]


def settle(state: State, request: Request, *, lost: bool) -> None:
    """Count what it was instead. ``lost``: it will be done again, and is charged then."""
    lane, tenant = request.lane, request.tenant
    held = state.now - request.dispatched
    state.passes[lane] += (held - request.estimate) / state.shares[lane]
    due = 0.0 if lost else held * state.policy.order.fairness / request.conduct.pace
    tenant.used[lane] += due
    tenant.served[lane] += due - request.charged
    fell, request.charged = due < request.charged, 0.0
    if fell and tenant.queued and state.lane_queued[lane]:
        state.queues.fell(request.ticket.business, lane, tenant.served[lane])


def forget_shares(state: State) -> None:
    """Everybody starts from nothing."""
    for tenant in state.tenants.values():
        tenant.used[:] = tenant.served[:] = [0.0, 0.0, 0.0]
        tenant.turns.clear()
    for request in state.requests.values():
        request.charged = 0.0
    state.virtual[:] = state.passes[:] = [0.0, 0.0, 0.0]
    for lane in LANES:
        businesses = list(state.active[lane].entries)
        state.active[lane].clear()
        for business in businesses:
            state.active[lane].join(business, 0.0)
