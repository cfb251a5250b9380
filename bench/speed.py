"""How fast this machine is at what the scheduling core does: plain Python on small objects.

Figures in microseconds say little of a program while machines differ by a factor of three. So
the same loop, which has nothing to do with the core and never changes, is timed beside them.
"""

import heapq
import time
from statistics import median

# Turns of the loop per CPU second on a machine where the core of the time when this was written
# decided 45,000 events a second.
REFERENCE = 817_000.0
TURNS = 40_000
TIMES = 5


class _Item:
    __slots__ = ("key", "name", "next", "weight")

    def __init__(self, key: int, name: str) -> None:
        self.key, self.name, self.weight = key, name, 1.0
        self.next: _Item | None = None


def machine_speed() -> float:
    """1 where the machine is as fast as the one of ``REFERENCE``; half as fast is 0.5."""
    return median(_turns_per_s() for _ in range(TIMES)) / REFERENCE


def _turns_per_s() -> float:
    known: dict[str, _Item] = {}
    heap: list[tuple[int, int, _Item]] = []
    began = time.process_time()
    for turn in range(TURNS):
        key = turn * 7919 % 104_729
        item = _Item(key, f"item-{key % 997}")
        item.next = known.get(item.name)
        known[item.name] = item
        heapq.heappush(heap, (key, turn, item))
        if turn % 2:
            _, _, first = heapq.heappop(heap)
            if first.next is not None:
                first.weight += first.next.weight * 0.5
            if known.get(first.name) is first:
                del known[first.name]
            first.next = None
    return TURNS / (time.process_time() - began)
