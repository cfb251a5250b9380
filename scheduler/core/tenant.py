"""A business's limits, present use, and how much of each lane it has been served."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Tenant:
    """Limits in requests (None: unlimited, 0: blocked) and how many run and wait now.

    ``served`` is a virtual counter per lane: slot time (ns) over ``weight``, charged at
    dispatch by estimate. It never falls: what was charged too much is kept as ``credit``
    and taken off later charges. ``active`` requests per lane run or wait; ``turns`` says
    when each of its models was dispatched last, for they take turns.
    """

    running_limit: int | None = None
    queued_limit: int | None = None
    suspended: bool = False
    weight: float = 1.0
    running: int = 0
    queued: int = 0
    served: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    credit: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    active: list[int] = field(default_factory=lambda: [0, 0, 0])
    turns: dict[str, int] = field(default_factory=dict)

    @property
    def may_run(self) -> bool:
        """Whether one more may run beside those that do."""
        return self.running_limit is None or self.running < self.running_limit

    @property
    def may_wait(self) -> bool:
        """Whether one more may wait beside those that do."""
        return self.queued_limit is None or self.queued < self.queued_limit

    def charge(self, lane: int, slot_time: float) -> None:
        """Count slot time (ns) against the lane's counter."""
        due = slot_time / self.weight - self.credit[lane]
        self.credit[lane] = max(0.0, -due)
        self.served[lane] += max(0.0, due)

    def settle(self, lane: int, estimate: float, actual: float) -> None:
        """Put right what ``charge`` took by estimate."""
        if actual > estimate:
            self.charge(lane, actual - estimate)
        else:
            self.credit[lane] += (estimate - actual) / self.weight
