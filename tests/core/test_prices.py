"""Slot prices against the exact linear programme."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.core import prices as slot_prices
from scheduler.core.prices import Flow, Plan
from scheduler.simulation.lp import maximise

from .teaching import known_cluster

Options = dict[Flow, dict[str, float]]


def solve(
    demand: Mapping[Flow, float],
    options: Mapping[Flow, Mapping[str, float]],
    slots: dict[str, int],
    prices: dict[str, float],
) -> Plan:
    """The plan, with prices for all groups, from those of the time before if there are any."""
    fresh = not prices.keys() >= slots.keys()
    for group in slots:
        prices.setdefault(group, 1.0)
    return slot_prices.solve(demand, options, slots, prices, frozenset(slots), fresh=fresh)


def least_load(
    demand: Mapping[Flow, float], options: Mapping[Flow, Mapping[str, float]], slots: dict[str, int]
) -> float:
    """The least that the fullest group can have, by simplex: most of the demand, scaled
    evenly, that fits into the slots, and its inverse."""
    flows = [flow for flow, rate in demand.items() if rate]
    places = [(flow, group) for flow in flows for group in options[flow]]
    rows = [[demand[flow], *(-float(place[0] == flow) for place in places)] for flow in flows]
    bounds = [0.0] * len(rows)
    for group, count in slots.items():
        rows.append([0.0, *(options[flow][at] if at == group else 0.0 for flow, at in places)])
        bounds.append(float(count))
    return 1.0 / maximise([1.0, *([0.0] * len(places))], rows, bounds).value


def loads(
    plan: Plan, demand: dict[Flow, float], options: Options, slots: dict[str, int]
) -> dict[str, float]:
    """Each group's load by plan."""
    used = dict.fromkeys(slots, 0.0)
    for (flow, group), part in plan.part.items():
        used[group] += demand.get(flow, 0.0) * part * options[flow][group]
    return {group: used[group] / count for group, count in slots.items()}


def settled(
    demand: dict[Flow, float], options: Options, slots: dict[str, int], times: int = 6
) -> tuple[Plan, dict[str, float]]:
    """The plan after some solutions, each from the prices of the one before."""
    prices: dict[str, float] = {}
    plan = solve(demand, options, slots, prices)
    for _ in range(times):
        plan = solve(demand, options, slots, prices)
    return plan, prices


# The method is no exact one: a fixed sample of fleets, the worst of 4,000 others (1.045) among
# them.
@settings(max_examples=60, deadline=None, derandomize=True)
@example(seed=774)
@example(seed=59_487)
@example(seed=73_300)
@given(seed=st.integers(0, 100_000))
def test_the_plan_is_near_the_optimum_of_any_fleet(seed: int) -> None:
    random = Random(seed)
    groups = [f"g{number}" for number in range(random.randint(1, 5))]
    slots = {group: random.randint(1, 32) for group in groups}
    options: Options = {}
    demand: dict[Flow, float] = {}
    for model in "abcde"[: random.randint(1, 5)]:
        held = [group for group in groups if random.random() < 0.7] or [random.choice(groups)]
        service = {
            group: random.choice([1, 2, 3, 5, 8, 20]) * random.uniform(0.8, 1.2) for group in held
        }
        for lane in range(random.randint(1, 3)):
            options[model, lane] = service
            demand[model, lane] = random.uniform(0.05, 3.0)
    plan, prices = settled(demand, options, slots)
    assert plan.load <= 1.05 * least_load(demand, options, slots)
    assert plan.load == pytest.approx(max(loads(plan, demand, options, slots).values()))
    assert all(0.0 < price <= 1.0 for price in prices.values())


