"""Cards that come and go: one decision, from load, from P0 that waits, and from models that P0
waits for and no replica serves."""

from dataclasses import replace
from math import ceil

import pytest

from scheduler.core.decisions import Kind, Notice, Scale
from scheduler.core.policy import Policy
from scheduler.scaling import CardState

from .scene import MS, SECOND, START, URGENT, Scene, card
from .yard import LOAD, SLOTS, Yard

CALM_S = 40
SETTLE_S = 10
FOUR = {f"c{number}": ("m",) for number in range(1, 5)}


def rules(*, action: tuple[str, ...] | None = None, **changes: object) -> Policy:
    """Looks for calm after P0 has waited for a few seconds less than by default."""
    policy = Policy()
    pressure = policy.backpressure
    scale = replace(pressure.scale, cooldown_s=CALM_S, settle_s=SETTLE_S, **changes)  # type: ignore[arg-type]
    action = pressure.action if action is None else action
    return replace(policy, backpressure=replace(pressure, scale=scale, action=action))


def four_up(policy: Policy | None = None) -> Yard:
    """Four cards, all on."""
    return Yard(cards=FOUR, up=tuple(FOUR), policy=policy or rules())


def kinds(scene: Scene) -> list[Kind]:
    return [item.kind for item in scene.log if isinstance(item, Notice)]


def flood(yard: Yard, count: int, lane: int = 0, model: str = "m") -> None:
    """So many requests at once."""
    for _ in range(count):
        yard.arrive(lane=lane, model=model)


def serve(yard: Yard, seconds: int) -> None:
    """What runs ends every second."""
    for _ in range(seconds):
        yard.wait(SECOND)
        yard.finish(*list(yard.running))


# Load.


def test_idle_cards_are_used_for_p1_and_p2_too() -> None:
    """One replica of the fleet, seven idle cards, P1 at eight times what that one can do."""
    yard = Yard(card("own", SLOTS), cards={f"c{n}": ("m",) for n in range(7)}, policy=rules())
    yard.load(8 * SLOTS, 90)
    assert len(yard.used) == 7
    assert yard.state.plans["shared"].desired == 8
    # And of P2 alone.
    yard = Yard(card("own", SLOTS), cards={f"c{n}": ("m",) for n in range(7)}, policy=rules())
    flood(yard, 2000, lane=2)
    serve(yard, 90)
    assert len(yard.used) == 7


def test_cards_that_are_not_needed_are_given_back() -> None:
    yard = four_up()
    yard.load(5, 40)
    # Five slots with a fifth of headroom are a card and a half.
    assert yard.ordered == [(4, 2)]
    assert len(yard.used) == 2
    assert yard.orders[0].cause == "work for 1.4 cards"


def test_they_are_taken_again_as_soon_as_the_load_grows() -> None:
    yard = four_up()
    yard.load(5, 40)
    yard.load(11, 40)
    # Eleven slots and the fifth are three cards and a third.
    assert yard.ordered[1:] == [(2, 3), (2, 4)] or yard.ordered[1:] == [(2, 4)]
    assert len(yard.used) == 4


def test_one_that_still_drains_is_taken_before_an_idle_one() -> None:
    yard = Yard(card("own", SLOTS), cards=FOUR, up=("c1", "c2"), policy=rules())
    yard.arrive("long", lane=2)
    while yard.where("long") == "own":
        yard.cancel("long")
        yard.arrive("long", lane=2)
    busy = yard.where("long")
    (other,) = {"c1", "c2"} - {busy}
    # Only the long one is left when both have been told to go.
    yard.scaler.drain(busy)
    yard.wait(SECOND)
    assert yard.names(CardState.DRAINING) == [busy]
    flood(yard, 400, lane=1)
    yard.wait(5 * SECOND)
    assert {busy, other} <= set(yard.names(CardState.UP))


def test_a_card_whose_kv_cache_is_full_has_no_slots_left() -> None:
    """Room for one at a time, in thirty-two slots."""
    yard = Yard(card("own", 32, kv=1000), cards=FOUR, policy=rules())
    yard.load(1, 60, prompt=900)
    # Work for one card, and a fifth of it for what may come.
    assert len(yard.used) == 1


