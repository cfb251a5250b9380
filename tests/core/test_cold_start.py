"""P0 whose model no replica has waits for one to be started, where something can be started."""

from dataclasses import replace

import pytest

from scheduler.core import events
from scheduler.core.decisions import Kind, Notice, Reason, Scale
from scheduler.core.fleet import CardFacts, PoolFacts
from scheduler.core.policy import Policy
from scheduler.core.state import State
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, SHARED, URGENT, Scene, card
from .yard import LOAD, SLOTS, Yard

WAIT = int(Policy().cold_start.wait_s * SECOND)
REST = int(Policy().failover.open_s * SECOND)
COOLDOWN = int(Policy().backpressure.scale.cooldown_s * SECOND)
SETTLE = int(Policy().backpressure.scale.settle_s * SECOND)
# After so long what was held counts no more.
MEAN = 50 * SECOND
IDLE = CardFacts("spare", SHARED, frozenset({"m"}), startable=True)


def told(scene: Scene, *cards: CardFacts) -> None:
    """The scaler has these cards."""
    scene.step(events.CardsChanged(cards))


def stage(*cards: CardFacts, policy: Policy | None = None) -> Scene:
    """A fleet that serves another model, and cards beside it."""
    scene = Scene(card("own", 2, "other"), policy=policy)
    told(scene, *(cards or (IDLE,)))
    return scene


def orders(scene: Scene) -> list[tuple[str, str, int]]:
    """Cards ordered on (1) and off (0): pool, model that it is for, which."""
    found: list[tuple[str, str, int]] = []
    before: dict[tuple[str, str], str] = {}
    for order in (item for item in scene.log if isinstance(item, Scale)):
        now = {(order.pool, name): model for name, model in order.cards}
        old = {key: model for key, model in before.items() if key[0] == order.pool}
        found += [
            (pool, model, 1) for (pool, name), model in now.items() if (pool, name) not in old
        ]
        found += [
            (pool, model, 0) for (pool, name), model in old.items() if (pool, name) not in now
        ]
        before = {key: model for key, model in before.items() if key not in old} | now
    return found


def notices(scene: Scene) -> list[tuple[Kind, str]]:
    return [(item.kind, item.name) for item in scene.log if isinstance(item, Notice)]


def come(scene: Scene, *, warm: bool = True) -> None:
    """The card that was asked for listens."""
    told(scene, replace(IDLE, startable=False, on=True))
    facts, pool = card("spare", 2)
    scene._tell(events.ReplicaChanged(facts, pool, True, 1, warm))


def test_p0_waits_and_a_card_is_asked_for_once() -> None:
    scene = stage()
    scene.arrive("first", 0)
    scene.arrive("second", 0, business="bank")
    assert scene.waiting() == ["first", "second"]
    assert orders(scene) == [("shared", "m", 1)]
    assert notices(scene) == [(Kind.COLD_START, "m")]
    told(scene, replace(IDLE, startable=False, on=True))
    scene.wait(60 * SECOND)
    come(scene)
    assert scene.on("spare") == ["first", "second"]
    scene.wait(SECOND)
    assert notices(scene)[1:] == [(Kind.WARM, "m")]
    assert orders(scene) == [("shared", "m", 1)]


@pytest.mark.parametrize(
    "cards",
    [
        (),
        (replace(IDLE, models=frozenset({"other"})),),
        (replace(IDLE, startable=False),),
        (replace(IDLE, pool=PoolFacts("slow", False, frozenset({1, 2}))),),
    ],
)
def test_where_nothing_can_be_started_it_is_refused_at_once(cards: tuple[CardFacts, ...]) -> None:
    scene = stage()
    told(scene, *cards)
    scene.arrive("urgent", 0)
    assert scene.refused["urgent"].reason is Reason.NO_CAPACITY
    assert not orders(scene)


def test_a_policy_may_forbid_it() -> None:
    policy = Policy()
    scene = stage(policy=replace(policy, cold_start=replace(policy.cold_start, enabled=False)))
    scene.arrive("urgent", 0)
    assert scene.refused["urgent"].reason is Reason.NO_CAPACITY


