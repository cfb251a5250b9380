"""XLSX."""

import io
import re
from decimal import Decimal

from openpyxl import Workbook
from openpyxl.cell import Cell as SheetCell
from openpyxl.cell import MergedCell
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet

from metering.selectors.bills import BillDocument

from .columns import HEADINGS, Cell, cells, head

BOLD = Font(bold=True)
SHADE = PatternFill("solid", start_color="E8EDF3")
# XML has no such characters.
UNWRITABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
WHOLE, EXACT = "#,##0", "#,##0.00######"


def as_xlsx(document: BillDocument) -> bytes:
    """Two sheets: the bill's lines, and the amount of each day."""
    book = Workbook()
    sheet = book.active
    assert isinstance(sheet, Worksheet)
    sheet.title = "Bill"
    _fill_bill(sheet, document)
    days = book.create_sheet("Days")
    _row(days, 1, ["Day", f"Amount ({document.currency})"], bold=True)
    for number, (day, amount) in enumerate(document.days, 2):
        _row(days, number, [day.isoformat(), amount])
    days.column_dimensions["A"].width = days.column_dimensions["B"].width = 18
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def _fill_bill(sheet: Worksheet, document: BillDocument) -> None:
    money = "#,##0" + ("." + "0" * document.places if document.places else "")
    at = 1
    for at, (what, value) in enumerate(head(document), 1):
        _row(sheet, at, [what, value])
        sheet.cell(at, 1).font = BOLD
    at += 2
    _row(sheet, at, list(HEADINGS), bold=True)
    for column in range(1, len(HEADINGS) + 1):
        sheet.cell(at, column).fill = SHADE
        sheet.cell(at, column).alignment = Alignment(wrap_text=True, vertical="top")
        sheet.column_dimensions[get_column_letter(column)].width = 16
    sheet.freeze_panes = f"A{at + 1}"
    last = len(HEADINGS)
    for line in document.lines:
        at += 1
        _row(sheet, at, cells(line))
        sheet.cell(at, last).number_format = money
    closing: list[tuple[str, str, Decimal]] = [("Total", "", document.total)]
    closing += [(f"Credit note {n.label}", n.reason, -n.amount) for n in document.notes]
    closing.append(("Due", "", document.due))
    for what, text, amount in closing:
        at += 1
        _row(sheet, at, [what, text], bold=what in {"Total", "Due"})
        _set(sheet.cell(at, last), amount)
        sheet.cell(at, last).number_format = money
        sheet.cell(at, last).font = BOLD


def _row(sheet: Worksheet, row: int, values: list[Cell], *, bold: bool = False) -> None:
    for column, value in enumerate(values, 1):
        _set(sheet.cell(row, column), value)
        if bold:
            sheet.cell(row, column).font = BOLD


def _set(cell: SheetCell | MergedCell, value: Cell) -> None:
    """Text stays text, whatever it begins with."""
    assert isinstance(cell, SheetCell)
    if isinstance(value, str):
        cell.value = UNWRITABLE.sub("", value)
        cell.data_type = "s"
    else:
        cell.value = value
        cell.number_format = EXACT if isinstance(value, Decimal) else WHOLE
