"""Whoever is told of a decision may break: the others' decisions are carried out all the same."""

import asyncio
import logging
from collections.abc import Callable

import pytest

from metering.core.facts import AccessSnapshot, BusinessFacts
from scheduler.calls import Call, Placed, Refusal
from scheduler.core.events import Fault
from scheduler.core.fleet import CardFacts
from scheduler.core.ticket import Resume, Ticket

from .world import POOL, World


class Broken:
    """Whoever is told raises, and counts."""

    def __init__(self) -> None:
        self.told = 0

    def __call__(self, *_: object) -> None:
        """Told."""
        self.told += 1
        raise RuntimeError("the driver is broken")


@pytest.fixture
def broken() -> Broken:
    return Broken()


def causes(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged with a broken driver as its cause."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.ERROR and record.exc_info and record.exc_info[1] is not None
    ]


async def test_a_driver_of_cards_or_rates(broken: Broken, caplog: pytest.LogCaptureFixture) -> None:
    """P0 has waited too long when a slot comes free: cards are asked for, P2 is slowed, and the
    slot is given out, all in one step."""
    world = World()
    world.scheduler.on_scale = world.scheduler.on_throttle = broken
    world.replica("a", 1)
    first, *waiting = [world.open(0) for _ in range(30)]
    world.clock.advance(2.5)
    world.close(first)
    assert broken.told == 2
    assert waiting[0].replica == "a"
    world.check()
    assert [cause.partition("(")[0] for cause in causes(caplog)] == ["Throttle", "Scale"]
    for call in waiting:
        world.close(call)
    assert world.at_rest


async def test_who_probes_a_replica(broken: Broken) -> None:
    """The request that found it gone has its next attempt."""
    world = World()
    world.scheduler.on_trip = broken
    world.replica("a", 1)
    call = world.open()
    world.replica("b", 1)
    world.scheduler.failed(call, Fault.UNREACHABLE)
    assert broken.told == 1
    assert (call.replica, call.attempt) == ("b", 2)
    world.check()


async def test_who_starts_a_card_for_a_model(broken: Broken) -> None:
    world = World()
    world.scheduler.on_scale = broken
    world.replica("a", 1)
    world.scheduler.set_cards((CardFacts("spare", POOL, frozenset({"rare"}), startable=True),))
    ticket = Ticket("cold", "x", "rare", 0, 0, world.clock.now())
    call = world.scheduler.open(ticket)
    assert broken.told == 1
    assert not call._future.done()
    assert world.open().replica == "a"


async def test_a_victim_that_cannot_be_told_runs_on(broken: Broken) -> None:
    """Who wanted its slot gets the next one."""
    world = World()
    world.replica("a", 1)
    now = world.clock.now()
    victim = world.scheduler.open(
        Ticket("low", "y", "m", 2, 8, now, 100, 10_000, resume=Resume.CONTINUE)
    )
    victim.on_preempt = broken
    world.calls.append(victim)
    world.clock.advance(1)
    urgent = world.open(0)
    assert broken.told == 1
    assert victim.replica == "a"
    assert not urgent._future.done()
    world.close(victim)
    assert urgent.replica == "a"
    world.close(urgent)
    assert world.at_rest


async def test_a_caller_that_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its slot is free again, and those behind it have theirs."""
    world = World()
    world.replica("a", 1)
    calls = [world.open() for _ in range(4)]
    tell = Call.resolve

    def resolve(call: Call, outcome: Placed | Refusal) -> None:
        if call is calls[1] and isinstance(outcome, Placed):
            raise RuntimeError("nobody listens")
        tell(call, outcome)

    monkeypatch.setattr(Call, "resolve", resolve)
    world.replica("a", 3)
    assert [call.replica for call in calls] == ["a", None, "a", "a"]
    assert list(world.refused().values()) == ["internal_error"]
    world.check()


async def test_what_measures_gpu_time(broken: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests run, end and leave their slots without it."""
    world = World()
    world.replica("a", 1)
    first, second = world.open(), world.open()
    monkeypatch.setattr(world.scheduler.gpu_time, "rise", broken)
    world.close(first)
    assert second.replica == "a"
    monkeypatch.setattr(world.scheduler.gpu_time, "sit", broken)
    third = world.open()
    assert second.close() == 0.0
    world.forget(second, "closed")
    assert third.replica == "a"
    assert broken.told == 3
    world.close(third)
    assert world.at_rest


async def test_what_reckons_how_long_to_wait(
    broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is refused is told so, with the core's own estimate."""
    world = World()
    world.replica("a", 1)
    monkeypatch.setattr(world.scheduler._patience, "wait", broken)
    world.scheduler.set_access(AccessSnapshot(1, {"x": BusinessFacts("x", running=1, queued=0)}))
    world.open()
    refused = await asyncio.wait_for(world.open().placed(), 30)
    assert isinstance(refused, Refusal)
    assert refused.reason == "concurrency_exceeded"
    assert refused.retry_after is not None
    assert refused.retry_after > 0


@pytest.mark.parametrize("part", ["row", "line", "metric"])
async def test_what_tells_of_a_pause(
    part: str, broken: Broken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot that a paused request leaves is given on."""
    world = World()
    world.replica("a", 1)
    ticket = Ticket("low", "y", "m", 2, 8, world.clock.now(), 100, 10_000, resume=Resume.CONTINUE)
    victim = world.scheduler.open(ticket)
    world.calls.append(victim)
    world.clock.advance(1)
    urgent = world.open(0)
    told: Callable[..., None] = broken
    if part == "row":
        monkeypatch.setattr(world.scheduler._recorder, "_sink", replace_append(broken))
    elif part == "line":
        monkeypatch.setattr("scheduler.calls.preempt_line", lambda *_, **__: told())
    else:
        monkeypatch.setattr(world.scheduler.stats.metrics, "preemption", told)
    world.scheduler.yielded(victim, 5)
    assert urgent.replica == "a"
    world.close(urgent)
    assert victim.replica == "a"
    assert broken.told
    world.close(victim)
    assert world.at_rest
    assert not world.scheduler._recorder._pauses
    assert not world.scheduler._recorder._gaining


def replace_append(broken: Broken) -> object:
    """A sink of decisions that takes none."""

    class Sink:
        append = broken

    return Sink()
