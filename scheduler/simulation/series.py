"""Waits over time, for charts."""

from .measures import percentile
from .records import Records
from .scenario import SECOND
from .scheduling import Outcome
from .workload import Workload

BINS = 120
LANES = 3

# Of each lane, (moment of arrival in s, 95th percentile of the wait in ms).
Series = list[list[tuple[float, float]]]


def wait_series(workload: Workload, records: Records) -> Series:
    """How long requests waited in a queue by when they came, refused ones until they were
    refused; those that their quota refused never waited."""
    width = max(1, round(workload.scenario.duration_s * SECOND / BINS))
    bins: list[list[list[int]]] = [[[] for _ in range(BINS)] for _ in range(LANES)]
    for index, at in enumerate(workload.arrived):
        if records.outcome[index] != Outcome.QUOTA:
            place = min(BINS - 1, at // width)
            bins[workload.lane[index]][place].append(records.waited[index])
    found: Series = []
    for lane in bins:
        points = []
        for place, waits in enumerate(lane):
            wait = percentile(sorted(waits), 0.95)
            if wait is not None:
                points.append(((place + 0.5) * width / SECOND, wait))
        found.append(points)
    return found
