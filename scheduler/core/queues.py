"""Waiting requests: lane, then level and model, then business, then arrival.

A *line* holds the requests of one model and level. Inside it each business has a heap by
arrival, and the line a heap of the businesses' heads. A business at its own limit is
*parked*: out of the heads, so that it costs nothing and hides nobody, until it may run again.
Removal is lazy: an ended request is dropped when it comes up, or when dead entries prevail.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from .replica import Replica
from .request import Phase, Request

Entry = tuple[int, int, Request]
Rank = tuple[int, int, int]


@dataclass(slots=True, eq=False)
class Line:
    """Requests of one model and level. Each business with a heap is either parked or
    *listed*: its entry in ``heads`` counts, and older entries of it are passed over."""

    heaps: dict[str, list[Entry]] = field(default_factory=dict)
    heads: list[tuple[int, int, str]] = field(default_factory=list)
    listed: dict[str, int] = field(default_factory=dict)
    parked: set[str] = field(default_factory=set)
    live: int = 0
    held: int = 0

    def push(self, request: Request) -> None:
        """Add a waiting request at the place its arrival gives it."""
        business = request.ticket.business
        heap = self.heaps.setdefault(business, [])
        entry = (request.ticket.arrived, request.sequence, request)
        heappush(heap, entry)
        self.live += 1
        self.held += 1
        if heap[0] is entry and business not in self.parked:
            self._list(business, entry)

    def drop(self, request: Request) -> None:
        """The request waits no longer; sweep when dead entries prevail."""
        heap = self.heaps[request.ticket.business]
        self.live -= 1
        if heap[0][2] is request:
            heappop(heap)
            self.held -= 1
        elif self.held > 64 and self.held > 2 * self.live:
            self._sweep()

    def peek(self, may_run: Callable[[str], bool]) -> Entry | None:
        """The first request whose business may run; businesses that may not get parked."""
        heads = self.heads
        while heads:
            _, sequence, business = heads[0]
            if self.listed.get(business) != sequence:
                heappop(heads)
                continue
            entry = self._head(business)
            if entry is None or entry[1] != sequence:
                heappop(heads)
                del self.listed[business]
                if entry is not None:
                    self._list(business, entry)
            elif may_run(business):
                return entry
            else:
                heappop(heads)
                del self.listed[business]
                self.parked.add(business)
        return None

    def unpark(self, business: str) -> None:
        """The business may run again."""
        self.parked.discard(business)
        entry = self._head(business)
        if entry is not None:
            self._list(business, entry)

    def _list(self, business: str, entry: Entry) -> None:
        self.listed[business] = entry[1]
        heappush(self.heads, (entry[0], entry[1], business))

    def _head(self, business: str) -> Entry | None:
        heap = self.heaps[business]
        while heap:
            if heap[0][2].phase is Phase.QUEUED:
                return heap[0]
            heappop(heap)
            self.held -= 1
        del self.heaps[business]
        return None

    def _sweep(self) -> None:
        for business, heap in list(self.heaps.items()):
            heap[:] = [entry for entry in heap if entry[2].phase is Phase.QUEUED]
            heapify(heap)
            if not heap:
                del self.heaps[business]
        self.held = self.live
        self.parked &= self.heaps.keys()
        self.heads.clear()
        self.listed.clear()
        for business, heap in self.heaps.items():
            if business not in self.parked:
                self._list(business, heap[0])


Levels = dict[int, dict[str, Line]]


@dataclass(slots=True)
class Queues:
    """All lines by lane, level and model, and the few requests that must avoid a replica
    that failed them. A request stays in the lane it arrived in, whatever the policy becomes."""

    lanes: tuple[Levels, Levels, Levels] = field(default_factory=lambda: ({}, {}, {}))
    retries: list[Request] = field(default_factory=list)

    def push(self, request: Request) -> None:
        """Queue a request; one that failed somewhere goes among the retries."""
        if request.tried:
            self.retries.append(request)
            return
        ticket = request.ticket
        models = self.lanes[ticket.lane].setdefault(ticket.level, {})
        line = models.get(ticket.model)
        if line is None:
            line = models[ticket.model] = Line()
        line.push(request)

    def drop(self, request: Request) -> None:
        """Take out a request that waits no longer; its phase says so already."""
        if request.tried:
            self.retries.remove(request)
            return
        ticket = request.ticket
        levels = self.lanes[ticket.lane]
        line = levels[ticket.level][ticket.model]
        line.drop(request)
        if not line.live:
            del levels[ticket.level][ticket.model]
            if not levels[ticket.level]:
                del levels[ticket.level]

    def unpark(self, business: str) -> bool:
        """Let the business's requests be seen again; True if any had been hidden."""
        parked = [
            line
            for levels in self.lanes
            for models in levels.values()
            for line in models.values()
            if business in line.parked
        ]
        for line in parked:
            line.unpark(business)
        return bool(parked) or any(r.ticket.business == business for r in self.retries)

    def first(
        self, replica: Replica, lane: int, by_level: bool, may_run: Callable[[str], bool]
    ) -> Request | None:
        """The lane's next request that this replica may take, or None.

        ``by_level`` ranks by level before arrival; otherwise arrival alone counts.
        """
        best: Request | None = None
        best_rank: Rank = (0, 0, 0)
        least, most = replica.facts.levels
        levels = self.lanes[lane]
        for level in sorted(levels):
            if not least <= level <= most:
                continue
            models = levels[level]
            for model in replica.facts.models:
                line = models.get(model)
                entry = line.peek(may_run) if line is not None else None
                if entry is not None:
                    rank = (level if by_level else 0, entry[0], entry[1])
                    if best is None or rank < best_rank:
                        best, best_rank = entry[2], rank
            if by_level and best is not None:
                break
        for request in self.retries:
            ticket = request.ticket
            if ticket.lane != lane or request.avoids(replica) or not may_run(ticket.business):
                continue
            rank = (ticket.level if by_level else 0, ticket.arrived, request.sequence)
            if replica.takes(ticket.model, lane, ticket.level) and (
                best is None or rank < best_rank
            ):
                best, best_rank = request, rank
        return best
