"""Reads of the policy."""

from metering.models import Lane
from scheduler.core.policy import NamedPool, Policy, Problem, from_stored, named_pools
from scheduler.models import PolicyVersion, Pool

LANES = tuple(lane.value for lane in Lane)
MOST_NAMES = 20


def load_policy() -> tuple[int, Policy]:
    """The number of the active version and its policy; 0 and the defaults if none is active.

    Raises PolicyError when the stored document is no policy of this release.
    """
    row = PolicyVersion.objects.filter(active=True).first()
    return (0, Policy()) if row is None else (row.version, from_stored(row.document))


def load_version(version: int) -> Policy:
    """The policy of one version. Raises PolicyVersion.DoesNotExist and PolicyError."""
    return from_stored(PolicyVersion.objects.get(version=version).document)


def missing_pools(policy: Policy) -> list[Problem]:
    """Pools that the policy names and the fleet doesn't have."""
    names = list(Pool.objects.order_by("name").values_list("name", flat=True))
    there = ", ".join(names[:MOST_NAMES]) + (", ..." if len(names) > MOST_NAMES else "")
    return [
        Problem(named.path, f"no pool {named.pool} in the fleet; there are {there or 'none'}")
        for named in named_pools(policy)
        if named.pool not in names
    ]


def closed_pools(policy: Policy) -> list[Problem]:
    """Pools that the policy names for a lane that they don't take."""
    lanes = dict(Pool.objects.values_list("name", "lanes"))
    return [
        Problem(named.path, f"pool {named.pool} does not take lane {LANES[named.lane]}")
        for named in named_pools(policy)
        if named.pool in lanes and LANES[named.lane] not in lanes[named.pool]
    ]


def pools_in_use() -> list[NamedPool]:
    """Pools that the active policy names, which the fleet therefore can't drop."""
    return named_pools(load_policy()[1])
