"""The policy: every rule of scheduling that people may change.

:class:`Policy` is an immutable tree of sections; ``Policy()`` has the defaults. Each field
carries its help, unit and limits (see ``spec``), the one source for the file, forms and
REST. Percentages are ratios 0-1 in memory, times stay in the unit of the field's name.
"""

from .document import Difference, differences, to_document
from .limits import leaves
from .per_request import PER_REQUEST, is_per_request, pool_wide
from .problems import PolicyError, Problem
from .queues import (
    Bands,
    Lanes,
    Lending,
    Order,
    P0Queue,
    P1Queue,
    P2Queue,
    Queue,
    Queues,
    Starvation,
)
from .reading import from_document, from_stored
from .rules import NamedPool, named_pools, problems
from .service import (
    Admission,
    Backpressure,
    Classification,
    ColdStart,
    Failover,
    FeatureDefaults,
    Feedback,
    MappingRow,
    Paths,
    Placement,
    Preemption,
    PreemptionWeights,
    ReplicaWeights,
    Scale,
    TenantBreaker,
    Throttle,
)
from .spec import Kind, Section, Spec, specs
from .tree import Policy

__all__ = [
    "PER_REQUEST",
    "Admission",
    "Backpressure",
    "Bands",
    "Classification",
    "ColdStart",
    "Difference",
    "Failover",
    "FeatureDefaults",
    "Feedback",
    "Kind",
    "Lanes",
    "Lending",
    "MappingRow",
    "NamedPool",
    "Order",
    "P0Queue",
    "P1Queue",
    "P2Queue",
    "Paths",
    "Placement",
    "Policy",
    "PolicyError",
    "Preemption",
    "PreemptionWeights",
    "Problem",
    "Queue",
    "Queues",
    "ReplicaWeights",
    "Scale",
    "Section",
    "Spec",
    "Starvation",
    "TenantBreaker",
    "Throttle",
    "differences",
    "from_document",
    "from_stored",
    "is_per_request",
    "leaves",
    "named_pools",
    "pool_wide",
    "problems",
    "specs",
    "to_document",
]
