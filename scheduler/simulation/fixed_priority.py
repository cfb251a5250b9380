"""Baseline ``fixed-priority``: round-robin at arrival, one priority heap per replica.

What is dealt to a replica stays with it, whatever its pool, state or load.
"""

from heapq import heappop, heappush

from .baseline import SHIFT, Baseline
from .scheduling import Cluster


class FixedPriority(Baseline):
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._queues: list[list[int]] = [[] for _ in self.replicas]

    def arrived(self, request: int) -> None:
        """See Scheduler."""
        if self.unserved(request):
            return
        workload = self.cluster.workload
        model = workload.model[request]
        holders = self.holders[model]
        replica = holders[self.turn(model) % len(holders)]
        queue = self._queues[replica]
        if not queue and self.cluster.room(replica, request):
            self.cluster.start(request, replica)
        else:
            heappush(queue, workload.level[request] << SHIFT | request)

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

    def _fill(self, replica: int) -> None:
        queue = self._queues[replica]
        while (request := self.head(queue)) >= 0 and self.cluster.room(replica, request):
            heappop(queue)
            self.cluster.start(request, replica)
