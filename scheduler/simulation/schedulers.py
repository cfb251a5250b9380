"""The schedulers by the names they go by in results."""

from collections.abc import Callable, Mapping

from .class_floors import ClassFloors
from .fairlane import Fairlane
from .fixed_priority import FixedPriority
from .scheduling import Cluster, Scheduler
from .shared_queue import Fifo, PriorityHeap

OWN = "fairlane"
REFERENCE = "fixed-priority"

SCHEDULERS: Mapping[str, Callable[[Cluster], Scheduler]] = {
    OWN: Fairlane,
    REFERENCE: FixedPriority,
    "fifo": Fifo,
    "priority-heap": PriorityHeap,
    "class-floors": ClassFloors,
}
