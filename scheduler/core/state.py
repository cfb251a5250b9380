"""What the scheduler knows: replicas, tenants, requests, queues and counts. Plain data.

Only ``step`` changes it. Counts are kept where they are read, so that no step walks a
queue; the property tests hold them against a recount.
"""

from dataclasses import dataclass, field

from .policy import Policy
from .queues import Queues
from .replica import Replica
from .request import Request
from .tenant import Tenant


@dataclass(slots=True)
class State:
    """``now`` (ns) never goes back. ``service`` is the mean time a slot was held (ns).
    ``wake`` is the time asked for last. ``blocked`` names replicas kept free for a request
    at the head of the queue that needs more KV cache than is free there."""

    policy: Policy = field(default_factory=Policy)
    now: int = 0
    sequence: int = 0
    service: int = 1_000_000_000
    wake: int = 0
    replicas: dict[str, Replica] = field(default_factory=dict)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    queues: Queues = field(default_factory=Queues)
    lane_queued: list[int] = field(default_factory=lambda: [0, 0, 0])
    lane_running: list[int] = field(default_factory=lambda: [0, 0, 0])
    expiries: list[tuple[int, int, Request]] = field(default_factory=list)
    blocked: set[str] = field(default_factory=set)

    def tenant(self, business: str) -> Tenant:
        """The business's row, made on first sight without limits."""
        found = self.tenants.get(business)
        if found is None:
            found = self.tenants[business] = Tenant()
        return found

    def may_run(self, business: str) -> bool:
        """Whether one more request of the business may run now."""
        return self.tenant(business).may_run

    def by_level(self, lane: int) -> bool:
        """Whether the lane serves its levels strictly one after the other."""
        bands = self.policy.bands
        return (bands.P0, bands.P1, bands.P2)[lane] == "by_level"
