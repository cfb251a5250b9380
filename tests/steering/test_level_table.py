"""The whole table from features to levels, with what is odd about it."""

from dataclasses import replace

from scheduler.core.policy import MappingRow, Policy
from scheduler.level_table import LevelTable, level_table


def table(*rows: MappingRow) -> LevelTable:
    classification = replace(Policy().classification, mapping=rows)
    return level_table(replace(Policy(), classification=classification))


def test_the_built_in_rule_is_whole_and_in_order() -> None:
    found = table()
    assert len(found.lines) == 6
    assert {len(line.cells) for line in found.lines} == {9}
    first = found.lines[0]
    assert (first.realtime, first.offline) == ("high", False)
    assert [cell.level for cell in first.cells] == [0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert [cell.lane for cell in first.cells] == [0, 0, 0, 0, 0, 0, 0, 0, 1]
    cells = [cell for line in found.lines for cell in line.cells]
    assert not any(cell.odd for cell in cells)
    assert {cell.row for cell in cells} == {0}


def test_rows_are_shown_where_they_hold_and_odd_ones_marked() -> None:
    found = table(MappingRow(grade="vip", level=5))
    vip, premium = found.lines[0].cells[0], found.lines[0].cells[3]
    assert (vip.level, vip.row, vip.odd) == (5, 1, True)
    assert (premium.level, premium.row, premium.odd) == (1, 0, False)


def test_a_row_that_nothing_reaches_is_named() -> None:
    rows = (MappingRow(grade="vip", level=1), MappingRow(grade="vip", offline=True, level=7))
    assert table(*rows).shadowed == (2,)
    assert table(*reversed(rows)).shadowed == ()
