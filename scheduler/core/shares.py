"""Whose turn it is: what businesses and lanes have used.

Between businesses it is GPU time that counts, by what it costs: a prefill has the card to itself,
what is decoded or takes a fixed time one of its slots, and a card of eight GPUs counts eight times.
A *ledger* is one lane of one *market*: pools among which work can move. Who has used much where
others never run is not behind them here.
"""

from .choice import LANES, could_use
from .counters import Active
from .replica import Replica
from .request import Request
from .state import State


def ledger_of(state: State, request: Request) -> int:
    """The ledger of the request's model and lane."""
    return 3 * state.markets.get(request.ticket.model, 0) + request.lane


def join(state: State, request: Request) -> None:
    """Count a request in its lane. A business that was idle there starts with the least
    served of those that were not, a lane that was idle with the others."""
    business, lane, tenant = request.ticket.business, request.lane, request.tenant
    ledger = request.ledger = ledger_of(state, request)
    active = state.active.get(ledger)
    if active is None:
        active = state.active[ledger] = Active(ledger)
    if not (state.lane_queued[lane] or state.lane_running[lane]):
        _join_lane(state, lane)
    if business not in active.requests:
        least = active.least(state.tenants)
        if least is None:
            least = active.virtual
        used = tenant.used.get(ledger, 0.0)
        if used < least:
            tenant.served[ledger] = tenant.served.get(ledger, 0.0) + least - used
            used = tenant.used[ledger] = least
        active.join(business, used)
    active.requests[business] += 1
    tenant.active[lane] += 1


def _join_lane(state: State, lane: int) -> None:
    others = [
        state.passes[other]
        for other in LANES
        if state.lane_queued[other] or state.lane_running[other]
    ]
    if others:
        state.passes[lane] = max(state.passes[lane], min(others))


def leave(state: State, request: Request) -> None:
    """Take a request out of its lane's count."""
    tenant, business = request.tenant, request.ticket.business
    active = state.active[request.ledger]
    tenant.active[request.lane] -= 1
    active.requests[business] -= 1
    if not active.requests[business]:
        active.leave(business)
        active.virtual = max(active.virtual, tenant.used.get(request.ledger, 0.0))


def cost(replica: Replica, prefill: float, rest: float) -> float:
    """GPU time (ns) of an attempt that prefills for so long, and holds its slot for the rest."""
    return (replica.facts.gpus or 1.0) * (prefill + rest / replica.facts.slots)


def charge(state: State, request: Request, replica: Replica) -> None:
    """Count what a request that starts is expected to cost."""
    ledger, tenant = request.ledger, request.tenant
    due = cost(replica, request.prefill, request.estimate - request.prefill)
    request.charged = due * state.policy.order.fairness / request.conduct.pace
    tenant.served[ledger] = tenant.served.get(ledger, 0.0) + request.charged
    model = request.ticket.model
    tenant.turn = max(tenant.turn, tenant.turns.get(model, 0.0))
    tenant.turns[model] = tenant.turn + due
    if state.policy.mode == "weighted":
        _keep_up(state, request.lane, replica)
    state.passes[request.lane] += request.estimate / state.shares[request.lane]


def _keep_up(state: State, lane: int, replica: Replica) -> None:
    """A slot of the replica has gone to the lane: those behind it that could not have used it
    save nothing up for that."""
    reached = state.passes[lane]
    for other in LANES:
        if state.passes[other] < reached and not could_use(state, replica, other):
            state.passes[other] = reached


def settle(state: State, request: Request, replica: Replica, *, lost: bool) -> None:
    """Count what it was instead. ``lost``: it will be done again, and is charged then."""
    ledger, tenant = request.ledger, request.tenant
    held = state.now - request.dispatched
    state.passes[request.lane] += (held - request.estimate) / state.shares[request.lane]
    due = 0.0
    if not lost:
        prefill = min(request.prefill, held)
        rest = state.now - request.first if request.first else held - prefill
        due = cost(replica, prefill, rest) * state.policy.order.fairness / request.conduct.pace
    tenant.used[ledger] = tenant.used.get(ledger, 0.0) + due
    tenant.served[ledger] = tenant.served.get(ledger, 0.0) + due - request.charged
    fell, request.charged = due < request.charged, 0.0
    if fell and tenant.queued and state.lane_queued[request.lane]:
        state.queues.fell(request.ticket.business, ledger, tenant.served[ledger])


def forget_shares(state: State) -> None:
    """Everybody starts from nothing."""
    for tenant in state.tenants.values():
        tenant.used.clear()
        tenant.served.clear()
        tenant.turns.clear()
    for request in state.requests.values():
        request.charged = 0.0
    state.passes[:] = [0.0, 0.0, 0.0]
    for active in state.active.values():
        active.restart()
