"""Counting requests into the run as a whole and into its phases, in one pass."""

from array import array
from bisect import bisect_left
from itertools import pairwise

from .records import Records
from .scenario import SECOND
from .scheduling import Outcome
from .workload import Workload

DONE, QUOTA, TIMEOUT = Outcome.DONE, Outcome.QUOTA, Outcome.TIMEOUT
UNFINISHED = Outcome.UNFINISHED
LANES = 3


class Share:
    """Counts of a lane or a business. ``in_time``: completed, and within its budget. ``prompt``
    and ``cached`` are tokens: of all prompts, and of those found in a prefix cache."""

    __slots__ = (
        *("arrived", "done", "in_time", "last_end", "quota", "timeouts", "unfinished"),
        *("prompt", "cached"),
    )

    def __init__(self) -> None:
        self.arrived = self.done = self.in_time = self.quota = 0
        self.timeouts = self.unfinished = self.last_end = 0
        self.prompt = self.cached = 0


class Tally:
    """Counts over the requests that arrived between two moments (s), and the completions
    of each second between them, whenever their requests arrived.

    Latencies and waits are ns of completed requests. What the cards did for them is counted
    ``until`` (s): to the end of a phase, but of a whole run until its last request ended.
    """

    def __init__(self, begin: float, end: float, models: int, businesses: int) -> None:
        self.begin, self.end, self.until = begin, end, end
        self.lanes = [Share() for _ in range(LANES)]
        self.businesses = [Share() for _ in range(businesses)]
        self.starved = 0
        self.latency = [array("q") for _ in range(models)]
        self.waits = [array("q") for _ in range(LANES)]
        self.completions: list[int] = []


def tally(workload: Workload, records: Records, cuts: list[float]) -> tuple[Tally, list[Tally]]:
    """The whole run and the phases between ``cuts`` (s)."""
    sizes = len(workload.models), len(workload.businesses)
    whole = Tally(0.0, cuts[-1], *sizes)
    whole.until = float(len(records.busy) - 1)
    phases = [Tally(begin, end, *sizes) for begin, end in pairwise(cuts)]
    phases = phases or [Tally(0.0, cuts[-1], *sizes)]
    edges = [round(phase.begin * SECOND) for phase in phases]
    for phase, (begin, end) in zip(phases, _ranges(workload, edges), strict=True):
        _count(workload, records, range(begin, end), phase)
    _gather(whole, phases)
    _completions(records, whole, phases)
    return whole, phases


def _ranges(workload: Workload, edges: list[int]) -> list[tuple[int, int]]:
    """Indexes of the requests of each phase; requests are in order of arrival."""
    arrived = workload.arrived
    starts = [bisect_left(arrived, edge) for edge in edges]
    return list(zip(starts, [*starts[1:], len(arrived)], strict=True))


def _count(workload: Workload, records: Records, indexes: range, to: Tally) -> None:
    scenario = workload.scenario
    starved_after = round(scenario.starved_after_s * SECOND)
    outcome, ended, waited = records.outcome, records.ended, records.waited
    arrived, lanes, budgets = workload.arrived, workload.lane, workload.budgets
    streams, levels, businesses = workload.stream, workload.level, workload.business
    for index in indexes:
        lane, what = lanes[index], outcome[index]
        by_lane, by_business = to.lanes[lane], to.businesses[businesses[index]]
        by_lane.arrived += 1
        by_lane.prompt += workload.prompt[index]
        by_lane.cached += records.cached[index]
        by_business.arrived += 1
        if lane == 2 and waited[index] > starved_after:
            to.starved += 1
        if what == DONE:
            end = ended[index]
            latency = end - arrived[index]
            budget = budgets[streams[index]][levels[index]]
            by_lane.done += 1
            by_business.done += 1
            by_lane.last_end = max(end, by_lane.last_end)
            if not budget or latency <= budget:
                by_lane.in_time += 1
                by_business.in_time += 1
            if lane == 0:
                to.latency[workload.model[index]].append(latency)
            to.waits[lane].append(waited[index])
        elif what == QUOTA:
            by_business.quota += 1
        elif what == TIMEOUT:
            by_lane.timeouts += 1
        elif what == UNFINISHED:
            by_lane.unfinished += 1


def _gather(whole: Tally, phases: list[Tally]) -> None:
    for phase in phases:
        whole.starved += phase.starved
        for into, part in zip(whole.lanes, phase.lanes, strict=True):
            _add(into, part)
        for into, part in zip(whole.businesses, phase.businesses, strict=True):
            _add(into, part)
        for numbers, more in zip(whole.latency, phase.latency, strict=True):
            numbers.extend(more)
        for numbers, more in zip(whole.waits, phase.waits, strict=True):
            numbers.extend(more)


def _add(into: Share, part: Share) -> None:
    for name in Share.__slots__:
        if name == "last_end":
            into.last_end = max(into.last_end, part.last_end)
        else:
            setattr(into, name, getattr(into, name) + getattr(part, name))


def _completions(records: Records, whole: Tally, phases: list[Tally]) -> None:
    bins = [0] * (max(records.ended, default=0) // SECOND + 1)
    outcome = records.outcome
    for index, end in enumerate(records.ended):
        if outcome[index] == DONE:
            bins[end // SECOND] += 1
    whole.completions = bins
    for phase in phases:
        phase.completions = bins[int(phase.begin) : max(int(phase.begin) + 1, int(phase.end))]