def test_a_policy_may_bound_the_cards_of_a_pool() -> None:
    policy = Policy()
    pressure = policy.backpressure
    capped = replace(
        policy, backpressure=replace(pressure, scale=replace(pressure.scale, max_cards=1))
    )
    scene = stage(policy=capped)
    scene.arrive("urgent", 0)
    assert scene.refused["urgent"].reason is Reason.NO_CAPACITY


def test_a_dedicated_card_comes_before_an_elastic_one_and_one_on_its_way_before_both() -> None:
    scene = stage(IDLE, replace(IDLE, name="kept", pool=URGENT))
    scene.arrive("urgent", 0)
    assert orders(scene) == [("urgent", "m", 1)]
    scene = stage(replace(IDLE, startable=False, on=True), replace(IDLE, name="kept", pool=URGENT))
    scene.arrive("urgent", 0)
    assert not orders(scene)
    assert scene.state.cold["m"].pool == "shared"


def test_other_lanes_start_nothing_and_are_told_when_to_come_again() -> None:
    scene = stage()
    scene.arrive("early", 1)
    assert scene.refused["early"].reason is Reason.NO_CAPACITY
    assert not orders(scene)
    scene.arrive("urgent", 0)
    scene.now += 50 * SECOND
    for name, lane in (("usual", 1), ("low", 2)):
        scene.arrive(name, lane)
        assert scene.refused[name].reason is Reason.NO_CAPACITY
        # Nobody knows yet how long a start takes: it has this long at most.
        assert scene.refused[name].retry_after == WAIT - 50 * SECOND
    come(scene)
    scene.arrive("now", 1)
    assert scene.where("now") == "spare"


def test_a_start_that_was_measured_says_when_the_next_will_be_there() -> None:
    scene = stage()
    scene.arrive("urgent", 0)
    scene.wait(8 * SECOND)
    come(scene)
    scene.finish("urgent")
    scene.wait(COOLDOWN + 4 * SECOND)
    assert orders(scene)[-1] == ("shared", "m", 0)
    scene.remove("spare")
    told(scene, IDLE)
    scene.arrive("again", 0)
    scene.arrive("usual", 1)
    assert scene.refused["usual"].retry_after == pytest.approx(8 * SECOND, rel=0.05)


def test_it_waits_as_long_as_the_policy_says_and_no_longer() -> None:
    """Longer than its queue's own time limit, for that is about slots."""
    scene = stage()
    scene.arrive("first", 0)
    scene.wait(30 * SECOND)
    scene.arrive("later", 0)
    scene.wait(WAIT - 31 * SECOND)
    assert scene.waiting() == ["first", "later"]
    scene.wait(1200 * MS)
    # The start is given up: nobody waits for it any more.
    for name in ("first", "later"):
        assert scene.refused[name].reason is Reason.NO_CAPACITY
        assert scene.refused[name].retry_after == REST
    assert notices(scene)[-1] == (Kind.COLD_FAILED, "m")
    assert orders(scene) == [("shared", "m", 1), ("shared", "m", 0)]


def test_after_a_failed_start_the_model_rests() -> None:
    scene = stage()
    scene.arrive("first", 0)
    scene.wait(WAIT + SECOND)
    scene.arrive("soon", 0)
    refusal = scene.refused["soon"]
    assert refusal.reason is Reason.NO_CAPACITY
    assert 0 < refusal.retry_after <= REST
    scene.wait(refusal.retry_after)
    scene.arrive("again", 0)
    assert scene.waiting() == ["again"]
    assert orders(scene)[-1] == ("shared", "m", 1)


def test_a_card_that_is_not_warm_yet_is_awaited() -> None:
    scene = stage()
    scene.arrive("urgent", 0)
    come(scene, warm=False)
    scene.arrive("usual", 1)
    assert scene.on("spare") == ["usual"]
    scene.wait(SECOND)
    assert (Kind.WARM, "m") not in notices(scene)
    come(scene)
    assert scene.where("urgent") == "spare"


