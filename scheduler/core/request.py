"""A request from arrival to its one end."""

from dataclasses import dataclass
from enum import Enum

from .replica import Replica
from .ticket import Ticket


class Phase(Enum):
    """Where a request is."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class Request:
    """``sequence`` breaks ties between equal arrivals; ``tried`` are replica generations
    that failed it; ``replica`` is the generation it runs on, even if that has been replaced."""

    ticket: Ticket
    sequence: int
    phase: Phase = Phase.QUEUED
    attempt: int = 0
    failures: int = 0
    replica: Replica | None = None
    dispatched: int = 0
    tried: frozenset[tuple[str, int]] = frozenset()

    def avoids(self, replica: Replica) -> bool:
        """Whether this generation of the replica has failed the request before."""
        return (replica.facts.name, replica.generation) in self.tried
