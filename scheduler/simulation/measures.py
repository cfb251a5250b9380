"""Arithmetic of figures: percentiles, ratios, windows, running totals."""

from collections.abc import Sequence
from itertools import accumulate
from math import ceil

from .workload import MILLISECOND

WINDOW_S = 10


def percentile(ordered: Sequence[int], share: float) -> float | None:
    """The smallest of some times (ns, in order) that at least ``share`` of them don't
    exceed, in ms; None of none."""
    if not ordered:
        return None
    return ordered[max(0, ceil(share * len(ordered)) - 1)] / MILLISECOND


def ratio(part: float, whole: float) -> float | None:
    """part / whole, None where there is no whole."""
    return part / whole if whole else None


def best_window(completions: Sequence[int]) -> float:
    """Completions per second in the best ten seconds, in fewer where there are fewer."""
    width = min(WINDOW_S, len(completions))
    if not width:
        return 0.0
    sums = [0, *accumulate(completions)]
    return max(sums[end] - sums[end - width] for end in range(width, len(sums))) / width


def growth(total: Sequence[int], begin: float, end: float) -> float:
    """What a running total by whole second grew between two moments (s)."""
    return _at(total, end) - _at(total, begin)


def _at(total: Sequence[int], moment: float) -> float:
    place = int(moment)
    if place >= len(total) - 1:
        return float(total[-1])
    return total[place] + (total[place + 1] - total[place]) * (moment - place)
