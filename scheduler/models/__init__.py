"""Tables of the scheduler package."""

from .fleet import ModelDeployment, Pool, Replica
from .policy import PolicyVersion

__all__ = ["ModelDeployment", "PolicyVersion", "Pool", "Replica"]
