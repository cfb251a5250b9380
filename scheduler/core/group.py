"""Replicas of one kind in one pool: who of them has the least in hand.

What a replica has in hand is told by one number, its *load* (ns): the prefills outstanding there
and, for each request that runs, what one more makes all others wait. In a large group a heap
knows the least loaded of those that may take work, and of equal ones the one whose load has changed
longest ago. An entry is pushed when a replica's load changes; the older ones of that replica are
dropped when they come up.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

from .outstanding import closed
from .replica import Replica

# Of so many replicas all are looked at; of more, so many of the least loaded.
FEW = 8

Entry = tuple[float, int, int]


class Group:
    """``members`` in the order of their names. ``per_request`` (ns) is what a running request adds
    to a replica's load. It is ``gated`` where all work is prefilled and a replica with enough to
    prefill takes none. ``turnover`` slots come free per ns by expectation; ``stoppable`` has the
    replicas where something runs that may be stopped. Since anything left the group last, ``short``
    KV tokens were nowhere to be had."""

    __slots__ = (
        "_heap",
        "_latest",
        "_place",
        "_pushed",
        "gated",
        "members",
        "name",
        "per_request",
        "short",
        "slots",
        "stoppable",
        "turnover",
    )

    def __init__(
        self, name: str, members: Sequence[Replica], per_request: float, *, gated: bool
    ) -> None:
        self.name = name
        self.members = tuple(members)
        self.per_request = per_request
        self.gated = gated
        self.slots = sum(replica.facts.slots for replica in members)
        self.turnover = sum(replica.turnover for replica in members)
        self.stoppable = {r.facts.name: r for r in members if r.stoppable}
        self.short: int | None = None
        self._heap: list[Entry] = []
        # Of each member its place, and which of the entries pushed counts.
        self._place = {replica.facts.name: place for place, replica in enumerate(members)}
        self._latest = [0] * len(self.members)
        self._pushed = 0
        for replica in members:
            replica.group = self
        if len(self.members) > FEW:
            self._fill()

    def __iter__(self) -> Iterator[Replica]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def member(self, name: str) -> Replica | None:
        """The member of that name, if there is one."""
        place = self._place.get(name)
        return self.members[place] if place is not None else None

    def load(self, replica: Replica) -> float:
        """What the replica has in hand (ns)."""
        return sum(replica.prefill_ns) + replica.running * self.per_request

    def touch(self, replica: Replica, *, left: bool = False) -> None:
        """The replica's load has changed; ``left``: because something has gone."""
        if left:
            self.short = None
        if len(self.members) > FEW:
            place = self._place[replica.facts.name]
            self._pushed = self._latest[place] = self._pushed + 1
            if self._takes_work(replica):
                heappush(self._heap, (self.load(replica), self._pushed, place))
                if len(self._heap) > 4 * len(self.members):
                    self._fill()

    def least_loaded(self) -> Iterator[Replica]:
        """Members, the least loaded first as far as anybody asks, and of a large group only those
        with room; of a small one all, in any order. The group must not change meanwhile."""
        if len(self.members) <= FEW:
            yield from self.members
            return
        heap, latest, taken = self._heap, self._latest, []
        try:
            while heap:
                entry = heappop(heap)
                if latest[entry[2]] == entry[1]:
                    taken.append(entry)
                    yield self.members[entry[2]]
        finally:
            for entry in taken:
                heappush(heap, entry)

    def _takes_work(self, replica: Replica) -> bool:
        # What may slip in there is offered it when something ends: most prompts may not.
        return replica.running < replica.facts.slots and not (self.gated and closed(replica, 0))

    def _fill(self) -> None:
        self._heap = [
            (self.load(replica), self._latest[place], place)
            for place, replica in enumerate(self.members)
            if self._takes_work(replica)
        ]
        heapify(self._heap)
