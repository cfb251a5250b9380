"""Reads of canaries."""

from scheduler.canary import Trial
from scheduler.core.policy import from_stored
from scheduler.models import Canary


def running_canary() -> Canary | None:
    """The one that runs, with its version."""
    return Canary.objects.select_related("version").filter(state=Canary.State.RUNNING).first()


def load_trial() -> Trial | None:
    """What the request path must know of it. Raises PolicyError when the stored draft is no
    policy of this release."""
    row = running_canary()
    if row is None:
        return None
    return Trial(
        id=row.pk,
        version=row.version.version,
        policy=from_stored(row.version.document),
        businesses=frozenset(str(name) for name in row.businesses),
    )
