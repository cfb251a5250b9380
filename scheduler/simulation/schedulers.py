"""The schedulers by the names they go by in results."""

from collections.abc import Callable, Mapping

from .class_floors import ClassFloors
from .fairlane import Fairlane
from .fixed_priority import FixedPriority
from .least_loaded import LeastLoaded
from .pinned import Pinned
from .prefix_affinity import PrefixAffinity
from .scenario import Scenario
from .scheduling import Cluster, Scheduler
from .shared_queue import Fifo, PriorityHeap

OWN = "fairlane"
REFERENCE = "fixed-priority"
PINNED = "pinned"

SCHEDULERS: Mapping[str, Callable[[Cluster], Scheduler]] = {
    OWN: Fairlane,
    REFERENCE: FixedPriority,
    "fifo": Fifo,
    "priority-heap": PriorityHeap,
    "class-floors": ClassFloors,
    "least-loaded": LeastLoaded,
    "prefix-affinity": PrefixAffinity,
    PINNED: Pinned,
}

# What the production core is held against: what people run, or could write in an afternoon.
PLAIN = tuple(name for name in SCHEDULERS if name not in {OWN, PINNED})


def fitting(scenario: Scenario) -> list[str]:
    """The schedulers that say something about a scenario: all, but the one that is about
    conversations only where there are some."""
    return [name for name in SCHEDULERS if name != PINNED or scenario.converses]
