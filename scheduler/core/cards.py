"""How many cards each pool is to have, and which of the scaler's: decided here alone.

Three things ask for cards (see ``card_needs``): the load, which is what runs and what P1 and P2
have waiting; P0 that waits too long; and models that P0 waits for and no replica serves. What
they ask for is taken at once, as far as there are cards and ``max_cards`` allows. It is given
back when P0 has not waited too long for ``cooldown_s``, fewer would have been enough for all of
``settle_s``, and the need does not grow. Replicas of the fleet file stay. Where cards came
because P0 waits and it waits on, no more are asked for until it has been calm.

A pool in which the scaler has no card is told what it should have all the same, for whoever can
give it: an autoscaler that follows the metric, or people. What comes of that is not judged.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .card_choice import choose_cards, count_replicas
from .card_needs import Needs, PoolView, by_backlog, by_cold_start, by_load
from .card_plan import Plan
from .decisions import Decision, Kind, Notice, Scale
from .fleet import CardFacts

if TYPE_CHECKING:
    from .replica import Replica
    from .state import State

MS = 1_000_000
NS = 1_000_000_000


def sample(state: "State") -> None:
    """Take in what the pools' replicas hold now."""
    for name, plan in state.plans.items():
        members = [replica for replica in state.replicas.values() if replica.pool.name == name]
        plan.held.sample(members, state.now)


def reconcile(state: "State", out: list[Decision]) -> None:
    """Decide anew, and say what has changed."""
    state.plan_at = state.now + int(state.policy.placement.reprice_s * NS)
    state.turn_at = min(state.turn_at, state.plan_at)
    scales = "scale_gpu" in state.policy.backpressure.action
    views = [view for view in _views(state) if view.cards or (scales and not view.dedicated)]
    for name in state.plans.keys() - {view.name for view in views}:
        del state.plans[name]
    for view in views:
        plan = _seen(state, view)
        needs = _needs(state, view, plan, scales=scales and not view.dedicated)
        _judge(state, view, plan, needs, out)
        _decide(state, view, plan, needs, out)


def let_go(state: "State", pool: str, model: str) -> None:
    """Cards of the pool that were started for the model and take no work yet are not waited for
    any more."""
    plan = state.plans.get(pool)
    if plan is not None:
        for name in sorted(plan.cold):
            replica = state.replicas.get(name)
            if plan.cards[name] == model and (replica is None or not replica.serving()):
                plan.drop(name)
    state.plan_at = 0


def standing_orders(state: "State") -> list[Scale]:
    """The orders that hold, once more: whoever carries them out may not have heard of the last."""
    return [
        Scale(name, plan.ready, plan.desired, tuple(sorted(plan.cards.items())), cause="as before")
        for name, plan in state.plans.items()
    ]


def as_they_are(state: "State", pools: Iterable[str]) -> list[Scale]:
    """Orders that take back all earlier ones: these pools keep the cards that are on, and no other
    is waited for."""
    views = {view.name: view for view in _views(state)}
    found = []
    for name in pools:
        view = views.get(name)
        if view is not None:
            on = tuple((card.name, "") for card in view.cards if card.on)
            ready = len(view.serving)
            found.append(Scale(name, ready, len(view.fixed) + len(on), on, cause="counted anew"))
    return found


def _views(state: "State") -> list[PoolView]:
    """All pools that have a replica or a card, by name."""
    members: dict[str, list[Replica]] = {}
    cards: dict[str, list[CardFacts]] = {}
    dedicated: dict[str, bool] = {}
    for replica in state.replicas.values():
        members.setdefault(replica.pool.name, []).append(replica)
        dedicated[replica.pool.name] = replica.pool.dedicated
    for card in state.cards.values():
        cards.setdefault(card.pool.name, []).append(card)
        dedicated[card.pool.name] = card.pool.dedicated
    found = []
    for name in sorted(dedicated):
        serving = tuple(replica for replica in members.get(name, ()) if replica.serving())
        fixed = tuple(replica for replica in serving if replica.facts.name not in state.cards)
        held = tuple(members.get(name, ()))
        found.append(
            PoolView(name, dedicated[name], held, serving, fixed, tuple(cards.get(name, ())))
        )
    return found


