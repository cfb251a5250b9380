"""The one task that owns the state: hand-offs under random storms, and a step that raises."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

import scheduler.actor
import scheduler.rescue
from metering.core.facts import AccessSnapshot, BusinessFacts
from scheduler.calls import Call, Placed, Refusal
from scheduler.core import demand, events, membership
from scheduler.core.decisions import Decision
from scheduler.core.events import Fault
from scheduler.core.fleet import FleetSnapshot
from scheduler.core.policy import Policy
from scheduler.core.state import State
from scheduler.core.step import step

from .harness import KEY, LOW_KEY, URGENT_KEY, furnished, gate
from .harness import replica as facts_of
from .stub import DONE, Held, delta, stub
from .world import POOL, World


async def test_c08_the_freed_slot_is_handed_on_past_a_waiter_that_leaves() -> None:
    """C08: A runs, B and C wait. A ends and B leaves in the same turn, in either order, also
    when B has just been given the slot."""
    for order in ("finish, cancel", "cancel, finish", "cancel twice"):
        world = World()
        world.replica("a", 1)
        first, second, third = (world.open() for _ in range(3))
        steps: list[Callable[[], object]] = [first.close, second.close]
        if order != "finish, cancel":
            steps.reverse()
        if order == "cancel twice":
            steps.append(second.close)
        for move in steps:
            move()
        assert third.replica == "a"
        third.close()
        assert world.at_rest, order


@pytest.mark.parametrize("seed", range(4))
async def test_c08_ten_thousand_random_steps_strand_nobody(seed: int) -> None:
    """C08: arrivals, ends, cancels, failures, timeouts, replicas that come, go and restart,
    and limits that change: no slot is lost, nobody is stranded, each ends once."""
    rng = random.Random(seed)
    world = World()
    fleet = Fleet(world, rng)
    for number in range(10_000):
        roll = rng.random()
        running, waiting = world.running(), world.waiting()
        if roll < 0.42 and len(waiting) < 30:
            world.open(rng.randrange(3), rng.choice("xyz"))
        elif roll < 0.70 and running:
            world.close(rng.choice(running))
        elif roll < 0.78 and waiting:
            world.close(rng.choice(waiting))
        elif roll < 0.84 and running:
            world.scheduler.failed(rng.choice(running), rng.choice(list(Fault)))
        else:
            fleet.change(rng.random())
        world.refused()
        if number % 7 == 0:
            check_unless_shrunk(world)
    for call in world.calls[:]:
        world.close(call)
    assert world.at_rest
    assert len(world.ended) == world.made
    assert set(world.ended.values()) >= {"closed", "no_capacity"}
    world.replica("a", 2, generation=fleet.generation["a"])
    # It may have said last that it was busy, or have failed so often that it is left alone.
    world.clock.advance(Policy().failover.open_s + 1.0)
    world.scheduler.post(events.Tick())
    assert world.open().replica is not None


@dataclass
class Fleet:
    """What happens to two replicas, to limits and to the clock."""

    world: World
    rng: random.Random
    generation: dict[str, int] = field(default_factory=lambda: {"a": 1, "b": 1})

    def __post_init__(self) -> None:
        self.world.replica("a", 2)
        self.world.replica("b", 1)

    def change(self, roll: float) -> None:
        """One of them, at random."""
        world, rng = self.world, self.rng
        if roll < 0.4:
            world.clock.advance(rng.choice([0.001, 0.5, 9.0]))
            world.scheduler.post(events.Tick())
        elif roll < 0.75:
            name = rng.choice("ab")
            self.generation[name] += rng.random() < 0.2
            slots, ready = rng.choice([1, 2, 3]), rng.random() < 0.8
            world.replica(name, slots, ready=ready, generation=self.generation[name])
        else:
            business = rng.choice("xyz")
            facts = BusinessFacts(business, running=rng.choice([None, 1, 2]))
            world.scheduler.post(events.QuotaChanged(business, facts))


def check_unless_shrunk(world: World) -> None:
    """A replica told to have fewer slots keeps what runs there until it ends."""
    shrunk = any(r.ready and r.running > r.facts.slots for r in world.state.replicas.values())
    if not shrunk:
        world.check()


async def test_timeouts_fall_due_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer that the core asked for fires without another event, and one that fires too
    early, as two clocks may have it, is set again."""
    world = World()
    queues = world.policy.queues
    short = replace(queues, P1=replace(queues.P1, queue_timeout_ms=50))
    world.scheduler.set_policy(replace(world.policy, queues=short))
    world.replica("a", 1)
    world.open()
    late = world.open()
    # Real time passes, the scheduler's own clock does not: the timer fires, and finds it early.
    for _ in range(30):
        await asyncio.sleep(0.005)
    assert not late._future.done()
    world.clock.advance(0.06)
    for _ in range(100):
        if late._future.done():
            break
        await asyncio.sleep(0.005)
    outcome = late._future.result()
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "queue_timeout"


