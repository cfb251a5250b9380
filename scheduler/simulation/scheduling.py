"""What a scheduler and the world it schedules in owe each other."""

from enum import IntEnum
from typing import Protocol

from scheduler.core.decisions import Scale
from scheduler.core.fleet import CardFacts
from scheduler.scaling.cards import CardState

from .workload import Workload


class Outcome(IntEnum):
    """How a request ended."""

    UNFINISHED = 0
    DONE = 1
    QUOTA = 2  # refused by its business's request rate
    TIMEOUT = 3  # refused after its lane's longest time in the queue
    REFUSED = 4  # refused for another reason
    FAILED = 5  # its replica was lost
    QUEUE_FULL = 6
    CONCURRENCY = 7  # its business runs as much as it may
    NO_CAPACITY = 8  # no replica serves its model
    SUSPENDED = 9  # its business is
    LATENCY_BUDGET = 10  # it could not have kept to it
    BACKPRESSURE = 11  # P0 waits too long


class Cluster(Protocol):
    """What a scheduler may know and do. Requests and replicas are indexes, times ns."""

    workload: Workload
    now: int

    def holds(self, replica: int) -> list[int]:
        """Models that the replica holds."""

    def slots(self, replica: int) -> int:
        """How many requests it takes at once."""

    def running(self, replica: int) -> set[int]:
        """Requests that it has now."""

    def up(self, replica: int) -> bool:
        """Whether it answers."""

    def state(self, replica: int) -> CardState:
        """Where scaling has it on its way."""

    def generation(self, replica: int) -> int:
        """Another number each time that it has come up."""

    def idle_cards(self) -> tuple[CardFacts, ...]:
        """Cards that scaling may put to use, or has."""

    def steer(self, order: Scale) -> None:
        """Have these cards of a pool on. The scheduler is told as cards come and go."""

    def room(self, replica: int, request: int) -> bool:
        """Whether it answers and has a free slot and, of a generative model, KV room."""

    def silent(self, request: int) -> bool:
        """Whether a running request's caller has seen nothing of its answer yet."""

    def start(self, request: int, replica: int) -> None:
        """Run a request there, one slot and all it needs being its own from now on."""

    def stop(self, request: int) -> None:
        """Take a running request off its card; ``stopped`` is called when it has gone."""

    def refuse(self, request: int, outcome: Outcome, at: int | None = None) -> None:
        """End a request that runs nowhere, now or as if it had been at an earlier time."""

    def cached(self, request: int) -> int | None:
        """Of a request that has just ended, the tokens of its prompt that its last attempt found
        in the replica's prefix cache; None where there is none."""

    def foretold(self, request: int, service: int, known: int, latency: int) -> None:
        """What was foretold (ns) of a request that has just ended: its service, the same if its
        answer's length had been known, and its latency."""

    def wake_at(self, at: int) -> None:
        """Call ``woken`` then, instead of at any time named before."""


class Scheduler(Protocol):
    """Decides who runs when and where. Called at ``cluster.now``."""

    def arrived(self, request: int) -> None:
        """A request wants to run."""

    def finished(self, request: int, replica: int) -> None:
        """A request has ended well and its slot is free."""

    def progressed(self, request: int, tokens: int) -> None:
        """The caller has seen so many output tokens: at the first, then once a second."""

    def stopped(self, request: int, replica: int, produced: int) -> None:
        """A request that was to stop has left its slot, with what it has produced (tokens)."""

    def lost(self, request: int, replica: int) -> None:
        """A request's replica is gone, its slot with it."""

    def changed(self, replica: int) -> None:
        """A replica is seen to have gone, or to be there again: a probe later than it was. Or
        scaling has put it to use, drains it, or has taken it out."""

    def measured(self, readings: list[tuple[float, float]]) -> None:
        """Each replica's share of busy slot time since the last call, and of memory in use
        now; every 3 s."""

    def woken(self) -> None:
        """The time asked for has come."""

    def closed(self) -> None:
        """The run is over; what waits is to be refused or left as it is."""
