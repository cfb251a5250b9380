"""Fifteen minutes of one audience's figures, in buckets of five seconds.

A ring of fixed size: about 15 KB whatever the traffic, so that a thousand businesses cost
a dozen megabytes. Pure: time is the frame's own.
"""

from array import array
from collections.abc import Mapping

from metering.core.facts import LANES
from scheduler.live import LaneLive

STEP_MS = 5_000
SPAN_MS = 15 * 60 * 1_000
BUCKETS = SPAN_MS // STEP_MS

# What a bucket holds: four figures a lane, two of tokens, the number of frames, and two
# more figures a lane.
QUEUED, WAIT, FINISHED, REFUSED = range(0, 12, 3)
PROMPT, COMPLETION, FRAMES = 12, 13, 14
PAUSED, PROMOTED = 15, 18
WIDTH = 21

EMPTY = array("f", bytes(4 * WIDTH))

Point = list[float]


class History:
    """A ring of buckets; frames are a second apart, so a bucket's frames are its seconds.

    Every reader names the present (ms since the epoch), and what is older than the span is
    swept out first: after that a sum over the ring is a sum over the span.
    """

    __slots__ = ("_reasons", "_stamps", "_swept", "_values", "newest")

    def __init__(self) -> None:
        self.newest = 0
        self._swept = 0
        self._stamps = array("q", bytes(8 * BUCKETS))
        self._values = array("f", bytes(4 * BUCKETS * WIDTH))
        self._reasons: dict[int, dict[str, int]] = {}

    def add(
        self,
        at: int,
        lanes: Mapping[str, LaneLive],
        refusals: Mapping[str, int],
        *,
        prompt: int = 0,
        completion: int = 0,
    ) -> None:
        """Take in one frame's figures; ``at`` is ms since the epoch.

        Of depths and waits a bucket keeps the highest, of counts the sum.
        """
        self._sweep(at)
        stamp = at - at % STEP_MS
        slot = stamp // STEP_MS % BUCKETS
        self._stamps[slot] = stamp
        base = slot * WIDTH
        values = self._values
        for index, name in enumerate(LANES):
            lane = lanes.get(name)
            if lane is None:
                continue
            queued, wait = base + QUEUED + index, base + WAIT + index
            values[queued] = max(values[queued], lane.queued)
            values[wait] = max(values[wait], lane.wait_p95_ms)
            values[base + FINISHED + index] += lane.finished
            values[base + REFUSED + index] += lane.refused
            values[base + PAUSED + index] += lane.paused
            values[base + PROMOTED + index] += lane.promoted
        values[base + PROMPT] += prompt
        values[base + COMPLETION] += completion
        values[base + FRAMES] += 1
        for reason, count in refusals.items():
            if count:
                reasons = self._reasons.setdefault(stamp, {})
                reasons[reason] = reasons.get(reason, 0) + count
        self.newest = at

    def points(self, now: int, since: int = 0) -> list[Point]:
        """Rows for the charts, oldest first, from the bucket that holds ``since`` on.

        A row is the bucket's time, then by lane: deepest queue, longest P95 wait (ms),
        finished and refused per second.
        """
        self._sweep(now)
        last = now - now % STEP_MS
        first = max(since - since % STEP_MS, last - SPAN_MS + STEP_MS)
        rows: list[Point] = []
        for stamp in range(first, last + 1, STEP_MS):
            slot = stamp // STEP_MS % BUCKETS
            if self._stamps[slot] != stamp:
                continue
            row = self._values[slot * WIDTH : (slot + 1) * WIDTH]
            seconds = row[FRAMES] or 1.0
            rows.append(
                [
                    stamp,
                    *(round(value) for value in row[QUEUED:FINISHED]),
                    *(round(value / seconds, 2) for value in row[FINISHED:PROMPT]),
                ]
            )
        return rows

    def total(self, column: int, now: int) -> int:
        """The sum of one column of counts over the span."""
        self._sweep(now)
        return round(sum(self._values[column::WIDTH]))

    def rate(self, column: int, now: int) -> float:
        """One column of counts per second, over the present bucket and the one before."""
        self._sweep(now)
        slot = now // STEP_MS % BUCKETS
        bases = (slot * WIDTH, (slot - 1) % BUCKETS * WIDTH)
        seconds = sum(self._values[base + FRAMES] for base in bases)
        count = sum(self._values[base + column] for base in bases)
        return round(count / seconds, 2) if seconds else 0.0

    def reasons(self, now: int) -> dict[str, int]:
        """How often each reason refused over the span, the commonest first."""
        self._sweep(now)
        totals: dict[str, int] = {}
        for held in self._reasons.values():
            for reason, count in held.items():
                totals[reason] = totals.get(reason, 0) + count
        return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))

    def _sweep(self, now: int) -> None:
        """Empty the buckets that time has moved past; all of them after a jump of the clock."""
        stamp = now - now % STEP_MS
        if self._swept <= stamp < self._swept + SPAN_MS:
            passed = range(self._swept + STEP_MS, stamp + 1, STEP_MS)
        elif self._swept - SPAN_MS < stamp < self._swept:
            return
        else:
            passed = range(stamp - SPAN_MS + STEP_MS, stamp + 1, STEP_MS)
        for each in passed:
            slot = each // STEP_MS % BUCKETS
            if self._stamps[slot]:
                self._reasons.pop(self._stamps[slot], None)
                self._stamps[slot] = 0
                self._values[slot * WIDTH : (slot + 1) * WIDTH] = EMPTY
        self._swept = stamp
