"""What the scheduler remembers of replicas that it has started for P0."""

from dataclasses import dataclass


@dataclass(slots=True)
class Start:
    """A card of ``pool`` asked for because P0 waited for its model. Times are ns: ``since``
    when it was asked for, ``came`` when P0 could first run there (0: not yet), ``used`` when
    P0 last needed it."""

    pool: str
    since: int
    used: int
    came: int = 0
