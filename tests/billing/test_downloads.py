"""A bill as files: the same figures in each, and no formula that a caller could plant."""

import base64
import csv
import io
import json
import re
import zipfile
import zlib
from datetime import date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import openpyxl
import pytest

from metering.errors import BillingRequestError
from metering.exports import FORMATS, filename, render
from metering.models import Bill, BillArchive
from metering.selectors.bills import BillDocument, bill_document
from metering.services.archives import drop_old_archives, make_archives, request_archive
from metering.services.bills import credit
from metering.services.month_close import close_month

from .world import price_all, used

pytestmark = pytest.mark.django_db

SHANGHAI = ZoneInfo("Asia/Shanghai")
MARCH, APRIL = date(2026, 3, 1), date(2026, 4, 1)
NOON = datetime(2026, 3, 10, 12, tzinfo=SHANGHAI)
EVIL = ["=1+1", "+1", "-1", "@SUM(A1)", '=HYPERLINK("http://x","y")', "\t=1", "\x0b=1", "对话 <b>&"]


def document() -> BillDocument:
    """A bill with models of ugly names, a late row and a credit note."""
    price_all()
    for day in range(20):
        used(NOON + timedelta(days=day), completion_tokens=100_000 + 7919 * day, preempted=day % 2)
    close_month(MARCH, now=NOON + timedelta(days=25))
    used(NOON)
    for name in EVIL:
        used(NOON + timedelta(days=31), requested_model=name, lane="P0")
    close_month(APRIL, now=NOON + timedelta(days=60))
    bill = Bill.objects.get(month=MARCH)
    credit(bill, Decimal("1.25"), "=cmd|' /C calc'!A0", actor=None)
    later = Bill.objects.get(month=APRIL)
    credit(later, Decimal("0.01"), "+rounding", actor=None)
    return bill_document(later, 2)


def test_csv_runs_nothing_and_adds_up() -> None:
    shown = document()
    rows = list(csv.reader(io.StringIO(render(shown, "csv").decode("utf-8-sig"))))
    start = next(i for i, row in enumerate(rows) if row and row[0] == "Kind")
    lines = rows[start + 1 : start + 1 + len(shown.lines)]
    assert sum(Decimal(line[-1]) for line in lines) == shown.total
    assert {line[3] for line in lines if line[0] == "usage"} == {
        *("'=1+1", "'+1", "'-1", "'@SUM(A1)", '\'=HYPERLINK("http://x","y")'),
        *("'\t=1", "\x0b=1", "对话 <b>&"),
    }
    for row in rows:
        for cell in row:
            assert not cell.startswith(("=", "+", "@", "\t"))
            assert not cell.startswith("-") or Decimal(cell) < 0
    assert rows[-1][-1] == str(shown.due)


def test_xlsx_opens_with_the_same_figures() -> None:
    shown = document()
    book = openpyxl.load_workbook(io.BytesIO(render(shown, "xlsx")))
    sheet = book["Bill"]
    assert [cell.coordinate for row in sheet for cell in row if cell.data_type == "f"] == []
    kinds = [row for row in sheet.iter_rows(values_only=True) if row[0] in {"usage", "adjustment"}]
    assert len(kinds) == len(shown.lines) == 9
    assert sum(Decimal(str(row[-1])) for row in kinds) == shown.total
    closing = {str(row[0]): row for row in sheet.iter_rows(values_only=True)}
    assert Decimal(str(closing["Due"][-1])) == shown.due
    assert closing["Credit note C-000002"][1] == "+rounding"
    days = list(book["Days"].iter_rows(min_row=2, values_only=True))
    assert len(days) == 30
    assert days[9][0] == "2026-04-10"


def test_json_is_exact() -> None:
    shown = document()
    read = json.loads(render(shown, "json"))
    assert sum(Decimal(line["amount"]) for line in read["lines"]) == Decimal(read["total"])
    assert read["business"] == "risk-audit"
    assert read["notes"][0]["reason"] == "+rounding"
    assert Decimal(read["lines"][0]["charge"]) == shown.lines[0].charge
    assert sum(Decimal(day["amount"]) for day in read["days"]) == sum(d[1] for d in shown.days)


def words(pdf: bytes) -> str:
    """The text that a PDF of ours draws."""
    found = []
    for stream in re.findall(rb"stream\r?\n(.*?)endstream", pdf, re.DOTALL):
        data = stream.strip()
        if data.endswith(b"~>"):
            drawn = zlib.decompress(base64.a85decode(b"<~" + data, adobe=True))
            found += [text.decode("latin-1") for text in re.findall(rb"\((.*?)(?<!\\)\) Tj", drawn)]
    return " ".join(found)


def test_pdf_shows_the_figures() -> None:
    shown = document()
    pdf = render(shown, "pdf")
    assert pdf.startswith(b"%PDF-")
    text = words(pdf)
    assert shown.number in text
    assert f"{shown.total:,.2f} CNY" in text
    assert f"{shown.due:,.2f} CNY" in text
    assert "late from 2026-03" in text
    for line in shown.lines:
        assert f"{line.completion_tokens:,}" in text
    # A long bill goes on over pages.
    many = type(shown)(
        **{name: getattr(shown, name) for name in shown.__slots__} | {"lines": shown.lines * 20}
    )
    assert "Page 3" in words(render(many, "pdf"))


def test_a_zip_of_a_month_with_progress() -> None:
    with pytest.raises(BillingRequestError, match="not issued"):
        request_archive(MARCH, actor=None)
    document()
    archive = request_archive(APRIL, actor=None)
    assert request_archive(APRIL, actor=None) == archive
    assert (archive.state, archive.done, archive.total) == ("waiting", 0, 1)
    assert make_archives() == 1
    assert make_archives() == 0
    archive.refresh_from_db()
    assert (archive.state, archive.done, archive.total) == ("ready", 1, 1)
    assert archive.content is not None
    shown = bill_document(Bill.objects.get(month=APRIL), 2)
    with zipfile.ZipFile(io.BytesIO(archive.content)) as pack:
        assert sorted(pack.namelist()) == sorted(filename(shown, suffix) for suffix in FORMATS)
        assert json.loads(pack.read(filename(shown, "json")))["number"] == shown.number
    BillArchive.objects.update(created_at=NOON)
    assert drop_old_archives() == 1


def test_a_zip_whose_maker_died_is_made_by_the_next() -> None:
    document()
    archive = request_archive(MARCH, actor=None)
    BillArchive.objects.update(state="running", done=0)
    assert make_archives() == 0
    BillArchive.objects.update(touched_at=NOON)
    assert make_archives() == 1
    archive.refresh_from_db()
    assert archive.state == "ready"
