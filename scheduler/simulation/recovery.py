"""How long P0 feels a fault: until its waits are what they were before.

P0's waits are told by their 95th percentile over ten seconds of arrivals, one that was refused,
failed or never ended counting as endless; what a business's own rate refuses does not count.
*Before* is the worst of the three such spans that end at the fault. It is over at the first
whole second from which the next ten are no worse: by a tenth, or by ``SLACK``.
"""

from bisect import bisect_left
from math import ceil, inf
from typing import TypedDict

from .records import Records
from .scenario import SECOND
from .scheduling import Outcome
from .workload import MILLISECOND, Workload

SPAN_S = 10
SPANS = 3
SHARE = 0.95
SLACK = 10 * MILLISECOND


class RecoveryFigures(TypedDict):
    """One moment at which replicas went ("down") or came back ("up"). ``after_s`` None: the
    waits did not come back to what they were before the arrivals ended."""

    at_s: float
    event: str
    wait_before_ms: float | None
    after_s: float | None


def recoveries(workload: Workload, records: Records) -> list[RecoveryFigures]:
    """Every moment of the scenario's faults within its arrivals, in order."""
    scenario = workload.scenario
    moments = {(fault.down_at_s, "down") for fault in scenario.faults}
    moments |= {(fault.up_at_s, "up") for fault in scenario.faults}
    found: list[RecoveryFigures] = []
    for at, event in sorted(moments):
        if at <= scenario.duration_s:
            before = _before(workload, records, at)
            after = None if before is None else _after(workload, records, at, before)
            wait = None if before is None or before == inf else before / MILLISECOND
            found.append({"at_s": at, "event": event, "wait_before_ms": wait, "after_s": after})
    return found


def _before(workload: Workload, records: Records, at: float) -> float | None:
    starts = [at - SPAN_S * number for number in range(1, SPANS + 1)]
    waits = [_wait(workload, records, start) for start in starts if start >= 0]
    return max((wait for wait in waits if wait is not None), default=None)


def _after(workload: Workload, records: Records, at: float, before: float) -> float | None:
    limit = max(1.1 * before, before + SLACK)
    last = ceil(workload.scenario.duration_s - at)
    for second in range(max(1, last)):
        wait = _wait(workload, records, at + second)
        if wait is not None and wait <= limit:
            return float(second)
    return None


def _wait(workload: Workload, records: Records, begin: float) -> float | None:
    """P0's wait (ns) over a span of arrivals; None where there were none."""
    edges = (round(begin * SECOND), round((begin + SPAN_S) * SECOND))
    first, last = (bisect_left(workload.arrived, edge) for edge in edges)
    waits = sorted(
        float(records.waited[index]) if records.outcome[index] == Outcome.DONE else inf
        for index in range(first, last)
        if workload.lane[index] == 0 and records.outcome[index] != Outcome.QUOTA
    )
    return waits[ceil(SHARE * len(waits)) - 1] if waits else None
