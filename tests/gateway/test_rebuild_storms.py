"""A state that is rebuilt in the midst of everything is the one that was."""

import random
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

import pytest

from scheduler.calls import Call
from scheduler.core import events
from scheduler.core.events import Fault
from scheduler.core.request import Phase, Request
from scheduler.core.state import State

from .tripping import Tripping, low, trip
from .world import World

MINUTE = 60


def requests_of(state: State) -> dict[str, dict[str, object]]:
    """All that makes a request what it is, but for what is estimated anew."""
    return {name: _told(request) for name, request in state.requests.items()}


ALWAYS = (
    *("phase", "lane", "key", "sequence", "least", "attempt", "failures", "tried"),
    *("produced", "preempted", "stopped", "promoted", "cold"),
)


def _told(request: Request) -> dict[str, object]:
    told = {name: getattr(request, name) for name in ALWAYS}
    replica = request.replica
    if replica is None:
        return {**told, "since": request.since, "last": request.last}
    at = (replica.facts.name, replica.generation)
    return {**told, "at": at, "dispatched": request.dispatched, "seen": request.seen}


def counts_of(state: State) -> dict[str, object]:
    """What is counted, and what was learned, as it is now."""
    found: dict[str, object] = {
        "lanes": (state.lane_queued[:], state.lane_running[:]),
        "slots": (state.free, state.stoppable, state.yielding, state.broken),
        "replicas": {
            name: (r.running, r.kv_used, sorted(r.holds), r.busy_until, set(r.circuits))
            for name, r in state.replicas.items()
        },
        "pools": {
            name: (r.use.slots, r.use.running, r.use.promoted) for name, r in state.replicas.items()
        },
        "businesses": {
            name: (t.running, t.queued, t.used, t.active, t.running_limit, t.weight)
            for name, t in state.tenants.items()
        },
        "turns": ({k: a.virtual for k, a in state.active.items()}, state.passes, state.shares),
        "learned": (state.estimates, state.service, state.demand),
        "breakers": (state.breakers, state.retries, state.pressure, state.cold),
        "seed": state.seed,
    }
    return deepcopy(found)


@dataclass
class Storm:
    """Everything that may happen to a scheduler but a fault of its own."""

    world: World
    rng: random.Random
    generation: dict[str, int] = field(default_factory=lambda: {"a": 1, "b": 1, "c": 1})

    def __post_init__(self) -> None:
        for name in self.generation:
            self.world.replica(name, 2)

    def step(self) -> None:
        """One thing, at random."""
        world, rng = self.world, self.rng
        running, waiting = world.running(), world.waiting()
        roll = rng.random()
        if roll < 0.35 and len(waiting) < 20:
            world.open(rng.randrange(2), rng.choice("xyz"))
        elif roll < 0.5 and len(waiting) < 20:
            low(world, rng.choice("xyz"))
        elif roll < 0.65 and running:
            world.close(rng.choice(running))
        elif roll < 0.7 and waiting:
            world.close(rng.choice(waiting))
        elif roll < 0.76 and running:
            world.scheduler.failed(rng.choice(running), rng.choice(list(Fault)), rng.randrange(2))
        elif roll < 0.82:
            self._yield(call for call in running if call.stopping is not None)
        elif roll < 0.88 and running:
            world.scheduler.progress(rng.choice(running), rng.randrange(1, 50))
        elif roll < 0.95:
            world.clock.advance(rng.choice([0.001, 0.2, 3.0, 40.0]))
            world.scheduler.post(events.Tick())
        else:
            name = rng.choice("abc")
            self.generation[name] += rng.random() < 0.3
            world.replica(name, 2, ready=rng.random() < 0.9, generation=self.generation[name])
        world.refused()

    def _yield(self, stopping: Iterable[Call]) -> None:
        for call in stopping:
            self.world.scheduler.yielded(call, self.rng.randrange(1, 40))
            return


@pytest.mark.parametrize("seed", range(6))
async def test_a_rebuilt_state_is_the_one_that_was(seed: int, tripping: Tripping) -> None:
    """Again and again in the midst of everything: requests, counts and what was learned."""
    world = World()
    storm = Storm(world, random.Random(seed))
    seen: set[Phase] = set()
    for number in range(2000):
        storm.step()
        if number % 50 == 49:
            # What is looked at now and then has just been looked at, and done.
            for _ in range(3):
                world.clock.advance(0.2)
                world.scheduler.post(events.Tick())
            world.clock.advance(2 * MINUTE)
            world.scheduler.post(events.Tick())
            world.refused()
            before = requests_of(world.state), counts_of(world.state)
            seen |= {request.phase for request in world.state.requests.values()}
            trip(world, tripping)
            assert requests_of(world.state) == before[0]
            assert counts_of(world.state) == before[1]
    assert seen >= {Phase.QUEUED, Phase.RUNNING}
    for call in world.calls[:]:
        world.close(call)
    assert world.at_rest
