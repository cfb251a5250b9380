"""A business's limits and present use."""

from dataclasses import dataclass


@dataclass(slots=True)
class Tenant:
    """Limits in requests (None: unlimited, 0: blocked) and how many run and wait now."""

    running_limit: int | None = None
    queued_limit: int | None = None
    suspended: bool = False
    running: int = 0
    queued: int = 0

    @property
    def may_run(self) -> bool:
        """Whether one more may run beside those that do."""
        return self.running_limit is None or self.running < self.running_limit

    @property
    def may_wait(self) -> bool:
        """Whether one more may wait beside those that do."""
        return self.queued_limit is None or self.queued < self.queued_limit
