"""Prices of the demo: made up, so that statements and bills have something to show."""

from decimal import Decimal

from metering.core.prices import ModelPrices, PriceList
from metering.models import PriceBook
from metering.services.prices import set_prices

SOURCE = "demo"
LANES = (Decimal("1.5"), Decimal(1), Decimal("0.5"))
PRICES = PriceList(
    models={
        "chat": ModelPrices(
            prompt=Decimal(4),
            cached=Decimal(1),
            completion=Decimal(16),
            gpu_second=Decimal("0.002"),
            multipliers=LANES,
        ),
        "": ModelPrices(prompt=Decimal(1), completion=Decimal(4), multipliers=LANES),
    },
    preemption_credit=Decimal("0.001"),
    preemption_surcharge=Decimal("0.001"),
)


def price_demo() -> None:
    """Begin with the demo's prices, where there have never been any."""
    if not PriceBook.objects.exists():
        set_prices(PRICES, note="Prices of the demo", source=SOURCE)
