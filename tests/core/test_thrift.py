"""Cards that come and go with the load, within what a pool has at rest."""

from dataclasses import replace

from scheduler.core import events
from scheduler.core.decisions import Notice, Scale
from scheduler.core.fleet import CardFacts
from scheduler.core.policy import Policy

from .scene import SECOND, SHARED, Scene, card

SLOTS = 4
CALM_S = 40


def thrifty(**changes: object) -> Policy:
    """Looks for calm after P0 has waited for a few seconds less than by default."""
    policy = Policy()
    pressure = policy.backpressure
    scale = replace(pressure.scale, cooldown_s=CALM_S, settle_s=10.0, **changes)  # type: ignore[arg-type]
    return replace(policy, backpressure=replace(pressure, scale=scale))


class Pool(Scene):
    """Cards ``c1`` to ``c4`` and what was ordered; ``own`` more replicas are no cards."""

    def __init__(self, policy: Policy | None = None, *, own: int = 0) -> None:
        names = [f"c{number}" for number in range(1, 5)]
        fixed = [card(f"f{number}", SLOTS) for number in range(1, own + 1)]
        super().__init__(*fixed, *(card(name, SLOTS) for name in names), policy=policy or thrifty())
        held = frozenset({"m"})
        self.step(
            events.CardsChanged(tuple(CardFacts(name, SHARED, held, on=True) for name in names))
        )

    def load(self, slots: int, seconds: int, lane: int = 1) -> None:
        """So many slots are held all the time, by requests of a second each."""
        for _ in range(seconds):
            for _ in range(slots):
                self.arrive(lane=lane)
            self.wait(SECOND)
            self.finish(*list(self.running))

    def drain_cards(self, *names: str) -> None:
        """These take no more work."""
        for name in names:
            facts, pool = card(name, SLOTS)
            self.add(replace(facts, draining=True), pool)

    def pressed(self) -> bool:
        """Whether P0 waits too long."""
        return self.state.pressure.active

    @property
    def ordered(self) -> list[tuple[int, int]]:
        """(ready, desired) of each order."""
        return [(d.ready, d.desired) for d in self.log if isinstance(d, Scale)]


def test_cards_that_are_not_needed_are_given_back() -> None:
    pool = Pool()
    pool.load(5, 60)
    # Five slots with a fifth of headroom are a card and a half.
    assert pool.ordered == [(4, 2)]
    notice = next(d for d in pool.log if isinstance(d, Notice))
    assert (notice.kind.value, notice.name, notice.value) == ("scaled", "shared", 2)


def test_cards_are_taken_again_as_soon_as_the_load_grows() -> None:
    pool = Pool()
    pool.load(5, 60)
    pool.drain_cards("c1", "c2")
    pool.load(11, 30)
    assert pool.ordered[1:] == [(2, 3)]
    # Eleven slots and the fifth are more than three cards, too.
    pool.add(*card("c1", SLOTS))
    pool.load(11, 30)
    assert pool.ordered[2:] == [(3, 4)]


def test_no_more_than_at_rest() -> None:
    pool = Pool()
    pool.load(40, 120)
    assert pool.ordered == []


def test_replicas_of_the_fleet_are_not_given_back() -> None:
    pool = Pool(own=3)
    pool.load(1, 60)
    assert pool.ordered == [(7, 3)]


def test_a_pool_without_cards_stays_as_it_is() -> None:
    scene = Scene(card("a", SLOTS), card("b", SLOTS), policy=thrifty())
    for _ in range(60):
        scene.wait(SECOND)
        scene.tick()
    assert not [d for d in scene.log if isinstance(d, Scale)]


def test_what_a_pool_is_left_with_and_that_it_may_be_off() -> None:
    kept = Pool(thrifty(least_cards=3))
    kept.load(1, 60)
    assert kept.ordered == [(4, 3)]
    still = Pool(thrifty(by_load=False))
    still.load(1, 60)
    assert still.ordered == []


def test_nothing_is_given_back_while_the_need_grows() -> None:
    pool = Pool()
    for slots in range(1, 13):
        pool.load(slots, 10)
    assert pool.ordered == []


def test_a_card_that_is_lost_is_replaced_if_it_is_needed() -> None:
    pool = Pool()
    pool.load(14, 60)
    pool.probe("c1", ready=False)
    pool.load(12, 10)
    assert pool.ordered == [(3, 4)]


def test_a_card_that_is_lost_and_not_needed_is_not() -> None:
    pool = Pool()
    pool.load(9, 5)
    pool.probe("c1", ready=False)
    pool.load(5, 20)
    assert all(desired <= ready for ready, desired in pool.ordered)


def test_after_p0_has_waited_it_must_be_calm_first() -> None:
    pool = Pool()
    names = [f"u{number}" for number in range(32)]
    for name in names:
        pool.arrive(name, lane=0)
    pool.wait(5 * SECOND)
    assert pool.pressed()
    while pool.running:
        pool.finish(*list(pool.running))
    pool.wait(SECOND)
    assert not pool.pressed()
    relieved = len(pool.ordered)
    pool.load(1, CALM_S - 10)
    assert len(pool.ordered) == relieved
    pool.load(1, 60)
    assert pool.ordered[-1][1] < 4


def test_cards_that_p0_asked_for_are_not_the_pool_s_at_rest() -> None:
    pool = Pool(own=1)
    for name in ("c1", "c2", "c3", "c4"):
        pool.remove(name)
    pool.state.thrift.clear()
    for number in range(32):
        pool.arrive(f"u{number}", lane=0)
    pool.wait(5 * SECOND)
    assert pool.pressed()
    asked = pool.ordered[-1]
    assert asked[0] == 1 < asked[1]
    pool.add(*card("c1", SLOTS))
    pool.add(*card("c2", SLOTS))
    pool.wait(5 * SECOND)
    while pool.running:
        pool.finish(*list(pool.running))
    pool.wait(SECOND)
    pool.load(1, CALM_S + 10)
    assert pool.ordered[-1] == (3, 1)
    pool.drain_cards("c1", "c2")
    before = len(pool.ordered)
    # However much P1 and P2 bring.
    pool.load(20, 60, lane=1)
    pool.load(20, 60, lane=2)
    assert pool.ordered[before:] == []


def test_waiting_p2_is_to_be_done_before_it_is_overdue() -> None:
    pool = Pool()
    pool.load(2, 60)
    assert pool.ordered == [(4, 1)]
    pool.drain_cards("c1", "c2", "c3")
    before = len(pool.ordered)
    for _ in range(2000):
        pool.arrive(lane=2)
    pool.wait(5 * SECOND)
    pool.tick()
    assert len(pool.ordered) > before
    assert pool.ordered[-1][1] == 4
