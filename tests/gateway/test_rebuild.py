"""After a step that raised: the scheduler knows what it knew, and everybody has what they had."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

import scheduler.actor
import scheduler.core.membership
import scheduler.core.rebuilding
import scheduler.core.step
from metering.core.facts import AccessSnapshot, BusinessFacts
from scheduler.calls import Placed
from scheduler.core import events
from scheduler.core.decisions import Scale, Throttle
from scheduler.core.events import Fault
from scheduler.core.fleet import CardFacts, PoolFacts, ReplicaFacts
from scheduler.core.ticket import Ticket

from .tripping import Tripping, low, trip
from .world import World

SECOND = 1_000_000_000
MINUTE = 60


async def test_an_adopted_attempt_teaches_what_it_took(tripping: Tripping) -> None:
    """Sixteen attempts of thirty seconds each, the state being rebuilt two seconds before."""
    world = World()
    world.replica("a", 16)
    calls = [world.open() for _ in range(16)]
    world.clock.advance(28)
    trip(world, tripping)
    world.clock.advance(2)
    for call in calls:
        world.close(call)
    mean = world.state.estimates.models["m"].service
    assert mean is not None
    assert mean.samples == 16
    assert mean.value == pytest.approx(30 * SECOND, rel=0.001)


async def test_what_was_learned_is_known_still(tripping: Tripping) -> None:
    """How long work takes, whose breaker is open, whose replica's, and how businesses fared."""
    world = World()
    world.replica("a", 4)
    world.replica("b", 4)
    for _ in range(40):
        call = world.open()
        world.clock.advance(3)
        world.close(call)
    for _ in range(40):
        for call in [world.open(1, "good") for _ in range(2)]:
            call.whole = True
            world.close(call)
        call = world.open(1, "bad")
        world.clock.advance(0.1)
        if call in world.calls and call.replica is not None:
            call.broken = True
            world.close(call)
        world.refused()
    state = world.state
    assert ("bad", "m") in state.breakers
    estimates, breakers = deepcopy(state.estimates), deepcopy(state.breakers)
    trip(world, tripping)
    assert world.state.estimates == estimates
    assert world.state.breakers == breakers
    world.open(1, "bad")
    assert list(world.refused().values()) == ["tenant_suspended"]


async def test_an_open_breaker_of_a_replica_stays_open(tripping: Tripping) -> None:
    world = World()
    world.replica("a", 9)
    world.replica("b", 9)
    broken = 0
    while not world.state.replicas["a"].circuits:
        call = world.open(1, "xy"[broken % 2])
        if call.replica == "a":
            call.broken = True
            broken += 1
        world.close(call)
        assert broken < 50
    until = world.state.replicas["a"].busy_until
    trip(world, tripping)
    assert world.state.replicas["a"].busy_until == until
    assert {world.open().replica for _ in range(9)} == {"b"}


async def test_who_was_promoted_is_no_victim_afterwards(tripping: Tripping) -> None:
    world = World()
    world.replica("a", 1)
    first = world.open()
    overdue = low(world)
    world.clock.advance(95)
    world.scheduler.post(events.Tick())
    world.close(first)
    assert overdue.replica == "a"
    trip(world, tripping)
    world.clock.advance(1)
    urgent = world.open(0)
    assert overdue.stopping is None
    world.close(overdue)
    assert urgent.replica == "a"


async def test_a_victim_that_is_stopping_is_one_and_not_two(tripping: Tripping) -> None:
    """The urgent request that it makes room for has no other stopped, and gets the slot."""
    world = World()
    world.replica("a", 2)
    victims = [low(world), low(world)]
    world.clock.advance(5)
    urgent = world.open(0)
    (stopping,) = [call for call in victims if call.stopping is not None]
    trip(world, tripping)
    world.clock.advance(0.1)
    world.scheduler.post(events.Tick())
    assert [call for call in victims if call.stopping is not None] == [stopping]
    world.scheduler.yielded(stopping, 7)
    assert urgent.replica == "a"
    assert world.state.requests[stopping.ticket.id].preempted == 1
    assert world.state.requests[stopping.ticket.id].produced == 7
    # Paused twice is enough, whatever happened in between.
    trip(world, tripping)
    assert world.state.requests[stopping.ticket.id].preempted == 1
    assert world.state.requests[stopping.ticket.id].produced == 7


async def test_where_it_failed_it_does_not_go_again(tripping: Tripping) -> None:
    world = World()
    world.replica("a", 1)
    call = world.open()
    world.replica("b", 1)
    blocker = world.open()
    assert (call.replica, blocker.replica) == ("a", "b")
    world.scheduler.failed(call, Fault.ERROR)
    assert world.waiting() == [call]
    trip(world, tripping)
    assert world.waiting() == [call]
    assert world.state.requests[call.ticket.id].failures == 1
    world.close(blocker)
    assert world.running() == [call]
    assert call.attempt == 2


async def test_who_was_moved_down_stays_there(tripping: Tripping) -> None:
    world = World()
    queues = world.policy.queues
    p1 = replace(queues.P1, queue_timeout_ms=1000, on_timeout="move_down")
    world.scheduler.set_policy(replace(world.policy, queues=replace(queues, P1=p1)))
    world.replica("a", 1)
    world.open()
    moved = world.open()
    world.clock.advance(1.5)
    world.scheduler.post(events.Tick())
    assert world.state.requests[moved.ticket.id].lane == 2
    trip(world, tripping)
    assert world.state.requests[moved.ticket.id].lane == 2
    assert world.state.lane_queued == [0, 0, 1]


