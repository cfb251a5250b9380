"""``python -m bench.limits BUSINESS``: prices for everything, and a key of the business that has
every limit there is, each far above what the benchmark needs. Prints the key."""

import sys
from dataclasses import asdict
from decimal import Decimal

import django

django.setup()

# Only a Django that is set up has models.
from metering.core.prices import ModelPrices, PriceList  # noqa: E402
from metering.core.quotas import Limits  # noqa: E402
from metering.models import Business  # noqa: E402
from metering.services.keys import create_key  # noqa: E402
from metering.services.prices import set_prices  # noqa: E402
from metering.services.quotas import set_key_quota, set_quota  # noqa: E402

PRICE = ModelPrices(
    prompt=Decimal("0.5"),
    cached=Decimal("0.1"),
    completion=Decimal(2),
    gpu_second=Decimal("0.001"),
    request=Decimal("0.0001"),
)
WIDE = Limits(
    requests_per_s=1e6,
    burst=10**6,
    tokens_per_min=10**12,
    running=10**6,
    queued=10**6,
    gpu_share=1.0,
    monthly_budget=Decimal(10**9),
)


def main(name: str) -> None:
    """All of it, for this business."""
    set_prices(PriceList(models={"": PRICE}), source="bench")
    business = Business.objects.get(name=name)
    # A share of the GPUs is left out here: the upstream answers at once, and the load would use
    # all there are.
    wide = asdict(WIDE) | {"gpu_share": None}
    set_quota(business, wide, actor=None, operations=True, source="bench")
    key, secret = create_key(business, "limited", actor=None, source="bench")
    set_key_quota(key, wide, actor=None, source="bench")
    sys.stdout.write(secret)


if __name__ == "__main__":
    main(sys.argv[1])
