"""What the tables of a bill have in common, whatever file they are in."""

from collections.abc import Iterator
from decimal import Decimal
from zoneinfo import ZoneInfo

from metering.selectors.bills import BillDocument, DocumentLine

Cell = str | int | Decimal
NEVER_RAN = "(never ran)"
# What a spreadsheet takes for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")

HEADINGS = (
    *("Kind", "Month", "Lane", "Model", "Calls", "Charged calls", "Prompt tokens"),
    *("Cached tokens", "Completion tokens", "GPU-seconds", "Preemptions suffered"),
    *("Preemptions caused", "Charge", "Credit", "Surcharge", "Amount"),
)


def cells(line: DocumentLine) -> list[Cell]:
    """A line in the order of HEADINGS."""
    return [
        line.kind,
        f"{line.usage_month:%Y-%m}",
        line.lane,
        line.model or NEVER_RAN,
        line.requests,
        line.billed_requests,
        line.prompt_tokens,
        line.cached_tokens,
        line.completion_tokens,
        line.gpu_seconds,
        line.preempted,
        line.displaced,
        line.charge,
        line.credit,
        line.surcharge,
        line.amount,
    ]


def head(document: BillDocument) -> Iterator[tuple[str, str]]:
    """What stands above the lines."""
    yield "Bill", document.number
    yield "Business", document.business
    yield "Month", f"{document.month:%Y-%m} ({document.timezone})"
    zone = ZoneInfo(document.timezone)
    for what, moment in (
        ("From", document.starts_at),
        ("To", document.ends_at),
        ("Issued", document.issued_at),
    ):
        yield what, moment.astimezone(zone).isoformat(sep=" ", timespec="seconds")
    yield "Prices", document.prices
    yield "Currency", document.currency


def plain(text: str) -> str:
    """``text`` as a cell that no spreadsheet runs as a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def number(value: Decimal) -> str:
    """A decimal without an exponent or needless zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
