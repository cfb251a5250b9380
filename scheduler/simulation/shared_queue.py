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
        specs = cluster.workload.scenario.replicas
        self._bounded = any(spec.hardware.kv_tokens is not None for spec in specs)

    @abstractmethod
    def rank(self, request: int) -> int:
        """The lower, the sooner."""

    def choose(self, request: int) -> int:
        """The replica with room that a request at the head should go to, or -1. Here: the next
        in rotation."""
        model = self.cluster.workload.model[request]
        holders, turn = self.holders[model], self.turn(model)
        for step in range(len(holders)):
            replica = holders[(turn + step) % len(holders)]
            if self.cluster.room(replica, request):
                return replica
        return -1

    def queues(self, replica: int) -> list[list[int]]:
        """Those whose heads may run there."""
        return [self._queues[model] for model in self.cluster.holds(replica)]

    def start(self, request: int, replica: int) -> None:
        """Run a request that has left the queue."""
        self.cluster.start(request, replica)

    def arrived(self, request: int) -> None:
        """See Scheduler."""
        if self.unserved(request):
            return
        queue = self._queues[self.cluster.workload.model[request]]
        heappush(queue, self.rank(request) << SHIFT | request)
        # Whoever else is at the head has found no room before, and nothing has changed.
        if self.head(queue) == request:
            replica = self.choose(request)
            if replica >= 0:
                heappop(queue)
                self.start(request, replica)

    def finished(self, request: int, replica: int) -> None:
        """See Scheduler."""
        self._freed(replica)

    def changed(self, replica: int) -> None:
        """See Scheduler."""
        self._freed(replica)

    def closed(self) -> None:
        """See Scheduler."""
        for queue in self._queues:
            while self.head(queue) >= 0:
                heappop(queue)

    def _freed(self, replica: int) -> None:
        """Give away what has come free on a replica. Where the KV cache has a bound, the next in
        the queue may be small enough for a slot elsewhere that the one before was too big for."""
        self._fill(replica)
        if self._bounded:
            for other in self.replicas:
                if other != replica:
                    self._fill(other)

    def _fill(self, replica: int) -> None:
        queues = self.queues(replica)
        while len(self.cluster.running(replica)) < self.cluster.slots(replica):
            heads = [queue for queue in queues if self.head(queue) >= 0]
            if not heads:
                return
            queue = min(heads)
            request = self.head(queue)
            if not self.cluster.room(replica, request):
                return
            heappop(queue)
            self.start(request, replica)


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
