"""Bills and statements for people to look at and to download."""

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from django.db.models import QuerySet, Sum

from metering.core.periods import days_of, first_of, next_month
from metering.core.prices import ZERO
from metering.models import Bill, BillArchive, BillLine, CreditNote, DailyStatement


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """One lane and model. ``charge``, ``credit`` and ``surcharge`` are exact, ``amount`` is
    rounded; ``model`` is empty for requests that never ran."""

    kind: str
    usage_month: date
    lane: str
    model: str
    requests: int
    billed_requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    gpu_seconds: Decimal
    preempted: int
    displaced: int
    charge: Decimal
    credit: Decimal
    surcharge: Decimal
    amount: Decimal


@dataclass(frozen=True, slots=True)
class DocumentNote:
    """A credit note on the bill."""

    label: str
    amount: Decimal
    reason: str
    issued_at: datetime


@dataclass(frozen=True, slots=True)
class BillDocument:
    """Everything that a bill shows. ``days`` has each day of the month with its exact amount;
    ``due`` is the total less the credit notes. Price versions are None for free usage."""

    number: str
    business: str
    month: date
    starts_at: datetime
    ends_at: datetime
    timezone: str
    currency: str
    places: int
    issued_at: datetime
    first_price: int | None
    last_price: int | None
    lines: list[DocumentLine]
    days: list[tuple[date, Decimal]]
    notes: list[DocumentNote]
    total: Decimal
    due: Decimal

    @property
    def prices(self) -> str:
        """The price versions in words."""
        if self.first_price is None or self.last_price is None:
            return "none: free"
        if self.first_price == self.last_price:
            return f"version {self.first_price}"
        return f"versions {self.first_price} to {self.last_price}"


def bills(*, business: str = "", month: date | None = None) -> QuerySet[Bill]:
    """Bills, the newest first; of one business and of one month where given."""
    found = Bill.objects.annotate(credited=Sum("credit_notes__amount", default=ZERO))
    if business:
        found = found.filter(business=business)
    if month is not None:
        found = found.filter(month=first_of(month))
    return found


def statements(business: str, month: date) -> QuerySet[DailyStatement]:
    """A business's statements of one month, by day."""
    month = first_of(month)
    return DailyStatement.objects.filter(
        business=business, day__gte=month, day__lt=next_month(month)
    )


def amounts_by_day(business: str, month: date) -> list[tuple[date, Decimal]]:
    """Each day of the month with its exact amount."""
    rows = statements(business, month).order_by().values("day").annotate(all=Sum("amount"))
    held = {row["day"]: row["all"] for row in rows}
    return [(day, held.get(day, ZERO)) for day in days_of(month)]


def bill_document(bill: Bill, places: int) -> BillDocument:
    """The bill as its downloads show it; ``places`` are its currency's decimal places."""
    notes = list(CreditNote.objects.filter(bill=bill).order_by("number"))
    unit = Decimal(1).scaleb(-places)
    return BillDocument(
        number=bill.label,
        business=bill.business,
        month=bill.month,
        starts_at=bill.starts_at,
        ends_at=bill.ends_at,
        timezone=bill.timezone,
        currency=bill.currency,
        places=places,
        issued_at=bill.issued_at,
        first_price=bill.first_price,
        last_price=bill.last_price,
        lines=[_line(row, unit) for row in BillLine.objects.filter(bill=bill)],
        days=amounts_by_day(bill.business, bill.month),
        notes=[
            DocumentNote(note.label, note.amount.quantize(unit), note.reason, note.issued_at)
            for note in notes
        ],
        total=bill.total.quantize(unit),
        due=(bill.total - sum(note.amount for note in notes)).quantize(unit),
    )


def archives(month: date | None = None) -> QuerySet[BillArchive]:
    """Zips of bills, the newest first, without their content."""
    found = BillArchive.objects.defer("content")
    return found if month is None else found.filter(month=first_of(month))


def _line(row: BillLine, unit: Decimal) -> DocumentLine:
    return DocumentLine(
        kind=row.kind,
        usage_month=row.usage_month,
        lane=row.lane,
        model=row.model,
        requests=row.requests,
        billed_requests=row.billed_requests,
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        completion_tokens=row.completion_tokens,
        gpu_seconds=row.gpu_seconds,
        preempted=row.preempted,
        displaced=row.displaced,
        charge=row.charge,
        credit=row.credit,
        surcharge=row.surcharge,
        amount=row.rounded.quantize(unit),
    )
