"""One line of waiting requests: those of one lane, level and model.

Each business has a heap of its requests by key, and the line a heap of businesses by
service counter. Counters only rise, so an entry that has fallen behind is put right when it
comes up. A business at its own limit is *parked*: out of the heap, so that it costs nothing
and hides nobody, until it may run again. Removal is lazy: an ended request is dropped when
it comes up, or when dead entries prevail.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from .request import Phase, Request
from .tenant import Tenant

Entry = tuple[int, int, Request]
Head = tuple[float, int, int, str]
Rank = tuple[float, int, int]


@dataclass(slots=True, eq=False)
class Line:
    """Each business with a heap is either parked or *listed*: of its entries in ``heads``
    the one whose request sequence stands in ``listed`` counts."""

    lane: int
    heaps: dict[str, list[Entry]] = field(default_factory=dict)
    heads: list[Head] = field(default_factory=list)
    listed: dict[str, int] = field(default_factory=dict)
    parked: set[str] = field(default_factory=set)
    live: int = 0
    held: int = 0

    def push(self, request: Request, served: float) -> None:
        """Add a waiting request; ``served`` is its business's counter."""
        business = request.ticket.business
        heap = self.heaps.setdefault(business, [])
        entry = (request.key, request.sequence, request)
        heappush(heap, entry)
        self.live += 1
        self.held += 1
        if heap[0] is entry and business not in self.parked:
            self._list(business, entry, served)

    def drop(self, request: Request) -> None:
        """The request waits no longer; sweep when dead entries prevail."""
        heap = self.heaps[request.ticket.business]
        self.live -= 1
        if heap[0][2] is request:
            heappop(heap)
            self.held -= 1
        elif self.held > 64 and self.held > 2 * self.live:
            self._sweep()

    def peek(self, tenants: Mapping[str, Tenant]) -> tuple[Rank, Request] | None:
        """The request of the least served business that may run, with its rank among lines."""
        heads, lane = self.heads, self.lane
        while heads:
            served, key, sequence, business = heads[0]
            if self.listed.get(business) != sequence:
                heappop(heads)
                continue
            entry = self._head(business)
            tenant = tenants[business]
            if entry is not None and entry[1] == sequence and served == tenant.served[lane]:
                if tenant.may_run:
                    return (served, key, sequence), entry[2]
                heappop(heads)
                del self.listed[business]
                self.parked.add(business)
                continue
            heappop(heads)
            del self.listed[business]
            if entry is not None:
                self._list(business, entry, tenant.served[lane])
        return None

    def unpark(self, business: str, served: float) -> None:
        """The business may run again."""
        self.parked.discard(business)
        entry = self._head(business)
        if entry is not None:
            self._list(business, entry, served)

    def _list(self, business: str, entry: Entry, served: float) -> None:
        self.listed[business] = entry[1]
        heappush(self.heads, (served, entry[0], entry[1], business))

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
        # Listed again at counter 0, which peek puts right: no counter is known here.
        self.heads.clear()
        self.listed.clear()
        for business, heap in self.heaps.items():
            if business not in self.parked:
                self._list(business, heap[0], 0.0)
