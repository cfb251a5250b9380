"""Baselines with one queue for the whole cluster: ``fifo`` and ``priority-heap``.

The first request in order takes any free replica that holds its model. One that finds none
holds up nobody behind it that asks for another model.
"""

from abc import ABC, abstractmethod
from heapq import heappop, heappush

from .baseline import SHIFT, Baseline
from .scheduling import Cluster


class SharedQueue(Baseline, ABC):
    """One queue in order of ``rank``, then arrival; kept as one heap a model."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._queues: list[list[int]] = [[] for _ in self.holders]

    @abstractmethod
    def rank(self, request: int) -> int:
        """The lower, the sooner."""

    def arrived(self, request: int) -> None:
        """See Scheduler."""
        model = self.cluster.workload.model[request]
        queue = self._queues[model]
        if not queue:
            replica = self._free(model, request)
            if replica >= 0:
                self.cluster.start(request, replica)
                return
        heappush(queue, self.rank(request) << SHIFT | request)

    def finished(self, request: int, replica: int) -> None:
        """See Scheduler."""
        self._fill(replica)

    def changed(self, replica: int) -> None:
        """See Scheduler."""
        self._fill(replica)

    def closed(self) -> None:
        """See Scheduler."""
        for queue in self._queues:
            while self.head(queue) >= 0:
                heappop(queue)

    def _free(self, model: int, request: int) -> int:
        """The next free replica in rotation, or -1."""
        holders = self.holders[model]
        turn = self.turn(model)
        for step in range(len(holders)):
            replica = holders[(turn + step) % len(holders)]
            if self.cluster.room(replica, request):
                return replica
        return -1

    def _fill(self, replica: int) -> None:
        models = self.cluster.holds(replica)
        while True:
            heads = [self._queues[model] for model in models if self.head(self._queues[model]) >= 0]
            if not heads:
                return
            queue = min(heads)
            request = self.head(queue)
            if not self.cluster.room(replica, request):
                return
            heappop(queue)
            self.cluster.start(request, replica)


class Fifo(SharedQueue):
    """Arrival order."""

    def rank(self, request: int) -> int:
        """See SharedQueue."""
        return 0


class PriorityHeap(SharedQueue):
    """By level, then arrival, as an engine's own priority scheduling does."""

    def rank(self, request: int) -> int:
        """See SharedQueue."""
        return self.cluster.workload.level[request]
