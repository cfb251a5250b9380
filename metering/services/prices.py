"""New versions of the prices. A version is never edited; another one follows it."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import connection, transaction

from metering.core.prices import ModelPrices, PriceList
from metering.errors import BillingRequestError
from metering.models import ModelPrice, PriceBook, UsageRecord
from metering.models.prices import MULTIPLIER_PLACES, PRICE_PLACES
from metering.services import audit

# Twelve digits before the point, as in the table.
MOST = Decimal(10) ** 12
MOST_MULTIPLIER = Decimal(10) ** 6


def set_prices(
    prices: PriceList,
    *,
    starts_at: datetime | None = None,
    note: str = "",
    actor: AbstractBaseUser | None = None,
    source: str = "console",
) -> PriceBook:
    """Add a version of all prices; ``prices.version`` is not looked at.

    It begins at ``starts_at``, or at once. Usage rows wait for the moment that this takes: a row
    lands either before, priced by the version before, or sees this one. Raises
    BillingRequestError for a start that lies in the past (unless no request was accepted since),
    or not after the latest version's, and for negative, too large or too finely divided prices.
    """
    _check(prices)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE metering_pricebook IN EXCLUSIVE MODE")
            cursor.execute("LOCK TABLE metering_usagerecord IN SHARE MODE")
            cursor.execute("SELECT clock_timestamp()")
            row = cursor.fetchone()
        assert row is not None
        start = _start(starts_at, row[0])
        latest = PriceBook.objects.order_by("-version").first()
        if latest is not None and start <= latest.starts_at:
            raise BillingRequestError(
                f"version {latest.version} begins at {latest.starts_at.isoformat()} only:"
                " the next one must begin later"
            )
        book = PriceBook.objects.create(
            version=1 if latest is None else latest.version + 1,
            starts_at=start,
            note=note.strip()[:200],
            prices_count=len(prices.models),
            preemption_credit=prices.preemption_credit,
            preemption_surcharge=prices.preemption_surcharge,
            created_by_id=None if actor is None else actor.pk,
        )
        ModelPrice.objects.bulk_create(_rows(book, prices.models))
        audit.record(
            "prices.set",
            actor=actor,
            source=source,
            target=f"version {book.version}",
            starts_at=start.isoformat(),
            models=sorted(prices.models),
        )
    return book


def withdraw_prices(
    book: PriceBook, *, actor: AbstractBaseUser | None = None, source: str = "console"
) -> None:
    """Take back a version that has not begun; the one before it then goes on. Raises
    BillingRequestError for one that has."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            # No row may be priced by it meanwhile.
            cursor.execute("LOCK TABLE metering_pricebook IN EXCLUSIVE MODE")
            cursor.execute("LOCK TABLE metering_usagerecord IN SHARE MODE")
            cursor.execute("SELECT clock_timestamp()")
            row = cursor.fetchone()
        assert row is not None
        if book.starts_at <= row[0]:
            raise BillingRequestError(f"version {book.version} has begun and stays")
        ModelPrice.objects.filter(book=book).delete()
        PriceBook.objects.filter(pk=book.pk).delete()
        audit.record(
            "prices.withdraw", actor=actor, source=source, target=f"version {book.version}"
        )


def _start(wanted: datetime | None, now: datetime) -> datetime:
    """When a version begins; ``now`` is after the last row that has landed."""
    if wanted is None:
        return now
    if wanted < now and UsageRecord.objects.filter(received_at__gte=wanted).exists():
        raise BillingRequestError(
            "requests were accepted since: prices cannot change for what is past"
        )
    return wanted


def _rows(book: PriceBook, prices: Mapping[str, ModelPrices]) -> list[ModelPrice]:
    return [
        ModelPrice(
            book=book,
            model=model,
            prompt=of.prompt,
            cached=of.cached,
            completion=of.completion,
            gpu_second=of.gpu_second,
            request=of.request,
            p0=of.multipliers[0],
            p1=of.multipliers[1],
            p2=of.multipliers[2],
        )
        for model, of in sorted(prices.items())
    ]


def _check(prices: PriceList) -> None:
    _amount("preemption credit", prices.preemption_credit)
    _amount("preemption surcharge", prices.preemption_surcharge)
    for model, of in prices.models.items():
        name = model or "other models"
        if len(model) > 200:
            raise BillingRequestError("a model's name has at most 200 characters")
        _amount(f"{name}: prompt tokens", of.prompt)
        _amount(f"{name}: completion tokens", of.completion)
        _amount(f"{name}: GPU-second", of.gpu_second)
        _amount(f"{name}: request", of.request)
        if of.cached is not None:
            _amount(f"{name}: cached tokens", of.cached)
        for lane, multiplier in enumerate(of.multipliers):
            _amount(
                f"{name}: multiplier of P{lane}", multiplier, MULTIPLIER_PLACES, MOST_MULTIPLIER
            )


def _amount(what: str, value: Decimal, places: int = PRICE_PLACES, most: Decimal = MOST) -> None:
    if not value.is_finite() or not 0 <= value < most:
        raise BillingRequestError(f"{what}: from 0 to below {most:f}")
    if value != round(value, places):
        raise BillingRequestError(f"{what}: at most {places} decimal places")
