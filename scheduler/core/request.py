"""A request from arrival to its one end."""

from dataclasses import dataclass
from enum import Enum

from .conduct import Conduct
from .replica import Replica
from .tenant import Tenant
from .ticket import Ticket


class Phase(Enum):
    """Where a request is. A yielding one has been told to stop and still holds its slot."""

    QUEUED = "queued"
    RUNNING = "running"
    YIELDING = "yielding"
    ENDED = "ended"


# Later than any time (ns).
NO_END = 1 << 63
# Looked up at every turn, and an enum's attributes are slow.
QUEUED, RUNNING, YIELDING, ENDED = Phase


@dataclass(slots=True, eq=False)
class Request:
    """``tenant`` is its business's row, ``conduct`` that of its model there, ``answer`` the output
    tokens expected of it when it arrived (see ``estimates``), which is ``generative`` if it is
    computed token by token. ``key`` orders its queue and is fixed
    when it is queued; ``sequence`` breaks ties. ``ledger`` is the counter it is charged to (see
    ``shares``), ``turn`` counts its times in a queue, ``place`` its lines, ``context`` are the
    tokens that it is to hold in a KV cache, of ``variance`` (tokens squared). ``tried`` are replica
    generations that failed it; ``replica`` is the generation it runs on, even if that has been
    replaced, ``last`` the name of the one it ran on before. ``least`` is the wait (ns) that it was
    let in with, 0 where none was foreseen. ``since`` is when its wait would have begun (ns) had it
    waited at once for as long as it has in all. After ``latest`` (ns) it is too late to start it:
    it would miss its budget, and is known to have ``missed`` it once it has come up. It waits for a
    slot of its ``holder`` alone (a name; "": of any replica), as it may once, until ``delayed``
    (ns; 0: it never has). ``seen`` are the output tokens its caller has seen of this attempt,
    ``produced`` those of earlier attempts that it goes on from. ``estimate`` is the slot time (ns)
    expected of the attempt, ``charged`` what its business was charged for it. ``cold``: it was let
    in to wait for a replica to be started. Of the attempt: ``prefill`` is what its prefill took of
    the card's time (ns; expected until its ``first`` token, ns), with ``held`` tokens of the prompt
    expected in the replica's prefix cache, and ``named`` ones of ``kv`` in blocks that others may
    share; ``mark`` is a reading of the replica's clocks, ``ahead`` what was left of the prefills
    outstanding when it began (ns)."""

    ticket: Ticket
    sequence: int
    tenant: Tenant
    conduct: Conduct
    answer: int
    generative: bool
    key: int = 0
    lane: int = 0
    ledger: int = 0
    turn: int = 0
    place: int = 0
    context: int = 0
    variance: float = 0.0
    phase: Phase = QUEUED
    attempt: int = 0
    failures: int = 0
    replica: Replica | None = None
    last: str = ""
    since: int = 0
    least: int = 0
    dispatched: int = 0
    estimate: int = 0
    charged: float = 0.0
    kv: int = 0
    seen: int = 0
    produced: int = 0
    preempted: int = 0
    stopped: int = 0
    promoted: bool = False
    cold: bool = False
    latest: int = NO_END
    missed: bool = False
    holder: str = ""
    delayed: int = 0
    first: int = 0
    prefill: float = 0.0
    held: int = 0
    named: int = 0
    mark: float = 0.0
    ahead: float = 0.0
    tried: frozenset[tuple[str, int]] = frozenset()

    def avoids(self, replica: Replica) -> bool:
        """Whether this generation of the replica has failed the request before."""
        return (replica.facts.name, replica.generation) in self.tried

    @property
    def running(self) -> bool:
        """Whether it holds a slot."""
        return self.phase is RUNNING or self.phase is YIELDING

    def remaining(self, now: int) -> int:
        """Slot time (ns) that it is still expected to hold."""
        held = now - self.dispatched
        # What has outrun its estimate is expected to need a tenth of its time again.
        return max(self.estimate - held, held // 10)
