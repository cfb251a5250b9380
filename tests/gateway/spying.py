"""What the core is told, as it is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from scheduler.core.decisions import Decision
from scheduler.core.events import Arrived, Event, Finished, Progress
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import Ticket

Kind = TypeVar("Kind", bound=Event)


class Told:
    """The events that the core has been given, in order, each with its time (ns)."""

    def __init__(self) -> None:
        self.timed: list[tuple[int, Event]] = []

    @property
    def events(self) -> list[Event]:
        """All of them."""
        return [event for _, event in self.timed]

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Those of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def tickets(self) -> list[Ticket]:
        """Of the requests that have arrived."""
        return [event.ticket for event in self.of(Arrived)]

    @property
    def finished(self) -> Finished:
        """The last end of an attempt."""
        return self.of(Finished)[-1]

    @property
    def progress(self) -> list[Progress]:
        """What attempts have come to."""
        return self.of(Progress)


@contextmanager
def told() -> Iterator[Told]:
    """Listen in on every core that is stepped meanwhile."""
    found = Told()

    def heard(state: State, event: Event, now: int) -> list[Decision]:
        found.timed.append((now, event))
        return step(state, event, now)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scheduler.actor.step", heard)
        yield found