def test_it_is_given_back_when_p0_has_not_needed_it_for_the_cooldown() -> None:
    scene = stage()
    scene.arrive("urgent", 0)
    come(scene)
    scene.finish("urgent")
    for number in range(10):
        scene.wait(COOLDOWN // 2)
        scene.arrive(f"more-{number}", 0)
        scene.finish(f"more-{number}")
    assert orders(scene) == [("shared", "m", 1)]
    scene.arrive("long", 0)
    scene.wait(3 * COOLDOWN)
    assert orders(scene) == [("shared", "m", 1)]
    scene.finish("long")
    scene.arrive("usual", 1)
    scene.wait(COOLDOWN + 4 * SECOND)
    assert notices(scene)[-1] == (Kind.COLD_OVER, "m")
    # From then on it stays as long as the load needs it, whoever's that is.
    scene.wait(COOLDOWN)
    assert orders(scene) == [("shared", "m", 1)]
    scene.finish("usual")
    scene.wait(2 * SETTLE + MEAN)
    assert orders(scene)[1:] == [("shared", "m", 0)]


def test_without_other_work_it_is_given_back_when_the_cooldown_is_over() -> None:
    scene = stage()
    scene.arrive("urgent", 0)
    come(scene)
    scene.wait(3 * SECOND)
    scene.finish("urgent")
    scene.wait(COOLDOWN - 3 * SECOND)
    assert orders(scene) == [("shared", "m", 1)]
    scene.wait(6 * SECOND)
    assert orders(scene)[1:] == [("shared", "m", 0)]
    assert notices(scene)[-1] == (Kind.COLD_OVER, "m")


def test_it_is_given_back_though_p0_comes_when_the_fleet_serves_the_model_again() -> None:
    scene = Scene(card("own"))
    told(scene, IDLE)
    scene.probe("own", ready=False)
    scene.arrive("urgent", 0)
    come(scene)
    scene.finish("urgent")
    scene.probe("own", ready=True)
    for number in range(COOLDOWN // SECOND + 4):
        scene.arrive(f"p0-{number}", 0)
        scene.finish(f"p0-{number}")
        scene.wait(SECOND)
    assert orders(scene) == [("shared", "m", 1), ("shared", "m", 0)]


def test_p0_whose_only_replica_goes_while_it_waits_has_one_started() -> None:
    scene = Scene(card("own"))
    told(scene, IDLE)
    scene.arrive("held", 0)
    scene.arrive("urgent", 0)
    assert not orders(scene)
    scene.probe("own", ready=False)
    scene.wait(200 * MS)
    assert orders(scene) == [("shared", "m", 1)]
    come(scene)
    assert scene.where("urgent") == "spare"


def test_a_card_that_goes_again_is_asked_for_again() -> None:
    scene = stage()
    scene.arrive("urgent", 0)
    come(scene)
    scene.wait(SECOND)
    scene.finish("urgent")
    scene.remove("spare")
    told(scene, replace(IDLE, startable=False))
    scene.arrive("unlucky", 0)
    assert scene.refused["unlucky"].reason is Reason.NO_CAPACITY
    told(scene, IDLE)
    scene.arrive("again", 0)
    assert scene.waiting() == ["again"]
    # It was never given up: what was ordered stands.
    assert orders(scene) == [("shared", "m", 1)]
    assert scene.state.plans["shared"].cards == {"spare": "m"}


def test_who_waits_for_a_start_is_no_pressure_on_others() -> None:
    scene = stage()
    scene.arrive("urgent", 0)
    scene.wait(10 * SECOND)
    scene.arrive("low", 2, model="other")
    assert scene.where("low") == "own"
    assert Kind.PRESSED not in [kind for kind, _ in notices(scene)]


def test_who_waits_for_a_start_keeps_nobody_from_stopping_low_work() -> None:
    scene = stage()
    for number in range(2):
        scene.arrive(
            f"low-{number}", 2, model="other", prompt=100, output=3000, resume=Resume.CONTINUE
        )
    scene.arrive("cold", 0, level=0)
    scene.wait(SECOND)
    scene.arrive("urgent", 0, level=1, model="other")
    # A victim that has not stopped after a second would not be waited for any more.
    scene.wait(500 * MS)
    assert len(scene.stopped()) == 1


def test_callers_who_leave_leave_nothing_behind() -> None:
    scene = stage()
    scene.arrive("urgent", 0)
    scene.cancel("urgent")
    come(scene)
    scene.wait(COOLDOWN + 4 * SECOND)
    assert orders(scene) == [("shared", "m", 1), ("shared", "m", 0)]
    assert not scene.state.cold
    assert not scene.state.watching


def test_a_pool_that_grows_meanwhile_gives_back_what_it_grew_by_and_no_more() -> None:
    """A card that is kept for a model counts, and goes when that is over."""
    cards = {"spare": ("m",), "o1": ("other",), "o2": ("other",)}
    yard = Yard(card("own", SLOTS, "other"), cards=cards)
    yard.arrive("cold", 0)
    assert yard.used == ["spare"]
    yard.wait(LOAD + SECOND)
    for number in range(200):
        yard.arrive(f"p0-{number}", 0, model="other")
    yard.wait(3 * SECOND)
    assert yard.used == ["spare", "o1", "o2"]
    assert yard.orders[-1].models == ("m",)
    while yard.running or yard.waiting():
        yard.finish(*yard.running)
    yard.wait(COOLDOWN - SECOND)
    assert "spare" in yard.used
    yard.wait(2 * SETTLE + MEAN)
    assert not yard.used
    assert yard.ordered[-1][1] == 1


def test_a_start_comes_before_the_load_where_not_both_may_have_a_card() -> None:
    policy = Policy()
    pressure = policy.backpressure
    capped = replace(
        policy, backpressure=replace(pressure, scale=replace(pressure.scale, max_cards=3))
    )
    cards = {"o1": ("other",), "o2": ("other",), "spare": ("m",)}
    yard = Yard(card("own", SLOTS, "other"), cards=cards, policy=capped)
    yard.load(40, 60, model="other")
    assert yard.used == ["o1", "o2"]
    yard.arrive("cold", 0)
    assert len(yard.used) == 2
    assert "spare" in yard.used


def test_who_waits_for_a_start_waits_on_in_a_state_that_is_built_anew() -> None:
    scene = stage()
    scene.arrive("urgent", 0)
    ticket = scene.state.requests["urgent"].ticket
    scene.wait(60 * SECOND)
    before = scene.state
    state = State(
        now=scene.now,
        cold=before.cold,
        plans=before.plans,
        cards=before.cards,
        plan_at=scene.now + SECOND,
        watching=True,
    )
    anew = Scene(card("own", 2, "other"), state=state)
    told(anew, replace(IDLE, startable=False, on=True))
    anew.step(events.Adopted(ticket, 0, None, 0))
    anew.wait(30 * SECOND)
    assert anew.waiting() == ["urgent"]
    come(anew)
    assert anew.where("urgent") == "spare"
    anew.finish("urgent")
    anew.wait(COOLDOWN + 4 * SECOND)
    (order,) = [item for item in anew.log if isinstance(item, Scale)]
    assert order.cards == ()


def test_who_waited_for_a_start_presses_only_by_what_it_waits_for_a_slot() -> None:
    """Three came, and the card has two slots."""
    scene = stage()
    for name in ("a", "b", "c"):
        scene.arrive(name, 0)
    told(scene, replace(IDLE, startable=False, on=True))
    scene.wait(60 * SECOND)
    come(scene)
    assert scene.waiting() == ["c"]
    patience = Policy().backpressure.p0_wait_ms * MS
    scene.wait(patience - 200 * MS)
    assert Kind.PRESSED not in {kind for kind, _ in notices(scene)}
    scene.wait(400 * MS)
    assert (Kind.PRESSED, "m") in notices(scene)
