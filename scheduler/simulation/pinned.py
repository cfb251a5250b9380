"""Reference ``pinned``: a conversation stays on the replica that it began on.

It finds all that can be found there, however long it waits for it. First turns, and requests
that stand alone, go to the least loaded. A conversation whose replica is gone begins anew.
"""

from heapq import heappop, heappush

from .baseline import SHIFT
from .least_loaded import LeastLoaded
from .scheduling import Cluster


class Pinned(LeastLoaded):
    """See the module. Each replica has a queue of its own besides the common one, in the same
    order; a slot goes to the first of both."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._homes: dict[int, int] = {}
        self._own: list[list[int]] = [[] for _ in self.replicas]

    def arrived(self, request: int) -> None:
        """See Scheduler."""
        home = self._homes.get(self.cluster.workload.conversation[request])
        if home is None:
            super().arrived(request)
            return
        heappush(self._own[home], self.rank(request) << SHIFT | request)
        self._fill(home)

    def start(self, request: int, replica: int) -> None:
        """See SharedQueue."""
        conversation = self.cluster.workload.conversation[request]
        if conversation >= 0:
            self._homes.setdefault(conversation, replica)
        super().start(request, replica)

    def changed(self, replica: int) -> None:
        """See Scheduler."""
        if not self.cluster.up(replica):
            gone = [talk for talk, home in self._homes.items() if home == replica]
            for talk in gone:
                del self._homes[talk]
            waiting, self._own[replica] = self._own[replica], []
            for entry in sorted(waiting):
                super().arrived(self.request(entry))
        super().changed(replica)

    def closed(self) -> None:
        """See Scheduler."""
        for queue in self._own:
            while self.head(queue) >= 0:
                heappop(queue)
        super().closed()

    def queues(self, replica: int) -> list[list[int]]:
        """See SharedQueue."""
        return [*super().queues(replica), self._own[replica]]
