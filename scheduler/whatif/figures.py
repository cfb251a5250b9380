"""Figures of one side, by lane and over time, and how far two sides are apart."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TypedDict

from metering.core.facts import LANES
from scheduler.core.policy import Policy

from .recording import Recording
from .replay import Told

MS = 1_000_000
POINTS = 60


class LaneFigures(TypedDict):
    """One lane; waits in ms, None of none; ratios 0-1. ``late_ratio`` is of those that had a
    budget: None, none had."""

    requests: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    refused: int
    timeouts: int
    late_ratio: float | None
    preempted: int


class Side(TypedDict):
    """One side of the comparison. ``series`` has the P95 wait (ms) of each lane by slice of the
    window, None where nothing got a slot."""

    lanes: dict[str, LaneFigures]
    reasons: dict[str, int]
    series: dict[str, list[float | None]]


@dataclass(slots=True)
class _Lane:
    waits: list[int] = field(default_factory=list)
    slices: list[list[int]] = field(default_factory=lambda: [[] for _ in range(POINTS)])
    requests: int = 0
    refused: int = 0
    timeouts: int = 0
    due: int = 0
    late: int = 0
    preempted: int = 0


class _Side:
    def __init__(self, recording: Recording, policy: Policy) -> None:
        self.lanes = [_Lane() for _ in LANES]
        self.reasons: Counter[str] = Counter()
        self._begin = recording.begin
        self._span = max(1, recording.end - recording.begin)
        self._budgets = [policy.queue(lane).latency_budget_ms for lane in range(len(LANES))]

    def add(
        self, lane: int, arrived: int, wait: int | None, refused: str, seen: int, preempted: int
    ) -> None:
        held = self.lanes[lane]
        held.requests += 1
        held.preempted += preempted
        if refused:
            self.reasons[refused] += 1
            held.refused += 1
            held.timeouts += refused == "queue_timeout"
        if wait is not None:
            held.waits.append(wait)
            place = (arrived - self._begin) * POINTS // self._span
            held.slices[min(POINTS - 1, max(0, place))].append(wait)
        budget = self._budgets[lane]
        if budget is not None and (refused or wait is not None):
            held.due += 1
            held.late += bool(refused) or (wait or 0) + seen > budget * MS

    def told(self) -> Side:
        return {
            "lanes": {name: _figures(lane) for name, lane in zip(LANES, self.lanes, strict=True)},
            "reasons": dict(self.reasons.most_common()),
            "series": {
                name: [percentile(sorted(part), 0.95) for part in lane.slices]
                for name, lane in zip(LANES, self.lanes, strict=True)
            },
        }


def recorded(recording: Recording, policy: Policy) -> Side:
    """What really happened. Budgets are those of ``policy``."""
    side = _Side(recording, policy)
    for index, asked in enumerate(recording.requests):
        if recording.counted(index):
            preempted = 0 if asked.service or not asked.dispatched else 1
            side.add(asked.lane, asked.arrived, asked.wait, asked.refused, asked.seen, preempted)
    return side.told()


def replayed(recording: Recording, told: Sequence[Told], policy: Policy) -> Side:
    """What came of a run."""
    side = _Side(recording, policy)
    for index, (asked, each) in enumerate(zip(recording.requests, told, strict=True)):
        if recording.counted(index):
            wait = each.wait if each.wait >= 0 else None
            side.add(each.lane, asked.arrived, wait, each.refused, asked.seen, each.preempted)
    return side.told()


def percentile(ordered: Sequence[int], share: float) -> float | None:
    """The nearest rank of some times (ns, in order), in ms; None of none."""
    if not ordered:
        return None
    return round(ordered[max(0, ceil(share * len(ordered)) - 1)] / MS, 1)


def _figures(lane: _Lane) -> LaneFigures:
    waits = sorted(lane.waits)
    return {
        "requests": lane.requests,
        "p50_ms": percentile(waits, 0.50),
        "p95_ms": percentile(waits, 0.95),
        "p99_ms": percentile(waits, 0.99),
        "refused": lane.refused,
        "timeouts": lane.timeouts,
        "late_ratio": round(lane.late / lane.due, 4) if lane.due else None,
        "preempted": lane.preempted,
    }
