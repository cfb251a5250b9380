"""Where a business that comes back from idle joins the others of its lane."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

from .tenant import Tenant

Entry = tuple[float, str]


@dataclass(slots=True)
class Active:
    """The businesses with requests in one lane, the least served first.

    A heap by what each has used for good, which only rises: an entry that has fallen behind
    is put right when it comes up. Of a business the entry in ``entries`` counts.
    """

    lane: int
    heap: list[Entry] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)

    def join(self, business: str, used: float) -> None:
        """The business has requests again."""
        entry = self.entries[business] = (used, business)
        heappush(self.heap, entry)
        if len(self.heap) > 64 and len(self.heap) > 2 * len(self.entries):
            self.heap[:] = self.entries.values()
            heapify(self.heap)

    def leave(self, business: str) -> None:
        """Its last request is over."""
        del self.entries[business]

    def clear(self) -> None:
        """Nobody has any."""
        self.heap.clear()
        self.entries.clear()

    def least(self, tenants: Mapping[str, Tenant]) -> float | None:
        """The smallest counter of them; None when there are none."""
        heap, entries = self.heap, self.entries
        while heap:
            entry = heap[0]
            used, business = entry
            if entries.get(business) is not entry:
                heappop(heap)
                continue
            now = tenants[business].used[self.lane]
            if now == used:
                return used
            fresh = entries[business] = (now, business)
            heapreplace(heap, fresh)
        return None
