"""A core whose next step raises, so that the scheduler's state is rebuilt."""

from dataclasses import dataclass, replace
from typing import Any

from scheduler.calls import Call
from scheduler.core import events
from scheduler.core.decisions import Decision
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import Resume, Ticket

from .world import World


@dataclass
class Tripping:
    """The core's step, which raises before it does anything when it is told to."""

    next: bool = False

    def __call__(self, state: State, event: events.Event, now: int) -> list[Decision]:
        """Step, or raise."""
        if self.next:
            self.next = False
            raise RuntimeError("the step broke")
        return step(state, event, now)


def trip(world: World, tripping: Tripping) -> None:
    """A step raises on an event that is about nobody."""
    before = world.state
    tripping.next = True
    world.scheduler.post(events.Tick())
    assert world.state is not before


def low(world: World, business: str = "low", **fields: Any) -> Call:
    """A request of the lowest lane that may be paused."""
    world.made += 1
    world.clock.time += 1000
    ticket = Ticket(f"{world.made:06}", business, "m", 2, 8, world.clock.now(), 100, 5000)
    call = world.scheduler.open(replace(ticket, resume=Resume.CONTINUE, **fields))
    world.calls.append(call)
    return call
