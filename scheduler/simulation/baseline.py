"""What the baselines have in common: they know nothing of pools, prices or preemption.

Queues are heaps of ``rank << 40 | request``: lower ranks first, then arrival, which is the
order of the indexes. Whoever has waited its lane's longest time is refused when it comes up;
nothing happens in between that could have started it.
"""

from heapq import heappop

from .scheduling import Cluster, Outcome

SHIFT = 40
INDEX = (1 << SHIFT) - 1


class Baseline:
    """The parts of a Scheduler that most baselines have no use for."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        policy = cluster.workload.scenario.policy
        self.timeouts = [policy.queue(lane).queue_timeout_ms * 1_000_000 for lane in range(3)]
        self.replicas = range(len(cluster.workload.scenario.replicas))
        self.holders: list[list[int]] = [
            [replica for replica in self.replicas if model in cluster.holds(replica)]
            for model in range(len(cluster.workload.models))
        ]
        self._turns = [0] * len(self.holders)

    def unserved(self, request: int) -> bool:
        """Whether no replica holds the model of a new request, which is refused then."""
        if self.holders[self.cluster.workload.model[request]]:
            return False
        self.cluster.refuse(request, Outcome.NO_CAPACITY)
        return True

    def turn(self, model: int) -> int:
        """Rotation: how many times a model has been asked for before."""
        self._turns[model] += 1
        return self._turns[model] - 1

    def deadline(self, request: int) -> int:
        """When (ns) the request has waited its lane's longest time."""
        workload = self.cluster.workload
        return workload.arrived[request] + self.timeouts[workload.lane[request]]

    @staticmethod
    def request(entry: int) -> int:
        """The request of a queue's entry."""
        return entry & INDEX

    def head(self, queue: list[int]) -> int:
        """The request at the head of a queue, those past their time refused; -1: none."""
        now = self.cluster.now
        while queue:
            request = self.request(queue[0])
            deadline = self.deadline(request)
            if deadline > now:
                return request
            heappop(queue)
            self.cluster.refuse(request, Outcome.TIMEOUT, deadline)
        return -1

    def progressed(self, request: int, tokens: int) -> None:
        """See Scheduler."""

    def stopped(self, request: int, replica: int, produced: int) -> None:
        """See Scheduler."""

    def lost(self, request: int, replica: int) -> None:
        """See Scheduler."""
        self.cluster.refuse(request, Outcome.FAILED)

    def measured(self, readings: list[tuple[float, float]]) -> None:
        """See Scheduler."""

    def woken(self) -> None:
        """See Scheduler."""
