"""Slot prices: what a slot of each kind is worth to the work that needs it most.

The plan minimises the fullest group's load when each model's work is spread over the groups
of replicas that may take it: a linear programme, solved by an entropic price update. Work
goes to groups in proportion to cost ** -SHARPNESS, cost being price x service there; the
price of a group rises while its load is above the mean and falls while it is below, so that
in balance work sits where it is cheap and a slot costs what it spares elsewhere. The mean is
that of the groups between which work can move, and a price goes no further than it moves
any. Prices are kept from one solution to the next. (Method: Lagrangian dual of the
assignment, smoothed as in Sinkhorn scaling; M. Cuturi, 2013.)
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp

SHARPNESS = 24
ROUNDS = 60
FIRST_ROUNDS = 300
STEP = 0.16
# After so many rounds steps are half as long, so that prices settle.
SETTLING = 15
# Work is as good as gone from where it costs so much more than elsewhere.
MOST_RATIO = 4.0
LEAST_PRICE = 1e-9
# Loads this near to each other are even.
EVEN = 0.01

Flow = tuple[str, int]


@dataclass(slots=True)
class Plan:
    """``load``: the fullest group's share of slot time in use, by plan; ``loads``: by group, that
    of the fullest among those between which work can move. ``cost``: of a flow (model, lane) on a
    group, relative to its cheapest group. ``part``: share of the flow that the plan puts there.
    ``hold``: share of the group's used time that the *model* takes. ``prices`` are relative, by
    group."""

    load: float = 0.0
    loads: dict[str, float] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)
    cost: dict[tuple[Flow, str], float] = field(default_factory=dict)
    part: dict[tuple[Flow, str], float] = field(default_factory=dict)
    hold: dict[tuple[str, str], float] = field(default_factory=dict)

    def price(self, flow: Flow, group: str, services: Mapping[str, float]) -> float:
        """What a request of the flow costs there (ns of slot time of the group that is the
        cheapest for it), ``services`` being its slot times by group."""
        cheapest = min(services, key=lambda name: self.prices[name] * services[name])
        return self.prices[group] * services[group] / self.prices[cheapest]


def solve(
    demand: Mapping[Flow, float],
    options: Mapping[Flow, Mapping[str, float]],
    slots: Mapping[str, int],
    prices: dict[str, float],
    priced: Collection[str],
    *,
    fresh: bool,
) -> Plan:
    """``demand``: requests per ns; ``options``: ns of slot time of one on each group
    that may take the flow; ``slots``: of each group. ``prices`` is brought up to date: of the
    groups in ``priced``, the others' are 1. ``fresh``: prices are not from the time before."""
    rounds = FIRST_ROUNDS if fresh else ROUNDS
    for group in slots:
        if group not in priced:
            prices[group] = 1.0
    flows = [flow for flow in options if options[flow]]
    choices = [options[flow] for flow in flows if len(options[flow]) > 1]
    parts = [part for part in parts_of(slots, choices) if part[0] in priced]
    split: dict[Flow, dict[str, float]] = {}
    used: dict[str, float] = {}
    for turn in range(rounds):
        used = dict.fromkeys(slots, 0.0)
        for flow in flows:
            split[flow] = _split(options[flow], prices)
            for group, part in split[flow].items():
                used[group] += demand.get(flow, 0.0) * part * options[flow][group]
        if turn == rounds - 1:
            break
        step = STEP / (1.0 + turn / SETTLING)
        bounds = _bounds(choices, prices)
        errors = [_adjust(part, prices, used, slots, bounds, step) for part in parts]
        if max(errors, default=0.0) <= EVEN:
            break
    plan = _plan(demand, options, slots, prices, split, used)
    for names in parts_of(slots, choices, alone=True):
        load = max((used[g] / slots[g] for g in names if slots[g]), default=0.0)
        plan.loads.update(dict.fromkeys(names, load))
    return plan


def _split(options: Mapping[str, float], prices: Mapping[str, float]) -> dict[str, float]:
    costs = {group: prices[group] * service for group, service in options.items()}
    least = min(costs.values())
    weights = {group: (least / cost) ** SHARPNESS for group, cost in costs.items()}
    total = sum(weights.values())
    return {group: weight / total for group, weight in weights.items()}


def parts_of(
    slots: Mapping[str, int], choices: Sequence[Mapping[str, float]], *, alone: bool = False
) -> list[list[str]]:
    """Groups put together between which work can move; those that stand ``alone`` too, if asked
    for."""
    root = {group: group for group in slots}

    def find(group: str) -> str:
        while root[group] != group:
            root[group] = group = root[root[group]]
        return group

    for services in choices:
        first, *others = services
        for other in others:
            root[find(other)] = find(first)
    parts: dict[str, list[str]] = {}
    for group in slots:
        parts.setdefault(find(group), []).append(group)
    return [part for part in parts.values() if alone or len(part) > 1]


def _bounds(
    choices: list[Mapping[str, float]], prices: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """The prices at which each group has all the work that it may take, and none."""
    bounds: dict[str, tuple[float, float]] = {}
    for services in choices:
        costs = sorted((prices[group] * service, group) for group, service in services.items())
        for group, service in services.items():
            elsewhere = costs[1][0] if costs[0][1] == group else costs[0][0]
            even = elsewhere / service
            least, most = bounds.get(group, (even, even))
            bounds[group] = (min(least, even), max(most, even))
    return {
        group: (least / MOST_RATIO, most * MOST_RATIO) for group, (least, most) in bounds.items()
    }


def _adjust(
    part: list[str],
    prices: dict[str, float],
    used: Mapping[str, float],
    slots: Mapping[str, int],
    bounds: Mapping[str, tuple[float, float]],
    step: float,
) -> float:
    """One round of prices among groups between which work can move. Returns the largest
    error: a group's load relative to their mean, less 1."""
    total_slots = sum(slots[group] for group in part)
    total_used = sum(used[group] for group in part)
    if not total_used or not total_slots:
        return 0.0
    mean = total_used / total_slots
    worst = 0.0
    for group in part:
        if slots[group]:
            load = used[group] / slots[group]
            worst = max(worst, abs(load / mean - 1.0))
            # Between -1 and 1, and of two overloaded groups still larger for the worse.
            push = (load - mean) / (load + mean)
            least, most = bounds[group]
            price = prices[group] * exp(step * push)
            prices[group] = min(max(price, least), most)
    scale = max(prices[group] for group in part)
    for group in part:
        prices[group] = max(prices[group] / scale, LEAST_PRICE)
    return worst


def _plan(
    demand: Mapping[Flow, float],
    options: Mapping[Flow, Mapping[str, float]],
    slots: Mapping[str, int],
    prices: Mapping[str, float],
    split: Mapping[Flow, Mapping[str, float]],
    used: Mapping[str, float],
) -> Plan:
    plan = Plan(prices=prices)
    plan.load = max((used[g] / slots[g] for g in slots if slots[g]), default=0.0)
    for flow, parts in split.items():
        least = min(prices[group] * service for group, service in options[flow].items())
        for group, part in parts.items():
            service = options[flow][group]
            plan.cost[flow, group] = prices[group] * service / least
            plan.part[flow, group] = part
            if used[group]:
                key = (flow[0], group)
                taken = demand.get(flow, 0.0) * part * service / used[group]
                plan.hold[key] = plan.hold.get(key, 0.0) + taken
    return plan
