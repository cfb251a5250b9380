"""Tables of the scheduler package."""

from .decisions import DecisionLog
from .fleet import ModelDeployment, Pool, Replica
from .policy import PolicyVersion

__all__ = ["DecisionLog", "ModelDeployment", "PolicyVersion", "Pool", "Replica"]
