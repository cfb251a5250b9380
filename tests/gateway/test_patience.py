"""What a refusal for load names as the time to wait: if nobody else comes, it is enough."""

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from metering.core.facts import AccessSnapshot, BusinessFacts
from scheduler.calls import Call, Refusal
from scheduler.core.events import Tick

from .world import World

SECOND = 1_000_000_000
SERVICE = 4 * SECOND
STEP = SERVICE // 20
WORLDS = 100


@dataclass
class Closed:
    """A world whose requests take about as long as they always did, in which time passes."""

    draw: random.Random
    world: World = field(default_factory=World)
    ends: dict[str, int] = field(default_factory=dict)
    refusals: list[tuple[Call, Refusal]] = field(default_factory=list)

    def pass_on(self, until: int) -> None:
        """Let time pass, step by step: requests end, and queues are looked at."""
        world = self.world
        while world.clock.time < until:
            world.clock.time = min(until, world.clock.time + STEP)
            self.look()
            for call in world.running():
                if self.ends[call.ticket.id] <= world.clock.time:
                    world.close(call)
                    self.look()
            world.scheduler.post(Tick())
            self.look()

    def look(self) -> None:
        """Note who was refused, and when those who have started will end."""
        for call in self.world.calls[:]:
            if call._future.done():
                outcome = call._future.result()
                if isinstance(outcome, Refusal):
                    self.refusals.append((call, outcome))
                    self.world.forget(call, outcome.reason)
        for call in self.world.running():
            took = int(SERVICE * self.draw.uniform(0.8, 1.2))
            self.ends.setdefault(call.ticket.id, self.world.clock.time + took)

    def come(self, lane: int, business: str, budget: int | None = None) -> Call:
        """One more comes."""
        call = self.world.open(lane, business, budget)
        self.look()
        return call


def furnished(draw: random.Random) -> Closed:
    """Some replicas that have been at work for a while, and narrow queues."""
    closed = Closed(draw)
    world = closed.world
    for name in "ab"[: draw.randrange(1, 3)]:
        world.replica(name, draw.randrange(1, 4))
    for _ in range(30):
        closed.come(1, "x")
        closed.pass_on(world.clock.time + SERVICE // 2)
    while world.calls:
        closed.pass_on(world.clock.time + SERVICE)
    queues = world.policy.queues
    narrow = {
        lane: replace(
            getattr(queues, lane),
            max_queue=draw.randrange(1, 8),
            queue_timeout_ms=round(draw.uniform(1.2, 12) * SERVICE / 1e6),
        )
        for lane in ("P0", "P1", "P2")
    }
    pressure = world.policy.backpressure
    strict = replace(pressure, action=draw.choice([pressure.action, ("throttle_P2", "refuse_P2")]))
    world.scheduler.set_policy(
        replace(world.policy, queues=replace(queues, **narrow), backpressure=strict)
    )
    business = BusinessFacts(
        "y", running=draw.choice([None, 1, 2, 3]), queued=draw.choice([None, 0, 1, 4])
    )
    world.scheduler.set_access(AccessSnapshot(2, {"x": BusinessFacts("x"), "y": business}))
    closed.refusals.clear()
    return closed


async def test_b07_who_waits_as_told_gets_in_and_has_its_turn() -> None:
    seen = Counter[str]()
    for seed in range(WORLDS):
        draw = random.Random(seed)
        closed = furnished(draw)
        world, wanted = closed.world, draw.randrange(1, 4)
        while len(closed.refusals) < wanted:
            budget = round(draw.uniform(0.5, 4) * SERVICE) if draw.random() < 0.2 else None
            closed.come(draw.randrange(3), draw.choice("xy"), budget)
            if draw.random() < 0.3:
                closed.pass_on(world.clock.time + draw.randrange(SERVICE))
        # From here on nobody else comes.
        call, refusal = closed.refusals[-1]
        assert refusal.retry_after is not None
        seen[refusal.reason] += 1
        closed.pass_on(world.clock.time + round(refusal.retry_after * 1e9))
        before = len(closed.refusals)
        again = closed.come(call.ticket.lane, call.ticket.business, call.ticket.budget)
        assert again in world.calls, (seed, refusal, closed.refusals[before:])
        while again in world.calls:
            closed.pass_on(world.clock.time + SERVICE)
        assert world.ended[again.ticket.id] == "closed", (seed, refusal)
    assert set(seen) == {
        *("queue_full", "queue_timeout", "concurrency_exceeded"),
        *("backpressure", "latency_budget_unreachable"),
    }


@pytest.mark.parametrize(
    "facts", [BusinessFacts("x", running=0), BusinessFacts("x", suspended=True)]
)
async def test_where_waiting_does_not_help_no_time_is_named(facts: BusinessFacts) -> None:
    world = World()
    world.replica("a", 1)
    world.scheduler.set_access(AccessSnapshot(2, {"x": facts}))
    outcome = world.open()._future.result()
    assert isinstance(outcome, Refusal)
    assert outcome.retry_after is None


async def test_refusals_in_a_crowd_are_reckoned_once() -> None:
    """What one is told is told to the others of its kind within the same moment."""
    world = World()
    world.replica("a", 1)
    world.scheduler.set_access(AccessSnapshot(2, {"x": BusinessFacts("x", running=1, queued=0)}))
    world.open()
    told = set()
    for _ in range(50):
        outcome = world.open()._future.result()
        assert isinstance(outcome, Refusal)
        told.add(outcome.retry_after)
    assert len(told) == 1
    assert len(world.scheduler._patience._told) == 1
