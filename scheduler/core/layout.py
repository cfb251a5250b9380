"""Which replicas are for which work at present: the placement sets.

Replicas of one kind in one pool form a *group*. Where kinds of card differ in what they can do, or
in what they do better, a plan (see ``prices``) says what each flow (model, lane) costs on each
group and where the plan puts it. From that each flow gets

- its *placement set*: groups that the plan uses for it, or that cost it about as little
  while there is room to spare; a slot there is one it could use. What it costs more there than
  where it costs least is the group's *toll*;
- groups for *spill*: dearer ones that it may use when nobody whose set they are in waits.

The dearer the fleet's time, the narrower both become. Where kinds do not differ, all of them are in
the set, without toll.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from .estimates import Estimates
from .group import Group
from .kinds import differ, kind_of
from .prices import Flow, Plan, parts_of, solve
from .replica import Replica

# A group is in the set when it costs at most this much more than the cheapest ...
NEAR = 1.1
# ... and the plan gives the model this share of it, or it this share of the flow;
SHARE = 0.1
PART = 0.2
# below this load all that is near enough is in the set.
RELAXED = 0.5
FARTHEST = 10.0
# Tolls begin with this load, and count in full at twice that.
CALM = 0.4
# Cards of one kind do the same work at most so much slower, by what else they have to do.
SLOWER = 2.0
# Of a request that nobody has measured (ns).
UNKNOWN_SERVICE = 1.0

Tier = tuple[Group, ...]
Models = tuple[str, ...]
NOBODY: tuple[Models, Models, Models] = ((), (), ())


@dataclass(slots=True)
class Demand:
    """Of one flow: requests per ns, and the mean of their tokens."""

    rate: float
    prompt: float = 0.0
    output: float = 0.0


@dataclass(slots=True)
class Layout:
    """``sets`` and ``spills``: groups by flow; of the former ``hot`` ones first where a model has
    both paths. ``tolls`` (ns) by flow and group. ``wanted``, ``spare`` and ``strange``: models by
    lane for which a replica is in the set, in the spill, or in neither though it takes them;
    ``apart`` has the last by flow. ``bounded`` flows may run where the KV cache has a bound.
    ``slots``: of a flow's set. ``levels``: which ones the replicas that serve a flow, now or once
    they are warm, take. Of the groups in ``priced`` kinds differ."""

    plan: Plan = field(default_factory=Plan)
    prices: dict[str, float] = field(default_factory=dict)
    priced: frozenset[str] = frozenset()
    groups: dict[str, Group] = field(default_factory=dict)
    sets: dict[Flow, Tier] = field(default_factory=dict)
    spills: dict[Flow, Tier] = field(default_factory=dict)
    tolls: dict[tuple[Flow, str], float] = field(default_factory=dict)
    wanted: dict[str, tuple[Models, Models, Models]] = field(default_factory=dict)
    spare: dict[str, tuple[Models, Models, Models]] = field(default_factory=dict)
    strange: dict[str, tuple[Models, Models, Models]] = field(default_factory=dict)
    apart: dict[Flow, tuple[Replica, ...]] = field(default_factory=dict)
    bounded: set[Flow] = field(default_factory=set)
    slots: dict[Flow, int] = field(default_factory=dict)
    levels: dict[Flow, tuple[tuple[int, int], ...]] = field(default_factory=dict)


def lay_out(
    replicas: Mapping[str, Replica],
    estimates: Estimates,
    demand: Mapping[Flow, Demand],
    before: Layout,
    slot_price: float,
    generative: Collection[str],
    *,
    gated: bool,
) -> Layout:
    """Compute the sets anew. ``demand`` is by flow, ``before`` the layout of the time before;
    ``slot_price`` scales how much cost counts against nearness (0: not at all). Requests for the
    models in ``generative`` have tokens. ``gated``: replicas with enough to prefill take none."""
    members: dict[str, list[Replica]] = {}
    for replica in replicas.values():
        replica.group = None
        if replica.serving():
            members.setdefault(replica.group_key, []).append(replica)
    options: dict[Flow, dict[str, float]] = {}
    for name, held in members.items():
        first = held[0]
        for lane in first.lanes:
            for model in first.serves[lane]:
                flow = model, lane
                options.setdefault(flow, {})[name] = _service(first, flow, estimates, demand)
    layout = Layout()
    layout.groups = {
        name: Group(
            name,
            held,
            _per_request(held[0], estimates, demand, options),
            gated=gated and all(model in generative for model in held[0].facts.models),
        )
        for name, held in members.items()
    }
    layout.levels = _levels(members)
    slots = {name: group.slots for name, group in layout.groups.items()}
    choices = [services for services in options.values() if len(services) > 1]
    for part in parts_of(slots, choices) if slot_price else ():
        if differ(part, options, was=before.priced):
            layout.priced |= set(part)
    layout.prices = {name: before.prices.get(name, 1.0) for name in slots}
    rates = {flow: found.rate for flow, found in demand.items()}
    fresh = not before.prices.keys() >= slots.keys()
    layout.plan = solve(rates, options, slots, layout.prices, layout.priced, fresh=fresh)
    for flow, services in options.items():
        _sort(layout, flow, services, estimates, slot_price)
    _turn_around(layout, replicas)
    return layout


def _service(
    replica: Replica, flow: Flow, estimates: Estimates, demand: Mapping[Flow, Demand]
) -> float:
    """Slot time (ns) of a mean request of the flow on such a card, all of its slots being used."""
    model, name = flow[0], replica.facts.name
    speed, size = estimates.speed(model, name), demand.get(flow)
    if speed is None:
        return UNKNOWN_SERVICE
    if speed.service is not None:
        return max(UNKNOWN_SERVICE, speed.service.value)
    if size is None or not speed.step.weight:
        return max(UNKNOWN_SERVICE, speed.step.y)
    decode = size.output * speed.step.at(replica.facts.slots)
    return max(UNKNOWN_SERVICE, estimates.prefill(model, name, size.prompt) + decode)


def _per_request(
    replica: Replica,
    estimates: Estimates,
    demand: Mapping[Flow, Demand],
    options: Mapping[Flow, Mapping[str, float]],
) -> float:
    """What one more request makes those wait that run on such a card (ns): each of their steps is
    longer by the slope; of services of one length a part of these."""
    name, slots = replica.facts.name, replica.facts.slots
    total = weight = 0.0
    for flow, services in options.items():
        size, service = demand.get(flow), services.get(replica.group_key)
        if service is None:
            continue
        rate = size.rate if size is not None else 0.0
        speed = estimates.speed(flow[0], name)
        added = service / slots
        if speed is not None and speed.step.weight and size is not None:
            added = size.output * speed.step.slope
        total += (rate or 1e-18) * added
        weight += rate or 1e-18
    return max(1.0, total / weight) if weight else 1.0


def _levels(members: Mapping[str, list[Replica]]) -> dict[Flow, tuple[tuple[int, int], ...]]:
    """The levels that each flow's replicas take, those that are not warm yet included."""
    found: dict[Flow, set[tuple[int, int]]] = {}
    for held in members.values():
        for model in held[0].facts.models:
            for lane in held[0].lanes_warm:
                found.setdefault((model, lane), set()).add(held[0].facts.levels)
    return {flow: tuple(sorted(levels)) for flow, levels in found.items()}


