"""A business's limits, present use, and how much of each lane it has been served."""

from dataclasses import dataclass, field

from .conduct import Conduct


@dataclass(slots=True)
class Outcomes:
    """How requests ended of late, in counts: in this window, begun at ``since`` (ns), and in
    the one ``before``, as (ended, failed)."""

    since: int = 0
    ended: int = 0
    failed: int = 0
    before: tuple[int, int] = (0, 0)

    def note(self, *, failed: bool) -> None:
        """One more has ended."""
        self.ended += 1
        self.failed += failed

    def turn(self, now: int, window: int) -> None:
        """Let a window (ns) that is over go."""
        if not self.since:
            self.since = now
        elif now - self.since >= window:
            fresh = now - self.since < 2 * window
            self.before = (self.ended, self.failed) if fresh else (0, 0)
            self.since, self.ended, self.failed = now, 0, 0

    def total(self) -> tuple[int, int]:
        """Requests that ended, and how many of them failed."""
        return self.ended + self.before[0], self.failed + self.before[1]

    def clear(self) -> None:
        """Forget all."""
        self.ended = self.failed = 0
        self.before = (0, 0)


@dataclass(slots=True)
class Tenant:
    """Limits in requests (None: unlimited, 0: blocked) and how many run and wait now.

    ``used`` is a virtual counter per lane: slot time (ns) over ``weight`` of attempts that
    have ended. ``served`` has what runs now besides, by estimate: who has least goes first.
    ``active`` requests per lane run or wait; ``turns`` says when each of its models was
    dispatched last, for they take turns. It is ``greedy`` while it holds far more than its share
    of what runs, or all that it may.
    """

    running_limit: int | None = None
    queued_limit: int | None = None
    suspended: bool = False
    weight: float = 1.0
    running: int = 0
    queued: int = 0
    used: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    served: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    active: list[int] = field(default_factory=lambda: [0, 0, 0])
    turns: dict[str, int] = field(default_factory=dict)
    outcomes: Outcomes = field(default_factory=Outcomes)
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
