"""CSV and JSON."""

import csv
import io
import json
from dataclasses import asdict
from datetime import date
from decimal import Decimal

from metering.selectors.bills import BillDocument

from .columns import HEADINGS, Cell, cells, head, number, plain


def as_csv(document: BillDocument) -> bytes:
    """The lines with their headings, then credit notes and what is due; UTF-8 with a mark, by
    which spreadsheets know it."""
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    for row in head(document):
        writer.writerow([plain(text) for text in row])
    writer.writerow([])
    writer.writerow(HEADINGS)
    for line in document.lines:
        row_cells = cells(line)
        # To the smallest unit, as the bill shows it.
        writer.writerow([*(_cell(cell) for cell in row_cells[:-1]), f"{line.amount:f}"])
    blank = [""] * (len(HEADINGS) - 2)
    writer.writerow(["Total", *blank, f"{document.total:f}"])
    for note in document.notes:
        writer.writerow(
            [f"Credit note {note.label}", plain(note.reason), *blank[1:], f"{-note.amount:f}"]
        )
    writer.writerow(["Due", *blank, f"{document.due:f}"])
    return file.getvalue().encode("utf-8-sig")


def as_json(document: BillDocument) -> bytes:
    """Everything; money and GPU-seconds as strings, so that no reader rounds them."""
    fields = asdict(document)
    fields["days"] = [{"day": day, "amount": amount} for day, amount in document.days]
    return json.dumps(fields, default=_plain, ensure_ascii=False, indent=2).encode()


def _cell(cell: Cell) -> str | int:
    if isinstance(cell, Decimal):
        return number(cell)
    return plain(cell) if isinstance(cell, str) else cell


def _plain(value: object) -> str:
    if isinstance(value, Decimal):
        return number(value)
    assert isinstance(value, date)
    return value.isoformat()
