"""Bills and credit notes. Both are issued once, with gapless numbers, and never changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import cast

from babel.numbers import get_currency_precision
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction
from django.db.models import F, Max, Min, Sum
from django.db.models.functions import TruncMonth
from django.utils import timezone

from metering.core.periods import next_month
from metering.core.rounding import lines_of, rounded, total
from metering.errors import BillingRequestError
from metering.models import Adjustment, Bill, BillLine, CreditNote, DailyStatement, MonthClose
from metering.services import audit
from metering.services.numbers import next_number
from metering.services.settlement_sql import SUMMED

BILLS, CREDIT_NOTES = "bill", "credit"


def places_of(currency: str) -> int:
    """Decimal places of a currency's smallest unit; 2 for one that nobody knows."""
    return int(get_currency_precision(currency))


def issue_bill(business: str, close: MonthClose) -> Bill | None:
    """The bill of one business for a month that takes no more rows; None if there is one
    already, or nothing to put on it. Of two at once, one waits for the other's number."""
    with transaction.atomic():
        number = next_number(BILLS)
        lines = bill_lines(business, close.month)
        if not lines or Bill.objects.filter(business=business, month=close.month).exists():
            # The number goes back too.
            transaction.set_rollback(True)
            return None
        places = places_of(settings.BILLING_CURRENCY)
        amounts = [line.row.amount for line in lines]
        bill = Bill.objects.create(
            number=number,
            business=business,
            month=close.month,
            starts_at=close.starts_at,
            ends_at=close.ends_at,
            timezone=settings.BILLING_TZ,
            currency=settings.BILLING_CURRENCY,
            total=rounded(total(amounts), places),
            exact=total(amounts),
            lines_count=len(lines),
            first_price=min(_known(line.first_price for line in lines), default=None),
            last_price=max(_known(line.last_price for line in lines), default=None),
            issued_at=timezone.now(),
        )
        for position, (line, amount) in enumerate(
            zip(lines, lines_of(amounts, places), strict=True), 1
        ):
            line.row.bill, line.row.position, line.row.rounded = bill, position, amount
        BillLine.objects.bulk_create([line.row for line in lines])
    return bill


def credit(
    bill: Bill,
    amount: Decimal,
    reason: str,
    *,
    actor: AbstractBaseUser | None,
    source: str = "console",
) -> CreditNote:
    """Give money back on a bill. Raises BillingRequestError for an amount that is not positive,
    finer than the currency or more than what is left of the bill, and for an empty reason."""
    reason = reason.strip()
    if not reason or len(reason) > 500:
        raise BillingRequestError("a credit note needs a reason of at most 500 characters")
    try:
        fits = rounded(amount, places_of(bill.currency)) == amount > 0
    except InvalidOperation:
        fits = False
    if not fits:
        raise BillingRequestError("the amount must be money, more than 0")
    with transaction.atomic():
        # One number after the other, so that two notes never exceed a bill together.
        number = next_number(CREDIT_NOTES)
        given = bill.credit_notes.aggregate(all=Sum("amount", default=Decimal(0)))["all"]
        if given + amount > bill.total:
            raise BillingRequestError(f"only {bill.total - given} is left of bill {bill.label}")
        note = CreditNote.objects.create(
            number=number,
            bill=bill,
            amount=amount,
            reason=reason,
            issued_at=timezone.now(),
            issued_by_id=None if actor is None else actor.pk,
        )
        audit.record(
            "bill.credit",
            actor=actor,
            source=source,
            business=bill.business,
            target=note.label,
            bill=bill.label,
            amount=str(amount),
            reason=reason,
        )
    return note


@dataclass(frozen=True, slots=True)
class Line:
    """A line to be, without its bill; and the price versions that it was made with."""

    row: BillLine
    first_price: int | None
    last_price: int | None


def bill_lines(business: str, month: date) -> list[Line]:
    """What belongs on the bill: the month's statements by lane and model, then what arrived
    after its own month was closed, by that month."""
    statements = DailyStatement.objects.filter(
        business=business, day__gte=month, day__lt=next_month(month)
    ).annotate(usage_month=TruncMonth("day"))
    adjustments = Adjustment.objects.filter(business=business, billed_in=month).annotate(
        usage_month=TruncMonth("day")
    )
    found = []
    for kind, rows in (
        (BillLine.Kind.USAGE, statements.values("usage_month", "lane", "model")),
        (BillLine.Kind.ADJUSTMENT, adjustments.values("usage_month", "lane", "model")),
    ):
        sums = rows.annotate(
            **{f"sum_{name}": Sum(name) for name in SUMMED},
            first=Min("first_price"),
            last=Max("last_price"),
        ).order_by("usage_month", F("lane"), F("model"))
        for row in sums:
            sums_of = cast("dict[str, Decimal]", row)
            figures = {name: sums_of[f"sum_{name}"] for name in SUMMED}
            line = BillLine(
                kind=kind,
                usage_month=row["usage_month"],
                lane=row["lane"],
                model=row["model"],
                **figures,
            )
            found.append(Line(line, row["first"], row["last"]))
    return found


def _known(versions: Iterable[int | None]) -> list[int]:
    return [version for version in versions if version is not None]