def test_nothing_is_given_back_while_the_need_grows() -> None:
    yard = four_up()
    for slots in range(2, 13):
        yard.load(slots, SETTLE_S)
    assert yard.ordered == []


def test_steady_load_makes_them_neither_come_nor_go() -> None:
    yard = Yard(card("own", SLOTS), cards=FOUR, policy=rules())
    yard.load(9, 120)
    orders = len(yard.ordered)
    yard.load(9, 300)
    assert len(yard.ordered) == orders


def test_replicas_of_the_fleet_are_not_given_back() -> None:
    yard = Yard(*(card(f"f{n}", SLOTS) for n in range(3)), cards=FOUR, up=tuple(FOUR))
    yard.rules(rules())
    yard.load(1, 40)
    assert yard.ordered == [(7, 3)]
    assert not yard.used
    assert yard.state.plans["shared"].desired == 3


@pytest.mark.parametrize("least", [1, 3])
def test_what_a_pool_is_left_with(least: int) -> None:
    yard = four_up(rules(least_cards=least))
    yard.load(1, 40)
    assert len(yard.used) == least


def test_most_cards_count_the_fleet_s_own() -> None:
    yard = Yard(card("own", SLOTS), cards=FOUR, policy=rules(max_cards=3))
    yard.load(40, 60)
    assert len(yard.used) == 2
    yard.rules(rules(max_cards=2))
    yard.load(40, 20)
    assert len(yard.used) == 1


def test_without_the_action_cards_stay_as_they_are() -> None:
    yard = Yard(card("own", SLOTS), cards=FOUR, up=("c1",), policy=rules(action=("throttle_P2",)))
    yard.load(20, 60)
    yard.load(1, 60)
    assert yard.used == ["c1"]
    assert not yard.ordered


def test_waiting_p2_is_to_start_before_it_is_overdue() -> None:
    yard = Yard(card("own", SLOTS), cards=FOUR, policy=rules())
    yard.load(3, 20, lane=2)
    # A few that wait do so for seconds.
    flood(yard, 40, lane=2)
    serve(yard, 20)
    assert not yard.used
    flood(yard, 1000, lane=2)
    yard.wait(5 * SECOND)
    assert len(yard.used) == 4


# Cards that fail.


def test_a_card_that_breaks_is_replaced_if_it_is_needed() -> None:
    yard = Yard(card("own", SLOTS), cards=FOUR, up=("c1",), policy=rules())
    yard.load(6, 20)
    yard.breaks("c1")
    yard.load(6, 10)
    assert yard.used == ["c2"]
    assert yard.state.plans["shared"].desired == 2


def test_one_that_is_not_needed_is_not() -> None:
    yard = four_up()
    yard.load(9, 5)
    yard.breaks("c4")
    yard.load(5, 20)
    assert all(desired <= ready for ready, desired in yard.ordered)


def test_one_that_no_other_can_replace_is_started_again_when_it_can_be() -> None:
    yard = Yard(card("own", SLOTS), cards={"c1": ("m",)}, policy=rules())
    yard.load(8, 30)
    assert yard.used == ["c1"]
    orders = len(yard.ordered)
    for _ in range(3):
        yard.breaks("c1")
        yard.load(8, 5)
        yard.mended("c1")
        assert yard.used == ["c1"]
        yard.load(8, 5)
    # What is wanted did not change by that.
    assert len(yard.ordered) == orders


def test_a_pool_is_not_left_without_its_last_card() -> None:
    yard = Yard(cards={"c1": ("m",), "c2": ("m",)}, up=("c1",), policy=rules())
    yard.load(0, 60)
    yard.breaks("c1")
    yard.wait(LOAD + 5 * SECOND)
    assert yard.names(CardState.UP) == ["c2"]


