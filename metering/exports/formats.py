"""The kinds of files that a bill can be downloaded as."""

from collections.abc import Callable
from dataclasses import dataclass

from metering.selectors.bills import BillDocument

from .pdf import as_pdf
from .sheet import as_xlsx
from .text import as_csv, as_json


@dataclass(frozen=True, slots=True)
class Format:
    """``render`` makes the whole file."""

    suffix: str
    content_type: str
    render: Callable[[BillDocument], bytes]


FORMATS = {
    kind.suffix: kind
    for kind in (
        Format("pdf", "application/pdf", as_pdf),
        Format(
            "xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", as_xlsx
        ),
        Format("csv", "text/csv; charset=utf-8", as_csv),
        Format("json", "application/json", as_json),
    )
}


def render(document: BillDocument, suffix: str) -> bytes:
    """The bill as a file. Raises KeyError for a suffix that is not in FORMATS."""
    return FORMATS[suffix].render(document)


def filename(document: BillDocument, suffix: str) -> str:
    """A name that is unique among all bills, of plain letters."""
    return f"{document.month:%Y-%m}-{document.business}-{document.number}.{suffix}"
