"""Baseline ``class-floors``: three classes with reserved slots, as admission gateways do it.

A class may take a free slot only while enough others stay free for the unfilled floors of
the other classes. P2 that has waited too long is promoted by one class. P0 that finds no
slot stops the P2 request that began last on a replica it could use, if its caller has seen
nothing yet; that one starts again from its place in the queue.
"""

from heapq import heappop, heappush

from .baseline import Baseline
from .scenario import SECOND
from .scheduling import Cluster

# Reserved shares of all slots: P0, P1, P2.
FLOORS = (0.20, 0.10, 0.05)
P0, P1, P2 = 0, 1, 2


class ClassFloors(Baseline):
    """See the module. Queues are heaps of requests by class and model."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        scenario = cluster.workload.scenario
        self._patience = round(scenario.starved_after_s * SECOND)
        self._queues = [[list[int]() for _ in self.holders] for _ in FLOORS]
        self._running = [0, 0, 0]
        self._total = 0
        self._floors = [0, 0, 0]
        # P2 on each replica in the order of its start, and those told to stop.
        self._victims: list[dict[int, None]] = [{} for _ in self.replicas]
        self._stopping: set[int] = set()
        self._count()

    def arrived(self, request: int) -> None:
        """See Scheduler."""
        if self.unserved(request):
            return
        workload = self.cluster.workload
        lane, model = workload.lane[request], workload.model[request]
        if not self._queues[lane][model] and self._allowed(lane):
            holders, turn = self.holders[model], self.turn(model)
            for step in range(len(holders)):
                replica = holders[(turn + step) % len(holders)]
                if self.cluster.room(replica, request):
                    self._start(request, replica)
                    return
        heappush(self._queues[lane][model], request)
        if lane == P0:
            self._preempt(request, model)

    def finished(self, request: int, replica: int) -> None:
        """See Scheduler."""
        self._left(request, replica)
        self._fill(replica)

    def stopped(self, request: int, replica: int, produced: int) -> None:
        """See Scheduler."""
        self._left(request, replica)
        workload = self.cluster.workload
        heappush(self._queues[workload.lane[request]][workload.model[request]], request)
        self._fill(replica)

    def lost(self, request: int, replica: int) -> None:
        """See Scheduler."""
        self._left(request, replica)
        super().lost(request, replica)

    def changed(self, replica: int) -> None:
        """See Scheduler."""
        self._count()
        for other in self.replicas:
            self._fill(other)

    def closed(self) -> None:
        """See Scheduler."""
        for queues in self._queues:
            for queue in queues:
                while self.head(queue) >= 0:
                    heappop(queue)

    def _count(self) -> None:
        up = [replica for replica in self.replicas if self.cluster.up(replica)]
        self._total = sum(self.cluster.slots(replica) for replica in up)
        self._floors = [int(share * self._total) for share in FLOORS]

    def _allowed(self, lane: int) -> bool:
        kept = sum(
            max(0, floor - running)
            for other, (floor, running) in enumerate(zip(self._floors, self._running, strict=True))
            if other != lane
        )
        return self._total - sum(self._running) > kept

    def _start(self, request: int, replica: int) -> None:
        lane = self.cluster.workload.lane[request]
        self._running[lane] += 1
        if lane == P2:
            self._victims[replica][request] = None
        self.cluster.start(request, replica)

    def _left(self, request: int, replica: int) -> None:
        self._running[self.cluster.workload.lane[request]] -= 1
        self._victims[replica].pop(request, None)
        self._stopping.discard(request)

    def _fill(self, replica: int) -> None:
        """Give the replica's free slots away; what it can't take may fit elsewhere."""
        while self._fill_one(replica):
            pass
        if any(queue for queues in self._queues for queue in queues):
            for other in self.replicas:
                while other != replica and self._fill_one(other):
                    pass

    def _fill_one(self, replica: int) -> bool:
        if len(self.cluster.running(replica)) >= self.cluster.slots(replica):
            return False
        overdue = self.cluster.now - self._patience
        best: tuple[int, int] | None = None
        where: list[int] = []
        for lane, queues in enumerate(self._queues):
            if not self._allowed(lane):
                continue
            for model in self.cluster.holds(replica):
                request = self.head(queues[model])
                if request >= 0 and self.cluster.room(replica, request):
                    late = lane == P2 and self.cluster.workload.arrived[request] <= overdue
                    rank = (P1 if late else lane, request)
                    if best is None or rank < best:
                        best, where = rank, queues[model]
        if best is None:
            return False
        heappop(where)
        self._start(best[1], replica)
        return True

    def _preempt(self, request: int, model: int) -> None:
        """Stop one P2 request for one of P0."""
        for replica in self.holders[model]:
            for victim in reversed(self._victims[replica]):
                if victim not in self._stopping and self.cluster.silent(victim):
                    self._stopping.add(victim)
                    self.cluster.stop(victim)
                    return
