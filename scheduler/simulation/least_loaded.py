"""Baseline ``least-loaded``: a new request goes to the replica with the least left to do.

As routers in front of inference servers do it, by what they can see: the tokens of each prompt,
the first and later tokens of each answer as they pass, and how long earlier answers were. Who
finds no room waits in one queue by level, whose head takes the slot that comes free first.
"""

from .baseline import Baseline
from .scheduling import Cluster
from .shared_queue import PriorityHeap

# Of a model's answers or service times that are remembered.
MEMORY = 64
# Tokens of an answer whose like nobody has seen and which says nothing of its length.
UNKNOWN = 256
# What has outrun what was expected of it has about this share of that still to come.
OUTRUN = 8


class Loads:
    """What runs on each replica still has to do: tokens of prompts until their first answer
    token, and of answers still to come; work of fixed models counts as the ms that it takes on
    average."""

    def __init__(self, baseline: Baseline) -> None:
        self._cluster = baseline.cluster
        workload = baseline.cluster.workload
        self._outstanding = [0.0 for _ in baseline.replicas]
        self._left: dict[int, float] = {}
        self._expected: dict[int, float] = {}
        self._began: dict[int, int] = {}
        # By model: of answers in tokens, of fixed work in ms.
        self._means = [0.0 for _ in workload.models]
        self._samples = [0 for _ in workload.models]
        self._most = [stream.max_tokens for stream in workload.scenario.arrivals]

    def of(self, replica: int) -> float:
        """What is left to do there."""
        return self._outstanding[replica]

    def began(self, request: int, replica: int) -> None:
        """A request runs there now."""
        workload = self._cluster.workload
        expected = self._expect(request)
        self._expected[request] = expected
        self._began[request] = self._cluster.now
        self._left[request] = expected + workload.prompt[request]
        self._outstanding[replica] += self._left[request]

    def answered(self, request: int, replica: int, tokens: int) -> None:
        """So many tokens of its answer have been seen."""
        expected = self._expected[request]
        left = max(expected - tokens, expected / OUTRUN)
        self._outstanding[replica] += left - self._left[request]
        self._left[request] = left

    def ended(self, request: int, replica: int, *, well: bool) -> None:
        """It runs there no more. One that ended ``well`` says what others will be like."""
        workload = self._cluster.workload
        self._outstanding[replica] -= self._left.pop(request)
        if not self._cluster.running(replica):
            self._outstanding[replica] = 0.0  # whatever rounding has left
        del self._expected[request]
        took = (self._cluster.now - self._began.pop(request)) / 1e6
        if well:
            model, output = workload.model[request], workload.output[request]
            self._samples[model] += 1
            part = 1 / min(self._samples[model], MEMORY)
            self._means[model] += ((output or took) - self._means[model]) * part

    def _expect(self, request: int) -> float:
        workload = self._cluster.workload
        model = workload.model[request]
        if not workload.output[request]:
            return self._means[model] or 1.0
        most = float(self._most[workload.stream[request]])
        return min(most, self._means[model] or UNKNOWN)


class LeastLoaded(PriorityHeap):
    """See the module. Of replicas alike the next in rotation is taken."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.loads = Loads(self)
        self._where: dict[int, int] = {}

    def roomy(self, request: int) -> list[int]:
        """Replicas with room for a request, those of least load first."""
        holders = self.holders[self.cluster.workload.model[request]]
        turn = self.turn(self.cluster.workload.model[request]) % len(holders)
        turned = holders[turn:] + holders[:turn]
        found = [replica for replica in turned if self.cluster.room(replica, request)]
        found.sort(key=self.loads.of)
        return found

    def choose(self, request: int) -> int:
        """See SharedQueue."""
        return next(iter(self.roomy(request)), -1)

    def start(self, request: int, replica: int) -> None:
        """See SharedQueue."""
        self._where[request] = replica
        self.loads.began(request, replica)
        super().start(request, replica)

    def progressed(self, request: int, tokens: int) -> None:
        """See Scheduler."""
        self.loads.answered(request, self._where[request], tokens)

    def finished(self, request: int, replica: int) -> None:
        """See Scheduler."""
        del self._where[request]
        self.loads.ended(request, replica, well=True)
        super().finished(request, replica)

    def lost(self, request: int, replica: int) -> None:
        """See Scheduler."""
        del self._where[request]
        self.loads.ended(request, replica, well=False)
        super().lost(request, replica)
