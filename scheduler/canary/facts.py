"""What the request path knows about the canary that runs, if one does."""

from dataclasses import dataclass

from scheduler.core.policy import Policy


@dataclass(frozen=True, slots=True)
class Trial:
    """One canary: its id, and the draft (version and policy) by which the requests of
    ``businesses`` are decided."""

    id: int
    version: int
    policy: Policy
    businesses: frozenset[str]
