"""Cards under random loads: they come late, fail to start, break while they serve. What is ordered
keeps to its limits at every step, and what is needed is there in the end if it can be."""

import os
import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from scheduler.core.decisions import Scale
from scheduler.core.policy import Policy
from scheduler.scaling import CardState

from .scene import SECOND, card
from .yard import SLOTS, Yard

WORLDS = 30 if os.environ.get("FAIRLANE_LONG_TESTS") == "1" else 8
MODELS = ("a", "b")
KINDS = (("a",), ("b",), ("a", "b"))


@dataclass
class Life:
    """A yard whose requests take their time, and whose cards may fail."""

    draw: random.Random
    yard: Yard
    most: int | None
    fixed: set[str]
    ends: dict[str, int] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    fails: float = 0.02
    seen: int = 0
    number: int = 0

    def second(self, rates: dict[tuple[str, int], float]) -> None:
        """One passes: requests come by model and lane, at so many a second, and go."""
        yard = self.yard
        for (model, lane), rate in rates.items():
            count = int(rate) + (self.draw.random() < rate % 1)
            for _ in range(count):
                self.number += 1
                yard.arrive(f"{model}{self.number}", lane, model=model)
                self.check()
        yard.wait(SECOND)
        for name in list(yard.running):
            self.ends.setdefault(name, yard.now + self.draw.randrange(1, 4) * SECOND)
            if self.ends[name] <= yard.now:
                yard.finish(name)
                self.check()
        yard.settle()
        self.fail()
        self.check()

    def fail(self) -> None:
        """Cards break, some while they start, and are mended later."""
        yard = self.yard
        for name in yard.used:
            starting = name in yard.names(CardState.STARTING)
            if self.draw.random() < self.fails * (3 if starting else 1):
                self.broken[name] = yard.now + self.draw.randrange(5, 60) * SECOND
                yard.breaks(name)
                self.check()
        for name, at in list(self.broken.items()):
            if at <= yard.now:
                del self.broken[name]
                yard.mended(name)
                self.check()

    def check(self) -> None:
        """What was ordered since the last time, and what is on."""
        yard = self.yard
        cards = {card.facts.name for card in yard.scaler.cards()}
        for order in yard.log[self.seen :]:
            if isinstance(order, Scale):
                named = [name for name, _ in order.cards]
                assert set(named) <= cards
                assert not set(named) & self.fixed
                assert len(named) == len(set(named))
                assert order.desired == len(named) + len(self.fixed)
                assert self.most is None or order.desired <= max(self.most, len(self.fixed))
        self.seen = len(yard.log)
        assert self.fixed == {name for name in self.fixed if yard.state.replicas[name].serving()}
        if self.most is not None:
            assert len(yard.used) + len(self.fixed) <= max(self.most, len(self.fixed)) + len(
                # Those told to go that were still starting.
                yard.state.plans["shared"].leaving
            )


def furnished(seed: int, *, settle_s: float = 10.0) -> Life:
    """A fleet of its own, and cards beside it, of random sizes."""
    draw = random.Random(seed)
    fixed = [card(f"own-{n}", SLOTS, *draw.choice(KINDS)) for n in range(draw.randrange(2))]
    # Whoever asks for a model must have somewhere to wait.
    fixed.append(card("own", SLOTS, *MODELS))
    cards = {f"c{n}": draw.choice(KINDS) for n in range(draw.randrange(1, 9))}
    most = draw.choice([None, None, 2, 4, 6])
    policy = Policy()
    pressure = policy.backpressure
    scale = replace(pressure.scale, cooldown_s=30.0, settle_s=settle_s, max_cards=most)
    policy = replace(
        policy,
        backpressure=replace(pressure, scale=scale),
        # What waits is to show in the cards alone.
        admission=replace(policy.admission, latency_budget=False),
    )
    load = draw.randrange(1, 40) * SECOND
    yard = Yard(*fixed, cards=cards, policy=policy, load=load)
    return Life(draw, yard, most, {facts.name for facts, _ in fixed})


def random_rates(draw: random.Random) -> dict[tuple[str, int], float]:
    flows = [(model, lane) for model in MODELS for lane in range(3)]
    return {flow: draw.choice([0.0, 0.2, 1.0, 3.0]) for flow in flows if draw.random() < 0.7}


@pytest.mark.parametrize("seed", range(WORLDS))
def test_orders_keep_to_their_limits_whatever_happens(seed: int) -> None:
    life = furnished(seed)
    for _ in range(life.draw.randrange(3, 6)):
        rates = random_rates(life.draw)
        life.fails = life.draw.choice([0.0, 0.02, 0.1])
        for _ in range(life.draw.randrange(20, 90)):
            life.second(rates)
    # And then nothing comes and nothing fails any more.
    life.fails = 0.0
    for _ in range(1000):
        if not (life.yard.running or life.yard.waiting()):
            break
        life.second({})
    for _ in range(150):
        life.second({})
    assert not life.yard.used
    assert life.yard.state.plans["shared"].desired == len(life.fixed)


@pytest.mark.parametrize("seed", range(WORLDS))
def test_under_a_steady_load_there_are_enough_and_they_stay(seed: int) -> None:
    """After whatever was before. Of P1, of which nothing is preempted or foreseen."""
    life = furnished(seed)
    rates = random_rates(life.draw)
    for _ in range(60):
        life.second(rates)
    life.fails = 0.0
    steady = {("a", 1): float(life.draw.randrange(1, 7)), ("b", 1): float(life.draw.randrange(3))}
    for _ in range(400):
        life.second(steady)
    orders = len(life.yard.ordered)
    for _ in range(200):
        life.second(steady)
    yard, plan = life.yard, life.yard.state.plans["shared"]
    # One card more or less for a load at the edge, but none that comes and goes.
    assert len(yard.ordered) - orders <= 2
    assert sorted(plan.cards) == sorted(yard.used) == sorted(yard.names(CardState.UP))
    # Two seconds each on average: whoever can be served is, unless there is no more to be had.
    waiting = Counter(yard.state.requests[name].ticket.model for name in yard.waiting())
    for model, count in waiting.items():
        others = [c for c in yard.scaler.cards() if c.facts.name not in yard.used]
        able = [c for c in others if model in c.facts.models]
        full = life.most is not None and len(yard.used) + len(life.fixed) >= life.most
        assert count < 40 or not able or full, (model, count)