class Faulty:
    """The core's step, which raises once on an event that is asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kind: type | None = None
        self.raised = 0
        monkeypatch.setattr(scheduler.actor, "step", self)

    def __call__(self, state: State, event: events.Event, now: int) -> list[Decision]:
        """Step, or raise after half of it was done."""
        decisions = step(state, event, now)
        if self.kind is not None and isinstance(event, self.kind):
            self.kind = None
            self.raised += 1
            raise RuntimeError("the step broke half-way")
        return decisions


FAULTS: list[tuple[type, Callable[[World, list[Call]], object]]] = [
    (events.Arrived, lambda world, calls: world.open(0)),
    (events.Finished, lambda world, calls: world.close(calls[0])),
    (events.Cancelled, lambda world, calls: world.close(calls[3])),
    (events.Failed, lambda world, calls: world.scheduler.failed(calls[0], Fault.ERROR)),
    (events.Tick, lambda world, calls: world.scheduler.post(events.Tick())),
    (events.ReplicaChanged, lambda world, calls: world.replica("a", 2)),
    (events.PolicyChanged, lambda world, calls: world.scheduler.set_policy(world.policy)),
    (
        events.QuotaChanged,
        lambda world, calls: world.scheduler.post(
            events.QuotaChanged("x", BusinessFacts("x", running=9))
        ),
    ),
]


@pytest.mark.parametrize(("kind", "act"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
async def test_a_step_that_raises_costs_one_request(
    kind: type, act: Callable[[World, list[Call]], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever event it was: what runs runs on in its slots, what waits keeps its order, only
    the request that the event was about fails, with internal_error; at rest all is free."""
    faulty = Faulty(monkeypatch)
    world = World()
    world.replica("a", 2)
    world.scheduler.set_policy(world.policy)
    calls = [world.open() for _ in range(6)]
    low = world.open(2)
    assert [call.replica for call in calls] == ["a", "a", None, None, None, None]
    faulty.kind = kind
    act(world, calls)
    assert faulty.raised == 1
    assert world.state.policy == world.policy
    refused = world.refused()
    if kind in (events.Arrived, events.Failed):
        assert list(refused.values()) == ["internal_error"]
    else:
        assert not refused
    world.check()
    order = []
    while world.running():
        order += [c.ticket.id for c in world.running() if c.ticket.id not in order]
        world.close(world.running()[0])
        world.check()
    left = [call.ticket.id for call in calls if world.ended[call.ticket.id] == "closed"]
    if kind is events.Finished:
        left.remove(calls[0].ticket.id)
    if kind is events.Cancelled:
        left.remove(calls[3].ticket.id)
    assert order[:-1] == left
    assert order[-1] == low.ticket.id
    assert world.at_rest


