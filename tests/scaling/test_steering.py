"""Orders for so many cards, and what they come to when cards come, break or are not there."""

from scheduler.core.decisions import Scale, Warm
from scheduler.ports import Scaler
from scheduler.scaling import CardState
from scheduler.scaling.steering import Steering
from scheduler.testing import MemoryScaler

POOL = "gpu"


class World:
    """A pool with one replica of its own and three cards."""

    def __init__(self) -> None:
        self.scaler = MemoryScaler()
        self.serving = {"own"}
        self.running: dict[str, int] = {}
        for number in range(3):
            self.scaler.add(f"c{number}", POOL, models=("m",) if number else ("n",))
        port: Scaler = self.scaler
        self.steering = Steering(
            port, lambda pool: self.serving, lambda name: self.running.get(name, 0)
        )
        port.attach(self.steering.again, lambda name: 0)

    def order(self, desired: int) -> None:
        self.steering.order(Scale(POOL, len(self.serving), desired))

    def warm(self, cards: int, model: str = "m") -> None:
        self.steering.warm(Warm(POOL, model, cards))

    def come(self, name: str) -> None:
        """A card listens, and is found ready."""
        self.scaler.to(name, CardState.UP)
        self.serving.add(name)

    @property
    def states(self) -> list[str]:
        return [card.state.value for card in self.scaler.cards()]


def test_what_is_missing_is_started_once() -> None:
    world = World()
    world.order(3)
    assert world.states == ["starting", "starting", "idle"]
    world.scaler.to("c0", CardState.UP)
    world.steering.again()
    assert world.states == ["up", "starting", "idle"]
    world.serving.add("c0")
    world.come("c1")
    assert world.states == ["up", "up", "idle"]


def test_no_more_than_there_are() -> None:
    world = World()
    world.order(9)
    assert world.states == ["starting"] * 3


def test_what_breaks_is_replaced() -> None:
    world = World()
    world.order(2)
    world.scaler.to("c0", CardState.BROKEN)
    assert world.states == ["broken", "starting", "idle"]


def test_what_is_spare_is_given_back_the_emptiest_first() -> None:
    world = World()
    world.order(4)
    for name, running in (("c0", 2), ("c1", 0), ("c2", 1)):
        world.come(name)
        world.running[name] = running
    world.order(2)
    assert world.states == ["up", "draining", "draining"]
    # And nothing is started for an order that is over.
    world.scaler.to("c1", CardState.IDLE)
    assert world.states == ["up", "idle", "draining"]


def test_what_comes_when_it_is_not_needed_any_more_is_given_back() -> None:
    world = World()
    world.order(2)
    world.order(1)
    assert world.states == ["starting", "idle", "idle"]
    world.come("c0")
    assert world.states == ["draining", "idle", "idle"]


def test_what_was_not_started_here_stays() -> None:
    world = World()
    world.serving |= {"own-2", "own-3"}
    world.order(1)
    assert world.states == ["idle"] * 3


def test_a_card_with_the_model_is_started_once_and_given_back() -> None:
    world = World()
    world.warm(1)
    world.warm(1)
    assert world.states == ["idle", "starting", "idle"]
    world.come("c1")
    assert world.states == ["idle", "up", "idle"]
    world.warm(0)
    assert world.states == ["idle", "draining", "idle"]


def test_one_that_breaks_is_replaced_by_another_with_the_model() -> None:
    world = World()
    world.warm(1)
    world.scaler.to("c1", CardState.BROKEN)
    assert world.states == ["idle", "broken", "starting"]


def test_one_given_back_while_it_starts_goes_when_it_is_there() -> None:
    world = World()
    world.warm(1)
    world.warm(0)
    assert world.states == ["idle", "starting", "idle"]
    world.come("c1")
    assert world.states == ["idle", "draining", "idle"]


def test_one_wanted_again_while_it_starts_stays() -> None:
    world = World()
    world.warm(1)
    world.warm(0)
    world.warm(1)
    world.come("c1")
    assert world.states == ["idle", "up", "idle"]


def test_a_pool_that_can_spare_cards_keeps_the_one_that_a_model_needs() -> None:
    world = World()
    world.order(2)
    world.come("c0")
    world.warm(1)
    world.come("c1")
    world.order(1)
    assert world.states == ["draining", "up", "idle"]
    world.serving.discard("c0")
    world.scaler.to("c0", CardState.IDLE)
    world.warm(0)
    assert world.states == ["idle", "draining", "idle"]


def test_a_card_that_a_model_needs_no_more_counts_where_more_are_wanted() -> None:
    world = World()
    world.warm(1)
    world.come("c1")
    world.order(3)
    assert world.states == ["starting", "up", "idle"]
    world.warm(0)
    assert world.states == ["starting", "up", "idle"]
    world.come("c0")
    world.order(1)
    assert world.states == ["draining", "draining", "idle"]