def _sort(
    layout: Layout,
    flow: Flow,
    services: Mapping[str, float],
    estimates: Estimates,
    slot_price: float,
) -> None:
    """Put the flow's groups into its set, its spill, or neither."""
    model, lane = flow
    plan, groups = layout.plan, layout.groups
    load = plan.loads.get(next(iter(services)), 0.0)
    # However much more comes than there is room for, the groups that the plan uses stay in.
    limit = min(FARTHEST, NEAR / min(max(load, 0.01), 1.0))
    mixed = len({groups[name].members[0].facts.hot for name in services}) > 1
    inside, outside = [], []
    for name in services:
        if name not in layout.priced or mixed:
            inside.append(name)
            continue
        cost = 1.0 + slot_price * (plan.cost[flow, name] - 1.0)
        hold = plan.hold.get((model, name), 0.0)
        used = hold >= SHARE or plan.part[flow, name] >= PART or load < RELAXED
        explored = estimates.explored(model, groups[name].members[0].facts.name)
        if not explored or (cost <= limit and used):
            inside.append(name)
        elif cost <= limit:
            outside.append(name)
    if not inside:
        inside, outside = outside, []
    busy = min(1.0, max(0.0, (load - CALM) / CALM))
    alike = _alike(inside, services) if lane < 2 else []
    # The same cards in another pool are dearer only by lower lanes, which give way.
    outside = [name for name in outside if name not in alike]
    cheapest = min((plan.price(flow, name, services) for name in services), default=0.0)
    for name in services:
        if name in layout.priced and name not in alike:
            dearer = plan.price(flow, name, services) - cheapest
            layout.tolls[flow, name] = busy * slot_price * dearer
    inside += alike
    if mixed:
        # The hot ones come first, few as may be open of them.
        inside.sort(key=lambda name: not groups[name].members[0].facts.hot)
    layout.sets[flow] = tuple(groups[name] for name in inside)
    layout.spills[flow] = tuple(groups[name] for name in outside)
    if any(groups[name].members[0].facts.kv_tokens is not None for name in services):
        layout.bounded.add(flow)
    layout.slots[flow] = sum(group.slots for group in layout.sets[flow])


def _alike(inside: list[str], services: Mapping[str, float]) -> list[str]:
    """The other groups of the same cards, unless they are much slower all the same."""
    slowest: dict[str, float] = {}
    for name in inside:
        kind = kind_of(name)
        slowest[kind] = max(slowest.get(kind, 0.0), SLOWER * services[name])
    return [
        name
        for name, service in services.items()
        if name not in inside and service <= slowest.get(kind_of(name), 0.0)
    ]


def _turn_around(layout: Layout, replicas: Mapping[str, Replica]) -> None:
    """From sets by flow to models by replica."""
    found: list[dict[str, tuple[list[str], list[str], list[str]]]] = [{}, {}, {}]
    for table, tiers in zip(found, (layout.sets, layout.spills), strict=False):
        for (model, lane), groups in tiers.items():
            for group in groups:
                table.setdefault(group.name, ([], [], []))[lane].append(model)
    for name, group in layout.groups.items():
        first = group.members[0]
        near = [table.get(name, ([], [], [])) for table in found[:2]]
        for lane in first.lanes:
            for model in first.facts.models:
                served = model in first.serves[lane]
                if served and not any(model in models[lane] for models in near):
                    found[2].setdefault(name, ([], [], []))[lane].append(model)
                    flow = (model, lane)
                    layout.apart[flow] = (*layout.apart.get(flow, ()), *group.members)
    for source, target in zip(found, (layout.wanted, layout.spare, layout.strange), strict=True):
        for name, (one, two, three) in source.items():
            target[name] = (tuple(one), tuple(two), tuple(three))