async def test_a_core_that_always_raises_fails_requests_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not even rebuilding works: every caller is told, nobody hangs; and when the fault is
    gone, so is all trace of it."""
    world = World()
    world.replica("a", 1)
    running, waiting = world.open(), world.open()

    def broken(*_: object) -> list[Decision]:
        raise RuntimeError("always")

    with monkeypatch.context() as patch:
        patch.setattr(scheduler.actor, "step", broken)
        patch.setattr(scheduler.rescue, "step", broken)
        fresh = world.open()
        outcome = await fresh.placed()
        assert isinstance(outcome, Refusal)
        assert outcome.reason == "internal_error"
        outcome = await waiting.placed()
        assert isinstance(outcome, Refusal)
    running.close()
    world.replica("a", 1)
    world.calls.clear()
    again = world.open()
    assert isinstance(await again.placed(), Placed)
    again.close()
    assert not world.scheduler.calls


@pytest.mark.parametrize("looker", ["stats", "decision log"])
async def test_a_fault_of_who_looks_on_costs_nothing(
    looker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts and records decisions may break: slots are given, freed and refused as ever."""
    world = World()
    world.replica("a", 1)
    broken = 0

    def fault(*_: object, **__: object) -> None:
        nonlocal broken
        broken += 1
        raise RuntimeError("cannot be told")

    if looker == "stats":
        monkeypatch.setattr(world.scheduler.stats, "dispatched", fault)
    else:
        for name in ("dispatched", "refused", "closed", "yielded"):
            monkeypatch.setattr(world.scheduler._recorder, name, fault)
    first, second = world.open(), world.open()
    assert first.replica == "a"
    world.close(first)
    assert second.replica == "a"
    world.scheduler.failed(second, Fault.BUSY)
    world.clock.advance(60)
    world.scheduler.post(events.Tick())
    assert second.replica == "a"
    world.scheduler.set_access(AccessSnapshot(1, {"x": BusinessFacts("x", running=0)}))
    world.open()
    assert list(world.refused().values()) == ["concurrency_exceeded"]
    world.close(second)
    assert broken >= 2
    assert world.at_rest


async def test_from_outside_a_step_that_raises_is_one_500(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over HTTP: a running stream goes on to its last byte, those that wait are served in
    order, one call gets a 500 in OpenAI's shape, and all comes to rest."""
    held = Held()
    faulty = Faulty(monkeypatch)
    async with stub(held) as server, gate(furnished(facts_of(server.url, slots=1))) as gateway:
        running = asyncio.create_task(gateway.streamed("run"))
        await gateway.until(lambda: held.order == ["run"])
        waiting = []
        for prompt, key in (("low", LOW_KEY), ("one", KEY), ("two", KEY), ("top", URGENT_KEY)):
            before = gateway.queued
            waiting.append(asyncio.create_task(gateway.chat(prompt, key=key)))
            await gateway.until(lambda now=before: gateway.queued == now + 1)  # type: ignore[misc]
        faulty.kind = events.Arrived
        failed = await gateway.chat("unlucky")
        assert failed.status_code == 500
        assert failed.json()["error"]["code"] == "internal_error"
        assert (gateway.running, gateway.queued) == (1, 4)
        held.finish("run", "low", "one", "two", "top")
        events_of = [delta("<run"), delta(">"), delta(None, finish="stop"), DONE]
        assert await running == b"".join(events_of)
        assert {(await call).status_code for call in waiting} == {200}
        assert held.order == ["run", "top", "one", "two", "low"]
        statuses = [row.status for row in await gateway.rows(6)]
        assert sorted(statuses) == ["internal_error"] + ["ok"] * 5


async def test_replicas_that_change_together_are_laid_out_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fifty that join, and fifty that leave, come to what they come to one by one."""
    changes = [
        events.ReplicaChanged(
            replace(facts_of("http://x", name=f"r{n:02}"), slots=2), POOL, True, 1
        )
        for n in range(50)
    ]
    world, single = World(), World()
    laid = 0
    renew = demand.renew_layout

    def counted(state: State) -> None:
        nonlocal laid
        laid += 1
        renew(state)

    monkeypatch.setattr(membership, "renew_layout", counted)
    world.scheduler.set_replicas(changes)
    assert laid == 1
    for change in changes:
        single.scheduler.set_replica(change)
    assert laid == 51
    assert (world.state.free, next(iter(world.state.replicas.values())).use.slots) == (100, 100)
    assert world.state.free == single.state.free
    assert all(held.counted for held in world.state.replicas.values())
    world.scheduler.set_replicas([])
    world.scheduler.keep_replicas(FleetSnapshot())
    assert laid == 52
    assert (world.state.free, world.state.replicas) == (0, {})
