"""Prices as they were, are and will be."""

from datetime import datetime

from django.db.models import QuerySet

from metering.core.prices import ModelPrices, PriceList
from metering.models import PriceBook


def price_books() -> QuerySet[PriceBook]:
    """All versions with their prices, the newest first."""
    return PriceBook.objects.prefetch_related("prices")


def price_list(book: PriceBook) -> PriceList:
    """A version as what costs are computed with."""
    return PriceList(
        version=book.version,
        models={
            row.model: ModelPrices(
                prompt=row.prompt,
                cached=row.cached,
                completion=row.completion,
                gpu_second=row.gpu_second,
                request=row.request,
                multipliers=(row.p0, row.p1, row.p2),
            )
            for row in book.prices.all()
        },
        preemption_credit=book.preemption_credit,
        preemption_surcharge=book.preemption_surcharge,
    )


def prices_at(moment: datetime) -> PriceList:
    """What a request that is accepted at ``moment`` is priced by; free before the first version."""
    book = price_books().filter(starts_at__lte=moment).order_by("-starts_at").first()
    return PriceList() if book is None else price_list(book)
