"""Where a business that comes back from idle joins the others of its ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

from .tenant import Tenant

Entry = tuple[float, str]


@dataclass(slots=True)
class Active:
    """The businesses with requests in one ledger, the least served first.

    A heap by what each has used for good, which only rises: an entry that has fallen behind
    is put right when it comes up. Of a business the entry in ``entries`` counts; ``requests`` is
    how many it has. ``virtual`` is the largest counter of one that has left.
    """

    ledger: int
    heap: list[Entry] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)
    virtual: float = 0.0

    def join(self, business: str, used: float) -> None:
        """The business has requests again."""
        self.requests[business] = 0
        entry = self.entries[business] = (used, business)
        heappush(self.heap, entry)
        if len(self.heap) > 64 and len(self.heap) > 2 * len(self.entries):
            self.heap[:] = self.entries.values()
            heapify(self.heap)

    def leave(self, business: str) -> None:
        """Its last request is over."""
        del self.entries[business], self.requests[business]

    def restart(self) -> None:
        """Everybody begins from nothing."""
        for business in self.entries:
            self.entries[business] = (0.0, business)
        self.heap[:] = self.entries.values()
        heapify(self.heap)
        self.virtual = 0.0

    def least(self, tenants: Mapping[str, Tenant]) -> float | None:
        """The smallest counter of them; None when there are none."""
        heap, entries = self.heap, self.entries
        while heap:
            entry = heap[0]
            used, business = entry
            if entries.get(business) is not entry:
                heappop(heap)
                continue
            now = tenants[business].used.get(self.ledger, 0.0)
            if now == used:
                return used
            fresh = entries[business] = (now, business)
            heapreplace(heap, fresh)
        return None
