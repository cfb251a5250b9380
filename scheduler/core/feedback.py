"""Weight and levels changed by what was measured: who suffers rises, who misbehaves sinks.

Every half of the hold time each business's model is judged. It is *raised* while it misses
budgets that are its business's or lane's, or is refused too often, unless its business holds
far more than its share: its weight between the businesses of a level or lane grows by a
quarter with each step, and its level stays, so that no load turns the order of levels round.
It is *lowered* while it really costs more than it declares, or while its own requests fill its
model's queue (P0's are left alone then): by levels where these are no strict order, and into
the next lane; within strict levels by weight.

A cause must hold before a step is made, and to take one back, what was measured must be beyond
the lower threshold as long (one that is set above the upper counts as equal to it). So nothing
is moved more than once per hold time. Arrivals are moved, never what waits.
"""

from dataclasses import dataclass, field, replace
from math import exp

from .conduct import Cause, Conduct
from .decisions import Adjust, Decision, Kind, Notice
from .policy import Feedback
from .state import State
from .tenant import Tenant
from .ticket import Ticket

MS = 1_000_000
NS = 1_000_000_000
RAISE, BACK, LOWER, STAY = -1, 0, 1, 2
# Share of requests beyond the P95.
BEYOND = 0.05
# Judged no more often than this (ns).
LEAST = 100 * MS
# Between businesses a step is worth so much more of the slots.
STEP = 1.25
# Who holds so many times its share of what runs suffers by its own doing.
OWN_DOING = 1.5
LOWEST = 9
WORDS = {RAISE: "raised", LOWER: "lowered", BACK: "going back"}
# Causes that count between businesses too. The others say nothing about whose turn it is.
BETWEEN = {Cause.LATE, Cause.DROPPED, Cause.COST}


@dataclass(frozen=True, slots=True)
class _Flow:
    business: str
    model: str
    tenant: Tenant
    conduct: Conduct

    @property
    def name(self) -> str:
        """As notices name it."""
        return f"{self.business}/{self.model}"


@dataclass(slots=True)
class _Review:
    """What a review looks at: the flows that there is something to say of, and what is found
    out once for all of them. ``costs`` has (requests, cost) by model, ``waits`` seconds."""

    rules: Feedback
    flows: list[_Flow] = field(default_factory=list)
    costs: dict[str, tuple[float, float]] = field(default_factory=dict)
    waits: dict[str, float] = field(default_factory=dict)
    shares: dict[str, dict[str, int]] = field(default_factory=dict)


