"""How many cards there should be, as it is told: to whoever else starts them, with all reasons, and
again by a state that is built anew."""

from scheduler.core.cards import standing_orders
from scheduler.core.decisions import Kind, Notice, Scale
from scheduler.core.rebuilding import given_up
from scheduler.core.state import State

from .scene import SECOND, URGENT, Scene, card
from .test_cards import FOUR, SETTLE_S, flood, four_up, kinds, rules
from .yard import LOAD, SLOTS, Yard


def test_what_nobody_can_start_is_told_and_never_judged() -> None:
    """A pool of the fleet alone: an operator reads how many replicas it should have."""
    scene = Scene(card("a", SLOTS), policy=rules(help_window_s=5.0))
    for number in range(200):
        scene.arrive(f"p0-{number}", 0)
    scene.wait(60 * SECOND)
    orders = [d for d in scene.log if isinstance(d, Scale)]
    assert orders[-1].desired > orders[-1].ready == 1
    assert orders[-1].cards == ()
    assert scene.state.plans["shared"].desired == orders[-1].desired
    scene.add(*card("b", SLOTS))
    scene.wait(60 * SECOND)
    assert Kind.NO_HELP not in kinds(scene)


def test_what_a_fleet_of_fixed_replicas_could_do_without_is_told_when_it_has_settled() -> None:
    scene = Scene(*(card(name, SLOTS) for name in "abcd"), policy=rules())
    assert not [d for d in scene.log if isinstance(d, Scale)]
    for _ in range(40):
        for _ in range(5):
            scene.arrive()
        scene.wait(SECOND)
        scene.finish(*list(scene.running))
        scene.tick()
    (order,) = [d for d in scene.log if isinstance(d, Scale)]
    assert (order.ready, order.desired) == (4, 2)
    # It has four still; that is nobody's fault, and no news.
    for _ in range(40):
        for _ in range(5):
            scene.arrive()
        scene.wait(SECOND)
        scene.finish(*list(scene.running))
        scene.tick()
    assert len([d for d in scene.log if isinstance(d, Scale)]) == 1


def test_a_dedicated_pool_without_cards_is_told_nothing() -> None:
    scene = Scene(card("u", 1, pool=URGENT), policy=rules())
    for number in range(50):
        scene.arrive(f"p0-{number}", 0)
    scene.wait(60 * SECOND)
    assert not [d for d in scene.log if isinstance(d, Scale)]
    assert not scene.state.plans


def test_all_that_asks_for_cards_is_told_in_one_order() -> None:
    cards = {**FOUR, "n1": ("n",)}
    yard = Yard(card("own", SLOTS), cards=cards, policy=rules())
    yard.load(SLOTS, 30, lane=0)
    flood(yard, 60)
    yard.arrive("cold", 0, model="n")
    yard.wait(SECOND)
    found = [(notice.kind, notice.name) for notice in yard.log if isinstance(notice, Notice)]
    assert (Kind.PRESSED, "m") in found
    assert (Kind.COLD_START, "n") in found
    *_, order = yard.orders
    load, wait, start = order.cause.split(", ")
    assert load.startswith("work for 1.")
    assert wait.startswith("P0 of m waits ")
    assert start == "a card is for P0 of n"
    assert order.models == ("n",)
    assert dict(order.cards)["n1"] == "n"


# A state that is built anew.


def test_what_was_decided_outlives_the_state() -> None:
    yard = Yard(card("own", SLOTS), cards=FOUR, policy=rules())
    yard.load(9, 120)
    used, orders = yard.used, len(yard.ordered)
    before = yard.state
    yard.state = State(
        policy=before.policy,
        now=before.now,
        plans=before.plans,
        cards=before.cards,
        plan_at=before.now + SECOND,
    )
    # The last order was lost with it: what stands is told again.
    (order,) = standing_orders(before)
    assert {name for name, _ in order.cards} == set(used)
    assert order.desired == 1 + len(used)
    for change in list(yard._cards.values()):
        yard.step(change)
    yard.load(9, 60)
    assert yard.used == used
    assert len(yard.ordered) == orders


def test_a_state_that_knows_of_no_decision_finds_cards_that_are_on_and_keeps_them() -> None:
    yard = four_up()
    yard.load(9, 40)
    assert yard.state.plans["shared"].cards.keys() == set(yard.used)
    yard.state.plans.clear()
    yard.load(9, 5)
    assert yard.state.plans["shared"].cards.keys() == set(yard.used)
    yard.load(9, 60)
    assert len(yard.used) == 3


def test_a_state_that_starts_clean_takes_its_orders_back_and_keeps_the_cards_that_are_on() -> None:
    yard = Yard(card("own", SLOTS), cards={**FOUR, "n1": ("n",)}, policy=rules(), load=2 * LOAD)
    yard.load(9, 120)
    yard.arrive("cold", 0, model="n")
    used, before = set(yard.used), yard.state
    assert "n1" in used
    assert before.plans["shared"].cards["n1"] == "n"
    fresh = State(policy=before.policy, now=before.now)
    yard.state = fresh
    for change in list(yard._cards.values()):
        yard.step(change)
    fresh.cards = before.cards
    (order,) = [found for found in given_up(before, fresh) if isinstance(found, Scale)]
    assert {name for name, _ in order.cards} == used
    yard.steering.order(order)
    assert set(yard.used) == used
    yard.load(9, SETTLE_S // 2)
    assert set(yard.used) == used
