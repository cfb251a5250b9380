"""One line of waiting requests: those of one lane, level and model.

Each business has a heap of its requests by key, and the line a heap of businesses by
service counter. An entry whose counter has risen since is put right when it comes up; one
whose counter has fallen is listed anew. A business at its own limit is *parked*: out of the
heap, so that it costs nothing and hides nobody, until it may run again. Removal is lazy: an
ended request is dropped when it comes up, or when dead entries prevail.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from .request import Request
from .tenant import Tenant

# Rank, arrival's sequence, which of the request's times in a line it is of, and the request.
Entry = tuple[int, int, int, Request]
Head = tuple[float, int, int, str]
Rank = tuple[float, int, int]


@dataclass(slots=True, eq=False)
class Line:
    """Each business with a heap is either parked or *listed*: of its entries in ``heads``
    the one in ``listed`` counts. ``ledger`` says by which counter businesses take turns (see
    ``shares``). A line without is for the starvation guard: the first to have come goes first
    there, whoever's it is. ``tokens`` of context are those that its requests ask for."""

    ledger: int | None
    heaps: dict[str, list[Entry]] = field(default_factory=dict)
    heads: list[Head] = field(default_factory=list)
    listed: dict[str, Head] = field(default_factory=dict)
    parked: set[str] = field(default_factory=set)
    live: int = 0
    held: int = 0
    tokens: int = 0

    def push(self, request: Request, served: float) -> None:
        """Add a waiting request; ``served`` is its business's counter."""
        business = request.ticket.business
        heap = self.heaps.get(business)
        if heap is None:
            heap = self.heaps[business] = []
        rank = request.ticket.arrived if self.ledger is None else request.key
        place = request.turn if self.ledger is None else request.place
        entry = (rank, request.sequence, place, request)
        heappush(heap, entry)
        self.live += 1
        self.held += 1
        self.tokens += request.context
        if heap[0] is entry and business not in self.parked:
            self._list(business, entry, served)

    def drop(self, request: Request) -> None:
        """The request waits no longer; sweep when dead entries prevail."""
        heap = self.heaps[request.ticket.business]
        self.live -= 1
        self.tokens -= request.context
        if heap[0][3] is request:
            heappop(heap)
            self.held -= 1
        elif self.held > 64 and self.held > 2 * self.live:
            self._sweep()

    def peek(self, tenants: Mapping[str, Tenant]) -> tuple[Rank, Request] | None:
        """The request of the least served business that may run, with its rank among lines."""
        heads, listed, ledger = self.heads, self.listed, self.ledger
        while heads:
            head = heads[0]
            served, key, sequence, business = head
            if listed.get(business) is not head:
                heappop(heads)
                continue
            tenant, heap = tenants[business], self.heaps[business]
            now = 0.0 if ledger is None else tenant.served.get(ledger, 0.0)
            if heap and served == now:
                first, arrival, place, request = heap[0]
                # Its entry as it was listed, and it waits: see ``_waits``.
                if (
                    arrival == sequence
                    and first == key
                    and place == (request.turn if ledger is None else request.place)
                ):
                    limit = tenant.running_limit
                    if limit is None or tenant.running < limit:
                        return (served, key, sequence), request
                    heappop(heads)
                    del listed[business]
                    self.parked.add(business)
                    continue
            heappop(heads)
            del listed[business]
            entry = self._head(business)
            if entry is not None:
                self._list(business, entry, now)
        return None

    def unpark(self, business: str, served: float) -> None:
        """The business may run again."""
        self.parked.discard(business)
        entry = self._head(business)
        if entry is not None:
            self._list(business, entry, served)

    def relist(self, business: str, served: float) -> None:
        """The counter of a business that is listed has fallen."""
        entry = self._head(business)
        if entry is None:
            del self.listed[business]
        else:
            self._list(business, entry, served)

    def foremost(self, count: int) -> list[Request]:
        """Of each business the first so many requests: a walk over its heap from the top."""
        found: list[Request] = []
        for heap in self.heaps.values():
            taken, edge = 0, [(heap[0], 0)] if heap else []
            while edge and taken < count:
                entry, place = heappop(edge)
                if self._waits(entry):
                    found.append(entry[3])
                    taken += 1
                for child in (2 * place + 1, 2 * place + 2):
                    if child < len(heap):
                        heappush(edge, (heap[child], child))
        return found

    def _list(self, business: str, entry: Entry, served: float) -> None:
        head = self.listed[business] = (served, entry[0], entry[1], business)
        heappush(self.heads, head)
        if len(self.heads) > 64 and len(self.heads) > 4 * len(self.listed):
            self.heads[:] = self.listed.values()
            heapify(self.heads)

    def _waits(self, entry: Entry) -> bool:
        """Whether the entry is its request's present one: it may have left the line meanwhile."""
        request = entry[3]
        return entry[2] == (request.turn if self.ledger is None else request.place)

    def _head(self, business: str) -> Entry | None:
        heap = self.heaps[business]
        while heap:
            if self._waits(heap[0]):
                return heap[0]
            heappop(heap)
            self.held -= 1
        del self.heaps[business]
        return None

    def _sweep(self) -> None:
        for business, heap in list(self.heaps.items()):
            heap[:] = [entry for entry in heap if self._waits(entry)]
            heapify(heap)
            if not heap:
                del self.heaps[business]
        self.held = self.live
        self.parked &= self.heaps.keys()
        # Listed again at counter 0, which peek puts right: no counter is known here.
        self.heads.clear()
        self.listed.clear()
        for business, heap in self.heaps.items():
            if business not in self.parked:
                self._list(business, heap[0], 0.0)