@pytest.mark.parametrize("gone", ["restarted", "left"])
async def test_what_ran_on_a_replica_that_is_gone_has_another_attempt(
    gone: str, tripping: Tripping
) -> None:
    world = World()
    world.replica("a", 1)
    call = world.open()
    if gone == "restarted":
        world.replica("a", 1, generation=2)
    else:
        world.scheduler._fleet.clear()
        world.scheduler.post(events.ReplicaRemoved("a"))
    trip(world, tripping)
    assert world.state.requests[call.ticket.id].running
    world.replica("b", 1)
    world.scheduler.failed(call, Fault.ERROR)
    assert isinstance(await call.placed(), Placed)
    assert call.attempt == 2


ELASTIC = PoolFacts("elastic", False, frozenset({0, 1, 2}))


async def test_what_was_asked_of_drivers_holds_and_is_asked_again(tripping: Tripping) -> None:
    """Cards asked for by pressure are given back when it is over; P2 is slowed as before."""
    world = World()
    scales: list[Scale] = []
    throttles: list[Throttle] = []
    world.scheduler.on_scale = scales.append
    world.scheduler.on_throttle = throttles.append
    facts = ReplicaFacts("a", "http://a", "vllm", "elastic", 1, models={"m": "m"})
    world.scheduler.set_replica(events.ReplicaChanged(facts, ELASTIC, True, 1))
    spare = CardFacts("spare", ELASTIC, frozenset({"rare"}), startable=True)
    more = CardFacts("more", ELASTIC, frozenset({"m"}), startable=True)
    world.scheduler.set_cards((spare, more))
    for _ in range(30):
        world.open(0)
    world.clock.advance(2.5)
    world.close(world.running()[0])
    assert scales[-1].desired > 1
    assert throttles[-1].model == "m"
    assert throttles[-1].share < 1.0
    cold = world.scheduler.open(Ticket("cold", "x", "rare", 0, 0, world.clock.now()))
    world.calls.append(cold)
    assert scales[-1].cards == (("more", "m"), ("spare", "rare"))
    before = scales[-1].desired, scales[-1].cards, throttles[-1]
    told = len(scales), len(throttles)
    trip(world, tripping)
    assert (scales[-1].desired, scales[-1].cards, throttles[-1]) == before
    assert (len(scales), len(throttles)) == (told[0] + 1, told[1] + 1)
    assert world.state.requests["cold"].cold
    for call in world.calls[:]:
        world.close(call)
    for _ in range(400):
        world.clock.advance(2)
        world.scheduler.post(events.Tick())
    assert scales[-1].desired == 1
    assert throttles[-1].share == 1.0


async def test_a_state_that_is_wrong_itself_is_left_behind(
    tripping: Tripping, caplog: pytest.LogCaptureFixture
) -> None:
    """What was carried makes the next step fail as well: then the scheduler starts clean, is
    told so, and goes on. Nobody hangs."""
    world = World()
    forgotten: list[bool] = []
    world.scheduler.on_forgotten = lambda: forgotten.append(True)
    world.replica("a", 1)
    for _ in range(3):
        call = world.open()
        world.clock.advance(2)
        world.close(call)
    running, waiting = world.open(), world.open()
    world.state.estimates.models = None  # type: ignore[assignment]
    world.open()
    assert list(world.refused().values()) == ["internal_error"]
    assert forgotten == [True]
    assert "starts clean" in caplog.text
    world.check()
    assert world.state.estimates.models == {}
    world.close(running)
    assert waiting.replica == "a"
    world.close(waiting)
    assert world.at_rest


async def test_it_is_carried_over_once_a_minute_at_most(tripping: Tripping) -> None:
    """Whoever's events keep failing costs the others what was learned at every second time, at
    most; a minute apart nothing at all."""
    world = World()
    world.replica("a", 1)
    world.close(world.open())

    def carried() -> bool:
        trip(world, tripping)
        found = bool(world.state.estimates.models)
        if not found:
            world.close(world.open())
        return found

    found = []
    for pause in (0, 59, 1, 61, 61, 5, 5):
        world.clock.advance(pause)
        found.append(carried())
    assert found == [True, False, True, True, True, False, True]


async def test_it_costs_one_layout_and_few_fillings(
    tripping: Tripping, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever waits, and on however many replicas."""
    world = World()
    calls: dict[str, int] = {}

    def counted(module: Any, name: str) -> None:
        plain: Callable[..., object] = getattr(module, name)

        def count(*args: object, **named: object) -> object:
            calls[name] = calls.get(name, 0) + 1
            return plain(*args, **named)

        monkeypatch.setattr(module, name, count)

    for number in range(30):
        world.replica(f"card-{number}", 1)
    for _ in range(200):
        world.open()
    for module in (scheduler.core.rebuilding, scheduler.core.membership, scheduler.core.step):
        for name in ("renew_layout", "fill_all"):
            if hasattr(module, name):
                counted(module, name)
    trip(world, tripping)
    assert calls["renew_layout"] == 1
    assert calls["fill_all"] <= 2
    assert sum(world.state.lane_queued) == 170


async def test_a_policy_whose_step_fails_holds_all_the_same(tripping: Tripping) -> None:
    world = World()
    other = replace(world.policy, mode="fifo")
    tripping.next = True
    world.scheduler.set_policy(other)
    assert world.state.policy is other


async def test_limits_hold_in_a_clean_state(tripping: Tripping) -> None:
    world = World()
    world.replica("a", 9)
    world.scheduler.set_access(AccessSnapshot(1, {"x": BusinessFacts("x", running=2)}))
    calls = [world.open() for _ in range(4)]
    trip(world, tripping)
    trip(world, tripping)
    assert world.state.estimates.models == {}
    assert [call.replica for call in calls] == ["a", "a", None, None]
    world.check()
