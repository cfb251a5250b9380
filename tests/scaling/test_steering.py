"""Orders for cards, and what they come to when cards come, break or are not there."""

import pytest

from scheduler.core.decisions import Scale
from scheduler.ports import Scaler
from scheduler.scaling import CardState
from scheduler.scaling.steering import Steering
from scheduler.testing import MemoryScaler

POOL = "gpu"


class World:
    """Three cards of one pool."""

    def __init__(self) -> None:
        self.scaler = MemoryScaler()
        for number in range(3):
            self.scaler.add(f"c{number}", POOL, models=("m",))
        port: Scaler = self.scaler
        self.steering = Steering(port)
        port.attach(self.steering.again, lambda name: 0)

    def order(self, *cards: str, pool: str = POOL) -> None:
        """These and no others are to be on."""
        named = tuple((name, "m") for name in cards)
        self.steering.order(Scale(pool, 1, 1 + len(cards), named))

    @property
    def states(self) -> list[str]:
        return [card.state.value for card in self.scaler.cards()]


def test_what_is_ordered_is_started_and_nothing_else() -> None:
    world = World()
    world.order("c0", "c2")
    assert world.states == ["starting", "idle", "starting"]
    world.scaler.to("c0", CardState.UP)
    world.order("c0", "c2")
    assert world.states == ["up", "idle", "starting"]


def test_what_is_ordered_no_more_is_drained() -> None:
    world = World()
    for name in ("c0", "c1", "c2"):
        world.scaler.to(name, CardState.UP)
    world.order("c1")
    assert world.states == ["draining", "up", "draining"]


def test_one_that_drains_is_taken_back() -> None:
    world = World()
    world.scaler.to("c0", CardState.UP)
    world.order()
    assert world.states[0] == "draining"
    world.order("c0")
    assert world.states[0] == "up"


def test_one_that_starts_and_is_not_wanted_any_more_goes_when_it_is_there() -> None:
    world = World()
    world.order("c0")
    world.order()
    assert world.states[0] == "starting"
    world.scaler.to("c0", CardState.UP)
    assert world.states[0] == "draining"


def test_one_wanted_again_while_it_starts_stays() -> None:
    world = World()
    world.order("c0")
    world.order()
    world.order("c0")
    world.scaler.to("c0", CardState.UP)
    assert world.states[0] == "up"


@pytest.mark.parametrize("state", [CardState.BROKEN, CardState.STOPPING])
def test_one_that_can_not_be_started_is_as_soon_as_it_can_be(state: CardState) -> None:
    world = World()
    world.order("c0")
    world.scaler.to("c0", state)
    assert world.states == [state.value, "idle", "idle"]
    world.scaler.to("c0", CardState.IDLE)
    assert world.states == ["starting", "idle", "idle"]


def test_an_order_is_about_its_pool_alone() -> None:
    world = World()
    world.scaler.add("other", "elsewhere", CardState.UP)
    world.order("c0")
    assert world.states == ["starting", "idle", "idle", "up"]
    world.order(pool="elsewhere")
    assert world.states == ["starting", "idle", "idle", "draining"]


def test_without_an_order_cards_stay_as_they_are() -> None:
    world = World()
    world.scaler.to("c0", CardState.UP)
    world.steering.again()
    assert world.states == ["up", "idle", "idle"]
