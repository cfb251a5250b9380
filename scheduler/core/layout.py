"""Which replicas are for which work at present: the placement sets.

Replicas of one kind form a *group*. A plan (see ``prices``) says what each flow (model,
lane) costs on each group and where the plan puts it. From that each flow gets

- its *placement set*: groups that the plan uses for it, or that cost it about as little
  while there is room to spare; a slot there is one it could use;
- groups for *spill*: dearer ones that it may use when nobody whose set they are in waits.

The dearer the fleet's time, the narrower both become.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log

from .estimates import Estimates
from .prices import Flow, Plan, solve
from .replica import Replica

# A group is in the set when it costs at most this much more than the cheapest ...
NEAR = 1.1
# ... and the plan gives the model this share of it, or it this share of the flow;
SHARE = 0.1
PART = 0.2
# below this load all that is near enough is in the set.
RELAXED = 0.5
FARTHEST = 10.0
# Cards of one kind do the same work at most so much slower, by what else they have to do.
SLOWER = 2.0
# Puts a group before all others.
FIRST = 10.0

Tier = tuple[Replica, ...]
Models = tuple[str, ...]
NOBODY: tuple[Models, Models, Models] = ((), (), ())


@dataclass(slots=True)
class Layout:
    """``sets`` and ``spills``: tiers of replicas to try in order, by flow. ``wanted``,
    ``spare`` and ``strange``: models by lane for which a replica is in the set, in the spill,
    or in neither though it takes them; ``apart`` has the last by flow. ``bounded``: of a
    flow's set and spill those whose KV cache has a bound. ``slots``: of a flow's set.
    ``levels``: which ones the replicas that serve a flow, now or once they are warm, take."""

    plan: Plan = field(default_factory=Plan)
    prices: dict[str, float] = field(default_factory=dict)
    sets: dict[Flow, tuple[Tier, ...]] = field(default_factory=dict)
    spills: dict[Flow, tuple[Tier, ...]] = field(default_factory=dict)
    wanted: dict[str, tuple[Models, Models, Models]] = field(default_factory=dict)
    spare: dict[str, tuple[Models, Models, Models]] = field(default_factory=dict)
    strange: dict[str, tuple[Models, Models, Models]] = field(default_factory=dict)
    apart: dict[Flow, tuple[Replica, ...]] = field(default_factory=dict)
    bounded: dict[Flow, tuple[Replica, ...]] = field(default_factory=dict)
    slots: dict[Flow, int] = field(default_factory=dict)
    levels: dict[Flow, tuple[tuple[int, int], ...]] = field(default_factory=dict)


def group_name(replica: Replica, estimates: Estimates) -> str:
    """The replica's group: same pool, lanes, models and slots, and about the same speed."""
    facts = replica.facts
    ratios = [
        estimates.service[model, facts.name].value / estimates.models[model].value
        for model in facts.models
        if estimates.explored(model, facts.name) and estimates.models[model].value > 0
    ]
    speed = round(log(sum(ratios) / len(ratios)) / log(1.8)) if ratios and sum(ratios) else 0
    models = ",".join(sorted(facts.models))
    kind = f"{models}|{facts.slots}|{facts.gpus}|{facts.levels}"
    if not facts.hot:
        kind += "|cold path"
    if any(replica.rest):
        kind += f"|{[sorted(models) for models in replica.rest]}"
    return f"{facts.pool}|{kind}|{speed}" if replica.warm else f"{facts.pool}|{kind}|cold|{speed}"


def _kind(group: str) -> str:
    """A group's cards, whatever pool they are in and however fast they have shown to be."""
    return group.partition("|")[2].rpartition("|")[0]


def _alike(inside: list[str], services: Mapping[str, float]) -> list[str]:
    """The other groups of the same cards, unless they are much slower all the same."""
    slowest: dict[str, float] = {}
    for name in inside:
        kind = _kind(name)
        slowest[kind] = max(slowest.get(kind, 0.0), SLOWER * services[name])
    return [
        name
        for name, service in services.items()
        if name not in inside and service <= slowest.get(_kind(name), 0.0)
    ]


def lay_out(
    replicas: Mapping[str, Replica],
    estimates: Estimates,
    demand: Mapping[Flow, float],
    prices: dict[str, float],
    slot_price: float,
) -> Layout:
    """Compute the sets anew. ``demand``: work per ns by flow; ``prices`` from the time before;
    ``slot_price`` scales how much cost counts against nearness (0: not at all)."""
    groups: dict[str, list[Replica]] = {}
    for replica in replicas.values():
        if replica.serving():
            groups.setdefault(group_name(replica, estimates), []).append(replica)
    options: dict[Flow, dict[str, float]] = {}
    for name, members in groups.items():
        for model in members[0].facts.models:
            service = _service(members, model, estimates)
            for lane in members[0].lanes:
                if model in members[0].serves[lane]:
                    options.setdefault((model, lane), {})[name] = service
    slots = {name: sum(r.facts.slots for r in members) for name, members in groups.items()}
    kept = {name: price for name, price in prices.items() if name in groups}
    layout = Layout(prices=kept)
    layout.plan = solve(demand, options, slots, kept)
    layout.levels = _levels(groups)
    for flow, services in options.items():
        _sort(layout, flow, services, groups, estimates, slot_price)
    _turn_around(layout, replicas)
    return layout


