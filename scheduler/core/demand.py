"""How much work comes, and what follows from it every few seconds: the layout, the shares of
lanes, and feedback."""

from math import exp, log2

from .breaker import turn_windows
from .cold import note_use
from .decisions import Decision
from .feedback import review
from .layout import lay_out
from .paths import lay_paths
from .pool import lanes_let_in
from .state import State
from .thrift import follow
from .ticket import Ticket

NS = 1_000_000_000
# Demand is an exponential mean over about so long (ns), and a backlog is to be worked off in
# as much again.
HORIZON = 6 * NS


def turn(state: State, out: list[Decision]) -> None:
    """Do what is due every so often."""
    if state.now >= state.lay_out_at:
        renew_layout(state)
        follow(state, out)
    if state.now >= state.review_at:
        review(state, out)
    state.turn_at = min(state.lay_out_at, state.review_at)


def note_arrival(state: State, ticket: Ticket) -> float:
    """Count a request's work as demand; returns it."""
    flow = (ticket.model, ticket.lane)
    work = state.estimates.work(ticket)
    arrived = state.estimates.arrived
    arrived[flow] = arrived.get(flow, 0.0) + work
    return work


def renew_layout(state: State) -> None:
    """Bring demand up to date and compute placement sets and lane shares from it."""
    if state.cold:
        note_use(state)
    _measure(state)
    turn_windows(state)
    for replica in state.replicas.values():
        replica.lay(lanes_let_in(replica.pool, state.policy))
    if state.paths or not all(replica.facts.hot for replica in state.replicas.values()):
        lay_paths(state)
    state.layout = lay_out(
        state.replicas,
        state.estimates,
        state.demand,
        state.layout.prices,
        0.0 if state.policy.mode == "fifo" else state.policy.placement.slot_price,
    )
    state.lay_out_at = state.now + int(state.policy.placement.reprice_s * NS)
    if state.policy.mode == "weighted":
        _share(state)


def _measure(state: State) -> None:
    """Fold what arrived since the last time into the mean rates (work per ns)."""
    passed = state.now - state.laid_out
    if passed <= 0:
        return
    state.laid_out = state.now
    keep = exp(-passed / HORIZON)
    arrived = state.estimates.arrived
    # In one order for the same events: sets of names have another in each process.
    for flow in (*state.demand, *(flow for flow in arrived if flow not in state.demand)):
        rate = arrived.get(flow, 0.0) / passed
        known = state.demand.get(flow)
        state.demand[flow] = rate if known is None else known * keep + rate * (1.0 - keep)
    arrived.clear()


def _share(state: State) -> None:
    """Mode weighted: each backlogged lane its minimum, the rest by weight and queue length.
    A lane's share moves half way at a time, so that short queues do not swing it."""
    queues = state.policy.queues
    least = (queues.P0.min_bandwidth, queues.P1.min_share, queues.P2.min_share)
    weights = [
        state.policy.queue(lane).weight * (1.0 + log2(1 + state.lane_queued[lane]))
        for lane in range(3)
    ]
    rest = 1.0 - sum(least)
    total = sum(weights)
    for lane in range(3):
        target = least[lane] + rest * weights[lane] / total
        state.shares[lane] += (target - state.shares[lane]) / 2
