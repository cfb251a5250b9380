"""Fields that can hold for some businesses' requests while others keep the active policy's.

Everything else is about a pool or a queue as a whole, and holds for all or for none.
"""

from .document import Difference, differences
from .tree import Policy

# Paths of fields, and of sections with all that is in them.
PER_REQUEST = (
    "scheduler.classification",
    "scheduler.order",
    *(
        f"scheduler.queues.{lane}.{name}"
        for lane in ("P0", "P1", "P2")
        for name in ("queue_timeout_ms", "latency_budget_ms", "budget_on")
    ),
    "scheduler.failover.connect_ms",
    "scheduler.failover.first_byte_ms",
    "scheduler.failover.idle_ms",
    "scheduler.keepalive_s",
    "scheduler.header_hold_s",
)


def is_per_request(path: str) -> bool:
    """Whether the field can differ between businesses."""
    return any(path == known or path.startswith(f"{known}.") for known in PER_REQUEST)


def pool_wide(before: Policy, after: Policy) -> list[Difference]:
    """What changes between two policies that can only change for all businesses at once."""
    return [change for change in differences(before, after) if not is_per_request(change.path)]