def review(state: State, out: list[Decision]) -> None:
    """Judge every business's models, and move those whose cause has held."""
    policy = state.policy
    rules = policy.feedback
    hold = rules.hold_ticks * policy.tick_ms * MS
    keep = exp(-(state.now - state.reviewed) / (rules.window_s * NS))
    state.reviewed, state.review_at = state.now, state.now + max(LEAST, hold // 2)
    active = rules.enabled and policy.mode != "fifo"
    found = _survey(state, keep)
    for flow in found.flows:
        conduct = flow.conduct
        if active:
            wish, cause, text = _wish(state, found, flow)
            if wish != conduct.wish:
                conduct.wish, conduct.since = wish, state.now
            elif state.now - conduct.since >= hold:
                _move(state, flow, cause, text, out)
        elif conduct.steps:
            conduct.steps, conduct.cause, conduct.wish = 0, Cause.NONE, BACK
            out.append(Notice(Kind.ADJUSTED, flow.name, "feedback is off"))
        set_pace(state, flow.tenant, conduct)


def set_pace(state: State, tenant: Tenant, conduct: Conduct) -> None:
    """Its weight between businesses: by its own, what it was refused of late, and its steps."""
    pace = tenant.weight
    if conduct.dropped and not tenant.greedy:
        pace *= 1.0 + state.policy.order.drop_rate * conduct.drop_rate
    if conduct.steps and conduct.cause in BETWEEN:
        pace *= STEP**-conduct.steps
    conduct.pace = pace


def adjusted(state: State, conduct: Conduct, ticket: Ticket, out: list[Decision]) -> Ticket:
    """The ticket of a flow that is lowered, at its new level; itself where that changes nothing,
    nobody would serve it there, or it is weight that counts."""
    policy, lane = state.policy, ticket.lane
    if conduct.cause is Cause.BACKLOG and lane == 0:
        return ticket
    level = min(LOWEST, ticket.level + conduct.steps)
    lane = max(lane, policy.lane_of(level))
    if lane > ticket.lane and not _served(state, ticket.model, lane, level):
        lanes = (policy.lanes.P0, policy.lanes.P1, policy.lanes.P2)
        lane, level = ticket.lane, max(ticket.level, lanes[ticket.lane][1])
    if lane == ticket.lane and policy.by_level(lane):
        return ticket
    if level == ticket.level or not _served(state, ticket.model, lane, level):
        return ticket
    moved = replace(ticket, level=level, lane=lane, budget=_budget(state, ticket, lane))
    out.append(Adjust(moved, level - ticket.level))
    return moved


def _budget(state: State, ticket: Ticket, lane: int) -> int | None:
    """In a lower lane it can wait as long as that lane's own work (ns)."""
    if lane == ticket.lane or ticket.budget is None:
        return ticket.budget
    usual = state.policy.queue(lane).latency_budget_ms
    return None if usual is None else max(ticket.budget, usual * MS)


def _served(state: State, model: str, lane: int, level: int) -> bool:
    levels = state.layout.levels.get((model, lane), ())
    return any(least <= level <= most for least, most in levels)


def _survey(state: State, keep: float) -> _Review:
    """Let counts fade, and add up what is judged against others."""
    found, weight = _Review(state.policy.feedback), 0.0
    weights = state.weights = [0.0, 0.0, 0.0]
    for business, tenant in state.tenants.items():
        before = len(found.flows)
        for lane, active in enumerate(tenant.active):
            if active:
                weights[lane] += tenant.weight
        for model, conduct in tenant.conducts.items():
            if conduct.known:
                conduct.fade(keep)
                found.flows.append(_Flow(business, model, tenant, conduct))
                costed, cost = found.costs.get(model, (0.0, 0.0))
                found.costs[model] = costed + conduct.costed, cost + conduct.cost
        if len(found.flows) > before:
            weight += tenant.weight
    fair = OWN_DOING * sum(state.lane_running) / weight if weight else 0.0
    for tenant in state.tenants.values():
        most = max(1.0, fair * tenant.weight)
        tenant.greedy = tenant.running > most or not tenant.may_run
    return found


def _wish(state: State, found: _Review, flow: _Flow) -> tuple[int, Cause, str]:
    """Which way it should be moved, why, and that in words."""
    conduct = flow.conduct
    lower = _too_dear(found, flow.model, conduct) or _too_much(state, found, flow)
    if lower is not None and lower[0]:
        return LOWER, *lower[1:]
    higher = None
    if conduct.steps <= 0 or lower is None:
        higher = _suffers(found.rules, flow)
    if higher is not None and higher[0]:
        return RAISE, *higher[1:]
    lasting = lower if conduct.steps > 0 else higher if conduct.steps < 0 else None
    if lasting is not None:
        return STAY, *lasting[1:]
    return BACK, Cause.NONE, "the cause is gone"


# Whether the cause is there in full, or only not quite gone; which one, and that in words.
Finding = tuple[bool, Cause, str]


def _too_dear(found: _Review, model: str, conduct: Conduct) -> Finding | None:
    """Its cost against what it declared; where others of the model cost more as well, it is the
    model, or the replicas, and only what goes beyond that is its own."""
    rules = found.rules
    if conduct.costed < rules.min_requests:
        return None
    costed, cost = found.costs[model]
    others = costed - conduct.costed
    usual = (cost - conduct.cost) / others if others >= rules.min_requests else 1.0
    ratio = conduct.cost / conduct.costed / max(1.0, usual)
    if ratio < min(rules.cost_clear, rules.cost_factor):
        return None
    return ratio >= rules.cost_factor, Cause.COST, f"it costs {ratio:.1f} x what it declares"


def _too_much(state: State, found: _Review, flow: _Flow) -> Finding | None:
    """Whether its model's queue takes long, and it has at least an even part of that. One that
    is alone would make room for nobody."""
    rules, waiting, model = found.rules, state.queues.waiting, flow.model
    if len(found.flows) < 2 or not ((model, 1) in waiting or (model, 2) in waiting):
        return None
    wait = found.waits.get(model)
    if wait is None:
        count = waiting.get((model, 1), 0) + waiting.get((model, 2), 0)
        ends = max(state.turnover(model, 1), state.turnover(model, 2)) * NS
        wait = found.waits[model] = count / ends if ends else 0.0
        found.shares[model] = _waiting(state, model)
    if wait < min(rules.backlog_clear_s, rules.backlog_s):
        return None
    shares = found.shares[model]
    if shares.get(flow.business, 0) * len(shares) < sum(shares.values()):
        return None
    return wait >= rules.backlog_s, Cause.BACKLOG, f"its model's queue takes {wait:.0f} s"


def _waiting(state: State, model: str) -> dict[str, int]:
    """About how many of the model's requests below P0 wait, by business."""
    found: dict[str, int] = {}
    for levels in state.queues.lanes[1:]:
        for models in levels.values():
            line = models.get(model)
            if line is not None:
                for business, heap in line.heaps.items():
                    found[business] = found.get(business, 0) + len(heap)
    return found


def _suffers(rules: Feedback, flow: _Flow) -> Finding | None:
    conduct = flow.conduct
    if flow.tenant.greedy:
        return None
    late = slow = 0.0
    if conduct.timed >= rules.min_requests:
        late, slow = conduct.late / conduct.timed, conduct.slow / conduct.timed
    # One late request makes no P95.
    if late > BEYOND and conduct.late > 1.0:
        return True, Cause.LATE, f"{late:.0%} come later than {rules.p95_factor:g} x their budget"
    enough = conduct.ended + conduct.dropped >= rules.min_requests
    dropped = conduct.drop_rate if enough and conduct.dropped > 1.0 else 0.0
    if dropped and dropped >= min(rules.drop_clear, rules.drop_rate):
        full = dropped >= rules.drop_rate
        return full, Cause.DROPPED, f"{dropped:.0%} are refused"
    if slow > BEYOND:
        return False, Cause.LATE, f"{slow:.0%} come later than {rules.p95_clear:g} x their budget"
    return None


def _move(state: State, flow: _Flow, cause: Cause, text: str, out: list[Decision]) -> None:
    """One step the way that was wished for long enough, and a new hold time."""
    conduct, bound = flow.conduct, state.policy.feedback.bound
    before, wish = conduct.steps, conduct.wish
    if wish == STAY:
        return
    step = wish if wish != BACK else (before < 0) - (before > 0)
    steps = conduct.steps = max(-bound, min(bound, before + step))
    conduct.since = state.now
    if steps * wish > 0:
        conduct.cause = cause
    elif not steps:
        conduct.cause = Cause.NONE
    if steps != before:
        out.append(Notice(Kind.ADJUSTED, flow.name, f"{WORDS[wish]}: {text}", steps))