@pytest.mark.parametrize("load", [0.05, 0.5, 1.0, 2.0])
def test_the_plan_of_the_shared_cluster_is_near_its_optimum(load: float) -> None:
    state = known_cluster(load).state
    layout = state.layout
    options: Options = {}
    slots: dict[str, int] = {}
    for flow, group in layout.plan.cost:
        members = layout.groups[group].members
        slots[group] = sum(replica.facts.slots for replica in members)
        speed = state.estimates.speed(flow[0], members[0].facts.name)
        assert speed is not None
        assert speed.service is not None
        options.setdefault(flow, {})[group] = speed.service.value
    demand = {flow: found.rate for flow, found in state.demand.items()}
    best = least_load(demand, options, slots)
    assert layout.plan.load <= 1.03 * best
    # At the peak 97 % of what the cluster can do is offered.
    assert best == pytest.approx(0.969 * load, rel=0.01)


def test_work_sits_where_it_is_cheap() -> None:
    demand = {("a", 1): 5.0, ("b", 1): 5.0}
    options = {("a", 1): {"x": 1.0, "y": 2.0}, ("b", 1): {"x": 1.0, "y": 8.0}}
    plan, _ = settled(demand, options, {"x": 10, "y": 10})
    for flow, services in options.items():
        for group in services:
            assert plan.cost[flow, group] >= 1.0
            assert (plan.part[flow, group] > 0.1) == (plan.cost[flow, group] < 1.11)
    assert plan.part[("b", 1), "x"] > 0.95
    assert sum(plan.part[("a", 1), group] for group in ("x", "y")) == pytest.approx(1.0)


def test_an_overloaded_group_apart_does_not_spoil_the_others_however_long_it_lasts() -> None:
    demand = {("alone", 1): 50.0, ("a", 1): 4.0, ("b", 1): 4.0}
    options = {
        ("alone", 1): {"own": 1.0},
        ("a", 1): {"x": 1.0, "y": 2.0},
        ("b", 1): {"x": 1.0, "y": 8.0},
    }
    slots = {"own": 1, "x": 10, "y": 10}
    plan, prices = settled(demand, options, slots, times=300)
    found = loads(plan, demand, options, slots)
    assert found["x"] == pytest.approx(found["y"], rel=0.05)
    assert prices["y"] / prices["x"] == pytest.approx(0.5, rel=0.05)


def test_nor_does_one_that_others_could_use_but_leave() -> None:
    demand = {("alone", 1): 50.0, ("a", 1): 4.0, ("b", 1): 4.0}
    options = {
        ("alone", 1): {"own": 1.0},
        ("a", 1): {"own": 1.0, "x": 1.0, "y": 2.0},
        ("b", 1): {"x": 1.0, "y": 8.0},
    }
    slots = {"own": 1, "x": 10, "y": 10}
    plan, _ = settled(demand, options, slots, times=300)
    found = loads(plan, demand, options, slots)
    assert plan.part[("a", 1), "own"] < 0.01
    assert found["x"] == pytest.approx(found["y"], rel=0.05)
    # When its own work is gone the others use it at once.
    demand["alone", 1] = 0.0
    prices = dict.fromkeys(slots, 1.0)
    for _ in range(3):
        plan = solve(demand, options, slots, prices)
    assert plan.load <= 1.05 * least_load(demand, options, slots)


def test_prices_follow_when_demand_turns_round() -> None:
    options = {("a", 1): {"x": 1.0, "y": 3.0}, ("b", 1): {"x": 3.0, "y": 1.0}}
    slots = {"x": 4, "y": 4}
    before, after = ({("a", 1): 6.0, ("b", 1): 0.5}, {("a", 1): 0.5, ("b", 1): 6.0})
    prices: dict[str, float] = {}
    for _ in range(100):
        solve(before, options, slots, prices)
    found = [solve(after, options, slots, prices).load for _ in range(3)]
    assert found[-1] <= 1.05 * least_load(after, options, slots)


def test_without_demand_nothing_is_loaded_and_costs_are_told() -> None:
    options = {("a", 1): {"x": 1.0, "y": 3.0}}
    plan, prices = settled({}, options, {"x": 4, "y": 4})
    assert plan.load == 0.0
    assert plan.cost[("a", 1), "x"] == 1.0
    assert plan.cost[("a", 1), "y"] == pytest.approx(3.0)
    assert prices == {"x": 1.0, "y": 1.0}
    assert solve({}, {}, {}, {}) == Plan(prices={})