def test_one_that_is_on_and_takes_no_work_is_not_counted_on_for_ever() -> None:
    yard = Yard(card("own", SLOTS), cards=FOUR, policy=rules(help_window_s=30.0), load=10**15)
    at = []
    for wanted in (1, 2):
        while len(yard.used) < wanted:
            yard.load(6, 1)
            assert yard.now < START + 200 * SECOND
        at.append(yard.now)
    assert 30 * SECOND <= at[1] - at[0] <= 35 * SECOND


# Cards that serve different models.


def test_cards_that_serve_what_is_asked_for_are_taken() -> None:
    """Those of another model would be of no help, whatever stands first in the file."""
    cards = {"a1": ("a",), "a2": ("a",), "b1": ("b",), "b2": ("b",)}
    yard = Yard(card("own", SLOTS, "a", "b"), cards=cards, policy=rules())
    yard.load(16, 60, model="b")
    assert yard.used == ["b1", "b2"]
    # Nor are they counted as if they were: b wants more than there are.
    yard.load(16, 60, model="b")
    assert yard.used == ["b1", "b2"]
    yard.load(12, 30, model="a")
    assert set(yard.used) >= {"a1", "a2"}


def test_a_card_for_both_is_used_for_what_is_short() -> None:
    cards = {"a1": ("a",), "both": ("a", "b")}
    yard = Yard(card("own", 1, "a", "b"), cards=cards, policy=rules())
    yard.load(3, 60, model="b")
    assert yard.used == ["both"]


def test_idle_cards_of_another_pool_do_what_waits() -> None:
    """Its own pool has none to start."""
    yard = Yard(card("own", SLOTS), cards=FOUR, pool=replace(URGENT, name="spare"), policy=rules())
    # A dedicated pool is for P0 that waits for a start; this is another.
    yard.load(20, 30)
    assert not yard.used
    elastic = replace(URGENT, name="spare", dedicated=False, lanes=frozenset({0, 1, 2}))
    yard = Yard(card("own", SLOTS), cards=FOUR, pool=elastic, policy=rules())
    yard.load(20, 60)
    assert len(yard.used) == 4


# P0 that waits too long.


def test_p0_asks_for_as_many_as_work_its_backlog_off_in_time() -> None:
    yard = Yard(card("own", SLOTS), cards={f"c{n}": ("m",) for n in range(9)}, policy=rules())
    yard.load(1, 100, lane=0)
    assert not yard.used
    flood(yard, 100)
    yard.wait(200 * MS)
    waiting = yard.state.lane_queued[0]
    assert waiting == 100 - SLOTS
    # So many seconds of slots in ten seconds, a fifth more, by cards of four.
    assert yard.ordered == [(1, 1 + ceil(waiting / (SLOTS * 10) * 1.2))]
    assert "P0 of m waits" in yard.orders[0].cause


def test_after_p0_has_waited_it_must_be_calm_before_cards_go() -> None:
    yard = Yard(card("own", SLOTS), cards=FOUR, policy=rules())
    yard.load(SLOTS, 60, lane=0)
    flood(yard, 60)
    serve(yard, 20)
    taken = len(yard.used)
    assert taken
    serve(yard, 20)
    assert Kind.RELIEVED in kinds(yard)
    yard.load(1, CALM_S - 25)
    assert len(yard.used) == taken
    yard.load(1, 40)
    assert not yard.used


def test_cards_that_do_not_help_are_not_asked_for_again_until_it_is_calm() -> None:
    """P0 comes faster than any card can do: the first ones have come and it waits on."""
    yard = Yard(
        card("own", SLOTS),
        cards={f"c{n}": ("m",) for n in range(40)},
        policy=rules(help_window_s=30.0, drain_s=200.0),
        load=SECOND,
    )
    yard.load(SLOTS, 40, lane=0)
    for _ in range(100):
        # Work that ends nowhere: its slots are no help.
        flood(yard, 4)
        yard.wait(SECOND)
    assert kinds(yard).count(Kind.NO_HELP) == 1
    at = next(n for n, d in enumerate(yard.log) if isinstance(d, Notice) and d.kind is Kind.NO_HELP)
    used = len(yard.used)
    assert used < 40
    assert not [d for d in yard.log[at:] if isinstance(d, Scale) and d.desired > d.ready]
