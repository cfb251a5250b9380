"""Tables of the scheduler package."""

from .canary import Canary
from .decisions import DecisionLog
from .fleet import ModelDeployment, Pool, Replica
from .policy import PolicyVersion
from .whatif import WhatIf

__all__ = [
    "Canary",
    "DecisionLog",
    "ModelDeployment",
    "PolicyVersion",
    "Pool",
    "Replica",
    "WhatIf",
]