def _levels(groups: Mapping[str, list[Replica]]) -> dict[Flow, tuple[tuple[int, int], ...]]:
    """The levels that each flow's replicas take, those that are not warm yet included."""
    found: dict[Flow, set[tuple[int, int]]] = {}
    for members in groups.values():
        for model in members[0].facts.models:
            for lane in members[0].lanes_warm:
                found.setdefault((model, lane), set()).update(r.facts.levels for r in members)
    return {flow: tuple(sorted(levels)) for flow, levels in found.items()}


def _service(members: list[Replica], model: str, estimates: Estimates) -> float:
    known = [
        estimates.service[model, r.facts.name].value
        for r in members
        if (model, r.facts.name) in estimates.service
    ]
    mean = estimates.models.get(model)
    if known:
        return max(1.0, sum(known) / len(known))
    return max(1.0, mean.value) if mean is not None else 1.0


def _sort(
    layout: Layout,
    flow: Flow,
    services: Mapping[str, float],
    groups: Mapping[str, list[Replica]],
    estimates: Estimates,
    slot_price: float,
) -> None:
    """Put the flow's groups into its set, its spill, or neither, best first."""
    model, lane = flow
    plan, fastest = layout.plan, min(services.values())
    busy = min(1.0, max(0.0, (plan.load - 0.4) / 0.4))
    # However much more comes than there is room for, the groups that the plan uses stay in.
    limit = min(FARTHEST, NEAR / min(max(plan.load, 0.01), 1.0))
    inside: list[tuple[float, str]] = []
    outside: list[tuple[float, str]] = []
    mixed = len({groups[name][0].facts.hot for name in services}) > 1
    for name, service in services.items():
        cost = 1.0 + slot_price * (plan.cost[flow, name] - 1.0)
        hold = plan.hold.get((model, name), 0.0)
        explored = any(estimates.explored(model, r.facts.name) for r in groups[name])
        score = busy * (1.0 - hold) + (1.0 - busy) * (1.0 - fastest / service)
        if lane == 0 and groups[name][0].pool.dedicated:
            score -= 1.0
        used = hold >= SHARE or plan.part[flow, name] >= PART or plan.load < RELAXED
        if mixed:
            # The hot ones come first, few as may be open of them.
            score -= FIRST * groups[name][0].facts.hot
        if mixed or not explored or (cost <= limit and used):
            inside.append((score, name))
        elif cost <= limit:
            outside.append((score, name))
    if not inside:
        inside, outside = outside, []
    if lane < 2:
        # The same cards in another pool are dearer only by lower lanes, which give way.
        alike = _alike([name for _, name in inside], services)
        outside = [entry for entry in outside if entry[1] not in alike]
        inside += [(2.0, name) for name in alike]
    layout.sets[flow] = tuple(tuple(groups[name]) for _, name in sorted(inside))
    layout.spills[flow] = tuple(tuple(groups[name]) for _, name in sorted(outside))
    bounded = tuple(
        replica
        for _, name in (*inside, *outside)
        for replica in groups[name]
        if replica.facts.kv_tokens is not None
    )
    if bounded:
        layout.bounded[flow] = bounded
    layout.slots[flow] = sum(r.facts.slots for tier in layout.sets[flow] for r in tier)


def _turn_around(layout: Layout, replicas: Mapping[str, Replica]) -> None:
    """From sets by flow to models by replica."""
    found: list[dict[str, tuple[list[str], list[str], list[str]]]] = [{}, {}, {}]
    for flow, tiers in layout.sets.items():
        _note(found[0], flow, tiers)
    for flow, tiers in layout.spills.items():
        _note(found[1], flow, tiers)
    for name, replica in replicas.items():
        for lane in replica.lanes:
            for model in replica.facts.models:
                near = [table.get(name, ([], [], []))[lane] for table in found[:2]]
                resting = model in replica.rest[lane]
                if model not in near[0] and model not in near[1] and not resting:
                    found[2].setdefault(name, ([], [], []))[lane].append(model)
                    flow = (model, lane)
                    layout.apart[flow] = (*layout.apart.get(flow, ()), replica)
    for source, target in zip(found, (layout.wanted, layout.spare, layout.strange), strict=True):
        for name, (first, second, third) in source.items():
            target[name] = (tuple(first), tuple(second), tuple(third))


def _note(
    table: dict[str, tuple[list[str], list[str], list[str]]], flow: Flow, tiers: tuple[Tier, ...]
) -> None:
    model, lane = flow
    for tier in tiers:
        for replica in tier:
            table.setdefault(replica.facts.name, ([], [], []))[lane].append(model)
