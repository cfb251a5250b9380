"""How much work comes, and what follows from it every few seconds: the layout, the shares of
lanes, feedback, and how many cards there should be."""

from math import exp, log2

from .cards import sample
from .circuits import try_again
from .cold import note_use
from .decisions import Decision
from .feedback import review
from .kinds import name_group
from .layout import Demand, lay_out
from .outstanding import tidy
from .paths import lay_paths
from .pool import lanes_let_in
from .pressure import hold_back
from .state import State
from .ticket import Ticket

NS = 1_000_000_000
# Demand is an exponential mean over about so long (ns), and a backlog is to be worked off in
# as much again.
HORIZON = 6 * NS


def turn(state: State, out: list[Decision]) -> None:
    """Do what is due every so often."""
    if state.now >= state.lay_out_at:
        renew_layout(state)
    if state.now >= state.review_at:
        review(state, out)
    if state.now >= state.plan_at:
        # Before what happens now: what an arrival finds running is what runs on average.
        sample(state)
    # The next decision about cards says itself when it is due.
    state.turn_at = min(state.lay_out_at, state.review_at)


def note_arrival(state: State, ticket: Ticket) -> int:
    """Count a request as demand; returns the output tokens to expect of it."""
    flow = (ticket.model, ticket.lane)
    counts = state.arrived.get(flow)
    if counts is None:
        counts = state.arrived[flow] = [0.0, 0.0, 0.0]
    counts[0] += 1.0
    if not (ticket.prompt or ticket.output):
        return 0
    state.generative.add(ticket.model)
    answer = state.estimates.tokens(ticket)
    counts[1] += ticket.prompt
    counts[2] += answer
    return answer


def renew_layout(state: State) -> None:
    """Bring demand up to date and compute placement sets and lane shares from it."""
    if state.cold:
        note_use(state)
    _measure(state)
    due = try_again(state)
    for replica in state.replicas.values():
        tidy(replica, state.now)
        replica.lay(lanes_let_in(replica.pool, state.policy))
    if state.paths or not all(replica.facts.hot for replica in state.replicas.values()):
        lay_paths(state)
    for replica in state.replicas.values():
        replica.group_key = name_group(replica, state.estimates)
    state.layout = lay_out(
        state.replicas,
        state.estimates,
        state.demand,
        state.layout,
        0.0 if state.policy.mode == "fifo" else state.policy.placement.slot_price,
        state.generative,
        gated=state.policy.placement.mode == "completion" and state.policy.mode != "fifo",
    )
    if state.pressure.models:
        hold_back(state)
    state.lay_out_at = state.now + int(state.policy.placement.reprice_s * NS)
    if due and due < state.lay_out_at:
        state.lay_out_at = due
    state.turn_at = min(state.turn_at, state.lay_out_at)
    if state.policy.mode == "weighted":
        _share(state)


def _measure(state: State) -> None:
    """Fold what arrived since the last time into the mean rates (work per ns)."""
    passed = state.now - state.laid_out
    if passed <= 0:
        return
    state.laid_out = state.now
    keep = exp(-passed / HORIZON)
    arrived = state.arrived
    # In one order for the same events: sets of names have another in each process.
    for flow in (*state.demand, *(flow for flow in arrived if flow not in state.demand)):
        count, prompt, output = arrived.get(flow, (0.0, 0.0, 0.0))
        known = state.demand.get(flow)
        if known is None:
            known = state.demand[flow] = Demand(count / passed, prompt / count, output / count)
            continue
        before = known.rate * keep
        known.rate = before + count / passed * (1.0 - keep)
        if count and known.rate:
            part = 1.0 - before / known.rate
            known.prompt += (prompt / count - known.prompt) * part
            known.output += (output / count - known.output) * part
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
