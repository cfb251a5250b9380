"""Rates that are piecewise linear in time: how many arrivals are due until when."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, pairwise
from math import inf, log, log1p, sqrt
from statistics import NormalDist

from .scenario import Arrivals, Size

# Conversations of so many turns are too few to count.
FEW = 1e-4

Points = Sequence[tuple[float, float]]


def segments(points: Points, until: float) -> list[tuple[float, float, float, float]]:
    """(from, to, rate at the beginning, slope) over [0, until] s; level outside the points."""
    if not points:
        return []
    whole = [(0.0, points[0][1]), *points]
    if points[-1][0] < until:
        whole.append((until, points[-1][1]))
    found = []
    for (begin, rate), (end, then) in pairwise(whole):
        if begin < end and begin < until:
            found.append((begin, min(end, until), rate, (then - rate) / (end - begin)))
    return found


def due(points: Points, begin: float, end: float) -> float:
    """The mean number of arrivals between two moments (s)."""
    total = 0.0
    for start, stop, rate, slope in segments(points, end):
        low = max(start, begin)
        if low < stop:
            total += (stop - low) * (rate + slope * ((low + stop) / 2 - start))
    return total


def arrival_times(points: Points, until: float, gaps: Iterable[float]) -> Iterator[float]:
    """Moments (s) of arrivals whose gaps, in units of the mean gap at the rate of the
    moment, are ``gaps``: unit time is run through the inverse of the cumulated rate."""
    parts = iter(segments(points, until))
    begin = end = rate = slope = 0.0
    size, passed, position = 0.0, 0.0, 0.0
    for gap in gaps:
        position += gap
        while position > passed + size:
            passed += size
            part = next(parts, None)
            if part is None:
                return
            begin, end, rate, slope = part
            size = (end - begin) * (rate + slope * (end - begin) / 2)
        rest = position - passed
        # rate·x + slope·x²/2 = rest, in the form that is stable for small slopes.
        root = sqrt(max(0.0, rate * rate + 2 * slope * rest))
        yield min(end, begin + 2 * rest / (rate + root) if rest else begin)


def planned(stream: Arrivals, begin: float, end: float) -> float:
    """The mean number of requests of a stream between two moments (s), bursts included; of
    conversations about so many."""
    bursts = sum(burst.count for burst in stream.bursts if begin <= burst.at_s < end)
    return due(stream.rate, begin, end) + bursts + _turns(stream, begin, end)


def _turns(stream: Arrivals, begin: float, end: float) -> float:
    """As if one turn followed the other after the mean gap."""
    talk = stream.conversations
    if talk is None or stream.output is None:
        return 0.0
    gap = talk.think_s.mean + stream.output.mean * talk.answer_ms_per_token / 1e3
    first, last = talk.begin_s
    total = 0.0
    for turn in count():
        share = _at_least(talk.turns, turn + 1)
        at = turn * gap
        if share < FEW or first + at >= end:
            return total * talk.count
        if first < last:
            inside = min(last + at, end) - max(first + at, begin)
            total += share * max(0.0, inside) / (last - first)
        else:
            total += share * (begin <= first + at)
    return total * talk.count


def _at_least(turns: Size, number: int) -> float:
    """The share of conversations that have so many turns."""
    if number <= 1:
        return 1.0
    if not turns.cv:
        return float(round(turns.mean) >= number)
    spread = sqrt(log1p(turns.cv * turns.cv))
    middle = log(turns.mean) - spread * spread / 2
    return 1 - NormalDist(middle, spread).cdf(log(number - 0.5))


def peak_minute(
    streams: Sequence[tuple[Arrivals, float]], begin: float, end: float
) -> tuple[float, float]:
    """The first minute between two moments (s) in which most is planned, streams weighing
    differently; all the time between them where it is less than a minute."""
    best, found = -inf, begin
    for step in range(max(0, int(end - begin) - 60) + 1):
        start = begin + step
        stop = min(end, start + 60)
        load = sum(weight * planned(stream, start, stop) for stream, weight in streams)
        if load > best * (1 + 1e-9):
            best, found = load, start
    return found, min(end, found + 60)
