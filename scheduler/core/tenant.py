"""A business's limits, present use, and how much of each lane it has been served."""

from dataclasses import dataclass, field

from .conduct import Conduct


@dataclass(slots=True)
class Tenant:
    """Limits in requests (None: unlimited, 0: blocked) and how many run and wait now.

    ``used`` is a virtual counter by ledger (see ``shares``): GPU time (ns) over ``weight`` of
    attempts that have ended. ``served`` has what runs now besides, by estimate: who has least goes
    first. ``active`` requests per lane run or wait; Its models take turns by what they cost: each
    has the end of its last turn in ``turns`` (GPU time, ns), and ``turn`` is where the last one
    began (start-time fair queueing; Goyal and others, 1996). It is ``greedy`` while it holds far
    more than its share of what runs, or all that it may.
    """

    running_limit: int | None = None
    queued_limit: int | None = None
    suspended: bool = False
    weight: float = 1.0
    running: int = 0
    queued: int = 0
    used: dict[int, float] = field(default_factory=dict)
    served: dict[int, float] = field(default_factory=dict)
    active: list[int] = field(default_factory=lambda: [0, 0, 0])
    turns: dict[str, float] = field(default_factory=dict)
    turn: float = 0.0
    conducts: dict[str, Conduct] = field(default_factory=dict)
    greedy: bool = False

    def conduct(self, model: str) -> Conduct:
        """How its requests of the model fare, made on first sight."""
        found = self.conducts.get(model)
        if found is None:
            found = self.conducts[model] = Conduct(self.weight)
        return found

    @property
    def may_run(self) -> bool:
        """Whether one more may run beside those that do."""
        return self.running_limit is None or self.running < self.running_limit

    def may_run_beside(self, others: int) -> bool:
        """Whether one more may run beside those that do and so many that are about to."""
        return self.running_limit is None or self.running + others < self.running_limit

    @property
    def may_wait(self) -> bool:
        """Whether one more may wait beside those that do."""
        return self.queued_limit is None or self.queued < self.queued_limit
