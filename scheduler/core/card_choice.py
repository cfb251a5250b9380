"""Which of a pool's cards are to be on, or how many replicas it should have: from what asks for
cards, what there is, and what may be given back."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .card_needs import Needs, PoolView
from .card_plan import Plan
from .cover import Demand, Offer, cover
from .fleet import CardFacts

if TYPE_CHECKING:
    from .replica import Replica
    from .state import State

NS = 1_000_000_000
# Fewer cards are enough only with so much (cards) to spare.
SPARE = 0.25


def choose_cards(state: "State", view: PoolView, plan: Plan, needs: Needs) -> dict[str, str]:
    """The scaler's cards that are to be on, by name with the model that each is to serve first.

    What is on stays unless it may be given back; what is lost counts no more.
    """
    offers = {card.name: _offer(card, state, view) for card in view.cards}
    usable = {card.name for card in view.cards if card.on or card.startable}
    kept = {name: model for name, model in plan.cards.items() if name in usable}
    late = _late(state, plan)
    others = _by_readiness(state, view, kept)
    demand = _wanted_now(view, plan, needs)
    given = [*_offers(view.fixed), *(offers[name] for name in kept if name not in late)]
    chosen, left = cover(demand, given, [offers[name] for name in others if name in usable])
    # What is broken may be mended before anything else comes free.
    hoped, _ = cover(left, (), [offers[name] for name in others if name not in usable])
    target = kept | chosen | hoped
    if may_give_back(plan, needs):
        order = [offers[name] for name in _by_use(state, target, late)]
        enough, _ = cover(_wanted_at_most(view, plan, needs), _offers(view.fixed), order)
        target = {name: target[name] for name in target if name in enough}
    elif not needs.scales:
        over = plan.cold - {name for name, model in kept.items() if model in needs.cold}
        target = {name: model for name, model in target.items() if name not in over}
    target |= _fewest(state, view, plan, target, [*_by_use(state, kept, late), *others])
    return _bounded(state, view, needs, target, late)


def count_replicas(state: "State", view: PoolView, plan: Plan, needs: Needs) -> int:
    """How many replicas a pool should have in which the scaler has no card."""
    scale = state.policy.backpressure.scale
    desired = max(plan.desired, _count(view, _wanted_now(view, plan, needs)))
    if may_give_back(plan, needs):
        desired = min(desired, _count(view, _wanted_at_most(view, plan, needs)))
    desired = max(desired, scale.least_cards)
    return desired if scale.max_cards is None else min(desired, scale.max_cards)


def may_give_back(plan: Plan, needs: Needs) -> bool:
    """Whether P0 has been calm, and the load of late is known and does not grow."""
    return needs.scales and not (needs.backlog or plan.pressed) and plan.settled


def _count(view: PoolView, demand: Demand) -> int:
    chosen, left = cover(demand, (), _offers(view.serving))
    return len(chosen) + left.lacking(view.slots)


def _wanted_now(view: PoolView, plan: Plan, needs: Needs) -> Demand:
    if plan.given_up:
        return Demand.of({}, _cold(view, needs))
    least = _cold(view, needs)
    for model, count in needs.backlog.items():
        least[model] = max(count, least.get(model, 0))
    return Demand.of(needs.load, least)


def _wanted_at_most(view: PoolView, plan: Plan, needs: Needs) -> Demand:
    """The largest load of late, and something to spare."""
    load = plan.largest
    work = sum(load.values())
    more = 1.0 + SPARE * view.slots / work if work else 1.0
    wanted = {model: slots * more for model, slots in load.items()}
    return Demand.of(wanted, _cold(view, needs))


def _cold(view: PoolView, needs: Needs) -> dict[str, int]:
    """A card for each model that one is started or kept for, whatever other replicas have it."""
    return {
        model: 1 + sum(model in replica.facts.models for replica in view.fixed)
        for model in needs.cold
    }


def _offer(card: CardFacts, state: "State", view: PoolView) -> Offer:
    replica = state.replicas.get(card.name)
    slots = card.slots if replica is None else replica.facts.slots
    return Offer(card.name, card.models, slots or view.slots)


def _offers(replicas: "Iterable[Replica]") -> list[Offer]:
    return [
        Offer(replica.facts.name, frozenset(replica.facts.models), replica.facts.slots)
        for replica in replicas
    ]


def _late(state: "State", plan: Plan) -> set[str]:
    """Cards that have been on for so long without taking work that they are not counted on."""
    window = state.policy.backpressure.scale.help_window_s * NS
    return {name for name, since in plan.absent.items() if state.now - since > window}


def _by_readiness(state: "State", view: PoolView, kept: dict[str, str]) -> list[str]:
    """The other cards: on their way, still draining, idle, broken."""

    def rank(card: CardFacts) -> tuple[bool, bool, bool, str]:
        return not card.on, card.name not in state.replicas, not card.startable, card.name

    return [card.name for card in sorted(view.cards, key=rank) if card.name not in kept]


def _by_use(state: "State", names: Iterable[str], late: set[str]) -> list[str]:
    """The busiest first, then what is on its way."""

    def rank(name: str) -> tuple[bool, bool, int, str]:
        replica = state.replicas.get(name)
        serving = replica is not None and replica.serving()
        return name in late, not serving, -replica.running if replica is not None else 0, name

    return sorted(names, key=rank)


def _fewest(
    state: "State", view: PoolView, plan: Plan, target: dict[str, str], order: list[str]
) -> dict[str, str]:
    """Cards that keep a pool from being left with fewer than ``least_cards``, the first in this
    order that have a model which it served. Those started for P0 alone do not count."""
    least = state.policy.backpressure.scale.least_cards
    least = min(least, plan.desired - len(plan.cards.keys() & plan.cold))
    missing = least - len(target.keys() - plan.cold) - len(view.fixed)
    if missing <= 0:
        return {}
    known = {model for replica in view.members for model in replica.facts.models}
    known.update(*(card.models for card in view.cards if card.name in plan.cards))
    alike = {card.name for card in view.cards if card.models & known}
    found = [name for name in order if name in alike and name not in target]
    return {name: plan.cards.get(name, "") for name in found[:missing]}


def _bounded(
    state: "State", view: PoolView, needs: Needs, target: dict[str, str], late: set[str]
) -> dict[str, str]:
    """As many of them as ``max_cards`` allows beside the fleet's own replicas, those first that P0
    waits for."""
    most = state.policy.backpressure.scale.max_cards
    if most is None or len(target) + len(view.fixed) <= most:
        return target
    order = _by_use(state, target, late)
    models = {card.name: card.models for card in view.cards}
    first = [next((n for n in order if model in models[n]), "") for model in needs.cold]
    order.sort(key=lambda name: name not in first)
    return {name: target[name] for name in order[: max(0, most - len(view.fixed))]}
