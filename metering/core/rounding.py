"""Rounding a bill once: its total, and lines that add up to it."""

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

from .prices import EXACT, ZERO


def total(amounts: Iterable[Decimal]) -> Decimal:
    """The exact sum."""
    found = ZERO
    for amount in amounts:
        found = EXACT.add(found, amount)
    return found


def rounded(amount: Decimal, places: int) -> Decimal:
    """``amount`` to ``places`` decimal places, halves away from zero."""
    return amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT)


def lines_of(amounts: Sequence[Decimal], places: int) -> list[Decimal]:
    """The amounts rounded so that they add up to their rounded sum.

    Each is rounded by itself; what the sum is off by then goes, one smallest unit each, to the
    lines that were rounded furthest the other way (among equals the first). So a line is off by
    less than one unit, and one that needed no rounding stays as it is.
    """
    unit = Decimal(1).scaleb(-places)
    lines = [rounded(amount, places) for amount in amounts]
    drift = EXACT.subtract(rounded(total(amounts), places), total(lines))
    steps = int(EXACT.divide(drift, unit))
    step = unit if steps > 0 else -unit
    errors = [EXACT.subtract(amount, line) for amount, line in zip(amounts, lines, strict=True)]
    furthest = sorted(range(len(lines)), key=lambda i: (-errors[i] if steps > 0 else errors[i], i))
    for index in furthest[: abs(steps)]:
        lines[index] = EXACT.add(lines[index], step)
    return lines
