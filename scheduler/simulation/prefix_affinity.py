"""Baseline ``prefix-affinity``: a request goes where the longest beginning of its prompt is held.

As cache-aware routers do it: they remember which blocks of prompts they have sent where, as many as
the replica can hold, and forget the ones not used for longest. Where that replica runs many more
requests than the one that runs fewest, or nobody holds anything, it is ``least-loaded``.
"""

from collections import OrderedDict

from scheduler.core.ticket import PREFIX_BLOCK

from .least_loaded import LeastLoaded
from .scheduling import Cluster

# Affinity goes no further than this many times the requests of the replica that has fewest ...
MOST_TIMES = 1.5
# ... and so many more.
MOST_MORE = 4
# Blocks that a replica without a limit is thought to hold.
BLOCKS = 30_000


class PrefixAffinity(LeastLoaded):
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        limits = [spec.hardware.kv_tokens for spec in cluster.workload.scenario.replicas]
        self._most = [BLOCKS if limit is None else limit // PREFIX_BLOCK for limit in limits]
        self._sent: list[OrderedDict[int, None]] = [OrderedDict() for _ in limits]

    def choose(self, request: int) -> int:
        """See SharedQueue."""
        roomy, blocks = self.roomy(request), self._prompt(request)
        if not roomy or not blocks:
            return next(iter(roomy), -1)
        found = {replica: self._held(replica, blocks) for replica in roomy}
        # The least loaded of those that hold most.
        best = max(roomy, key=found.__getitem__)
        running = {replica: len(self.cluster.running(replica)) for replica in roomy}
        limit = MOST_TIMES * min(running.values()) + MOST_MORE
        return best if found[best] and running[best] <= limit else roomy[0]

    def start(self, request: int, replica: int) -> None:
        """See SharedQueue."""
        sent = self._sent[replica]
        # The end of a prompt is forgotten before its beginning.
        for block in reversed(self._prompt(request)):
            sent[block] = None
            sent.move_to_end(block)
        while len(sent) > self._most[replica]:
            sent.popitem(last=False)
        super().start(request, replica)

    def changed(self, replica: int) -> None:
        """See Scheduler."""
        if not self.cluster.up(replica):
            self._sent[replica].clear()
        super().changed(replica)

    def _prompt(self, request: int) -> tuple[int, ...]:
        workload = self.cluster.workload
        return workload.blocks(request, workload.prompt[request])

    def _held(self, replica: int, blocks: tuple[int, ...]) -> int:
        sent = self._sent[replica]
        for count, block in enumerate(blocks):
            if block not in sent:
                return count
        return len(blocks)
