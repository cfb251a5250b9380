"""Slot prices: what a slot of each kind is worth to the work that needs it most.

The plan minimises the fullest group's load when each model's work is spread over the groups
of replicas that may take it: a linear programme, solved by an entropic price update. Work
goes to groups in proportion to cost ** -SHARPNESS, cost being price x service there; the
price of a group rises while its load is above the mean and falls while it is below, so that
in balance work sits where it is cheap and a slot costs what it spares elsewhere. Prices are
kept from one solution to the next. (Method: Lagrangian dual of the assignment, smoothed as
in Sinkhorn scaling; M. Cuturi, 2013.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp

SHARPNESS = 24
ROUNDS = 60
FIRST_ROUNDS = 300
STEP = 0.08
LEAST_PRICE = 1e-6

Flow = tuple[str, int]


@dataclass(slots=True)
class Plan:
    """``load``: the fullest group's share of slot time in use, by plan. ``cost``: of a flow
    (model, lane) on a group, relative to its cheapest group. ``part``: share of the flow that
    the plan puts there. ``hold``: share of the group's used time that the *model* takes."""

    load: float = 0.0
    cost: dict[tuple[Flow, str], float] = field(default_factory=dict)
    part: dict[tuple[Flow, str], float] = field(default_factory=dict)
    hold: dict[tuple[str, str], float] = field(default_factory=dict)


def solve(
    demand: Mapping[Flow, float],
    options: Mapping[Flow, Mapping[str, float]],
    slots: Mapping[str, int],
    prices: dict[str, float],
) -> Plan:
    """``demand``: units of work per ns; ``options``: ns of slot time per unit on each group
    that may take the flow; ``slots``: of each group. ``prices`` is brought up to date."""
    rounds = ROUNDS if prices.keys() >= slots.keys() else FIRST_ROUNDS
    for group in slots:
        prices.setdefault(group, 1.0)
    flows = [flow for flow in options if options[flow]]
    split: dict[Flow, dict[str, float]] = {}
    used: dict[str, float] = {}
    for turn in range(rounds):
        used = dict.fromkeys(slots, 0.0)
        for flow in flows:
            split[flow] = _split(options[flow], prices)
            for group, part in split[flow].items():
                used[group] += demand.get(flow, 0.0) * part * options[flow][group]
        if turn < rounds - 1 and not _adjust(prices, used, slots):
            break
    return _plan(demand, options, slots, prices, split, used)


def _split(options: Mapping[str, float], prices: Mapping[str, float]) -> dict[str, float]:
    costs = {group: prices[group] * service for group, service in options.items()}
    least = min(costs.values())
    weights = {group: (least / cost) ** SHARPNESS for group, cost in costs.items()}
    total = sum(weights.values())
    return {group: weight / total for group, weight in weights.items()}


def _adjust(prices: dict[str, float], used: Mapping[str, float], slots: Mapping[str, int]) -> bool:
    """One round of prices; False when loads are even or there is no work."""
    total_slots, total_used = sum(slots.values()), sum(used.values())
    if not total_used or not total_slots:
        return False
    mean = total_used / total_slots
    worst = 0.0
    for group, count in slots.items():
        if count:
            error = used[group] / count / mean - 1.0
            worst = max(worst, abs(error))
            prices[group] *= exp(STEP * min(max(error, -1.0), 1.0))
    scale = max(prices.values())
    for group, price in prices.items():
        prices[group] = max(price / scale, LEAST_PRICE)
    return worst > 0.01


def _plan(
    demand: Mapping[Flow, float],
    options: Mapping[Flow, Mapping[str, float]],
    slots: Mapping[str, int],
    prices: Mapping[str, float],
    split: Mapping[Flow, Mapping[str, float]],
    used: Mapping[str, float],
) -> Plan:
    plan = Plan()
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