def _seen(state: "State", view: PoolView) -> Plan:
    """The pool's plan, with what has come or gone by itself since the last look."""
    plan, ready = state.plans.get(view.name), len(view.serving)
    if plan is None:
        plan = state.plans[view.name] = Plan(ready, ready=ready, part=state.now)
    on = {card.name for card in view.cards if card.on}
    plan.leaving &= on
    for name in plan.cards.keys() - {card.name for card in view.cards}:
        plan.drop(name)
    for name in sorted(on - plan.cards.keys() - plan.leaving):
        plan.cards[name] = ""
        plan.told.add(name)
    takes = {replica.facts.name for replica in view.serving}
    plan.absent = {name: plan.absent.get(name, state.now) for name in sorted(on - takes)}
    if not view.cards and ready > max(plan.ready, plan.desired):
        plan.desired = ready
    plan.ready = ready
    plan.held.sample(view.members, state.now)
    return plan


def _needs(state: "State", view: PoolView, plan: Plan, *, scales: bool) -> Needs:
    load = by_load(state, view, plan.held) if scales else {}
    backlog = by_backlog(state, view) if scales else {}
    plan.note_load(load, state.now, int(state.policy.backpressure.scale.settle_s * NS))
    return Needs(load, backlog, by_cold_start(state, view), scales)


def _judge(state: "State", view: PoolView, plan: Plan, needs: Needs, out: list[Decision]) -> None:
    """Whether P0 waits too long for a model of the pool, and whether cards have helped."""
    scale, models = state.policy.backpressure.scale, state.pressure.models
    if any(view.ready(model) or model in needs.backlog for model in state.pressure.pressed()):
        plan.pressed = state.now
    elif plan.pressed and state.now - plan.pressed >= scale.cooldown_s * NS:
        plan.pressed = plan.grown = 0
        plan.given_up = False
    if plan.given_up or not (plan.grown and view.cards and needs.backlog):
        return
    since = max(plan.grown, min(models[model].since for model in needs.backlog))
    if plan.ready > plan.base and state.now - since > scale.help_window_s * NS:
        plan.given_up = True
        wait = max(models[model].wait for model in needs.backlog)
        cause = f"{plan.ready} cards, and P0 waits {wait // MS} ms"
        out.append(Notice(Kind.NO_HELP, view.name, cause, plan.ready))


def _decide(state: "State", view: PoolView, plan: Plan, needs: Needs, out: list[Decision]) -> None:
    """Find what the pool should have, and say so where it is something else than before."""
    before = plan.desired
    if view.cards:
        cards = choose_cards(state, view, plan, needs)
        desired, told = len(view.fixed) + len(cards), plan.told != cards.keys()
    else:
        cards, desired = {}, count_replicas(state, view, plan, needs)
        told = desired != before
    if needs.backlog and desired > before and not plan.grown:
        plan.grown, plan.base = state.now, plan.ready
    plan.take(desired, cards, needs.cold)
    if told:
        order, models = tuple(sorted(cards.items())), tuple(needs.cold)
        cause = _causes(state, view, needs)
        out.append(Scale(view.name, plan.ready, desired, order, models, cause))


def _causes(state: "State", view: PoolView, needs: Needs) -> str:
    """All that asks for cards now, in plain words."""
    cards = sum(needs.load.values()) / view.slots
    found = [f"work for {cards:.1f} cards"]
    found += [
        f"P0 of {model} waits {state.pressure.models[model].wait // MS} ms"
        for model in needs.backlog
    ]
    found += [f"a card is for P0 of {model}" for model in needs.cold]
    return ", ".join(found)
