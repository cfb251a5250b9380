"""Figures as text and as JSON."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from statistics import median
from typing import TypeVar

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
# One section's part of bench.json: figures by heading.
Part = dict[str, dict[str, Json]]
_Round = TypeVar("_Round")
PLACES = 3


def paired(
    ours: Sequence[_Round], others: Sequence[_Round], figure: Callable[[_Round], float]
) -> float:
    """The median over rounds of one side's figure divided by the other's of the same round."""
    return median(figure(a) / figure(b) for a, b in zip(ours, others, strict=True))


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest that at least ``share`` of them don't exceed; 0 where there are none."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0.0


def rounded(figures: Mapping[str, Json], places: int = PLACES) -> dict[str, Json]:
    """The same with so many decimals at most, all the way down."""
    return {name: _rounded(value, places) for name, value in figures.items()}


def _rounded(value: Json, places: int) -> Json:
    if isinstance(value, float):
        return round(value, places)
    if isinstance(value, Mapping):
        return rounded(value, places)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(each, places) for each in value]
    return value


def table(head: Sequence[str], rows: Sequence[Sequence[Json]]) -> str:
    """Columns of text: the first to the left, figures to the right."""
    cells = [list(head), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )


def _cell(value: Json) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
    return str(value)
