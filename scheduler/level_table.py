"""The whole table from features to levels, and what is odd about it. Pure."""

from dataclasses import dataclass
from itertools import product

from scheduler.core.classify import GRADE, REALTIME, WEIGHT, Features, base_level
from scheduler.core.policy import Policy

# Each feature from the most urgent value to the least.
REALTIMES, WEIGHTS, GRADES = tuple(REALTIME), tuple(WEIGHT), tuple(GRADE)
OFFLINES = (False, True)


@dataclass(frozen=True, slots=True)
class Cell:
    """The level of one combination. ``row`` is the mapping row (from 1) it comes from, 0 for
    the built-in rule. ``odd``: a combination that is less urgent in one feature and the same in
    all others has a more urgent level."""

    level: int
    lane: int
    row: int
    odd: bool


@dataclass(frozen=True, slots=True)
class Line:
    """All grades and weights, in their order, for one realtime class, offline or not."""

    realtime: str
    offline: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class LevelTable:
    """Every combination without a billing SLA. ``shadowed`` are mapping rows (from 1) that no
    combination reaches: earlier rows match all that they would."""

    lines: tuple[Line, ...]
    shadowed: tuple[int, ...]


Place = tuple[int, int, int, int]


def level_table(policy: Policy) -> LevelTable:
    """The table of a policy."""
    mapping = policy.classification.mapping
    levels: dict[Place, tuple[int, int]] = {}
    for place in _places():
        level, reason = base_level(_features(place), mapping)
        levels[place] = level, int(reason.rpartition(" ")[2]) if "row" in reason else 0
    lines = [
        Line(
            REALTIMES[realtime],
            OFFLINES[offline],
            tuple(
                _cell(policy, levels, (realtime, weight, grade, offline))
                for grade, weight in product(range(len(GRADES)), range(len(WEIGHTS)))
            ),
        )
        for realtime, offline in product(range(len(REALTIMES)), range(len(OFFLINES)))
    ]
    reached = {row for _level, row in levels.values()}
    shadowed = tuple(n for n in range(1, len(mapping) + 1) if n not in reached)
    return LevelTable(tuple(lines), shadowed)


def _places() -> "product[tuple[int, int, int, int]]":
    sizes = (len(REALTIMES), len(WEIGHTS), len(GRADES), len(OFFLINES))
    first, second, third, fourth = (range(size) for size in sizes)
    return product(first, second, third, fourth)


def _features(place: Place) -> Features:
    realtime, weight, grade, offline = place
    return Features(
        REALTIMES[realtime], WEIGHTS[weight], GRADES[grade], OFFLINES[offline], billing_sla=False
    )


def _cell(policy: Policy, levels: dict[Place, tuple[int, int]], place: Place) -> Cell:
    level, row = levels[place]
    odd = False
    for feature in range(len(place)):
        more = (*place[:feature], place[feature] + 1, *place[feature + 1 :])
        lower = levels.get((more[0], more[1], more[2], more[3]))
        odd = odd or (lower is not None and lower[0] < level)
    return Cell(level, policy.lane_of(level), row, odd)
