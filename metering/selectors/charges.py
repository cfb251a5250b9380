"""What one request comes to."""

from decimal import Decimal

from metering.core.prices import Used, cost, is_billed
from metering.models import UsageRecord
from metering.selectors.prices import prices_at

PLACES = Decimal("0.000001")


def charge_of(row: UsageRecord) -> Decimal | None:
    """The charge of a request by the prices of when it came, to six decimal places of the
    billing currency; None for one that is not charged. At most two queries."""
    if not is_billed(row.status, row.dispatched_at is not None, row.completion_tokens):
        return None
    used = Used(
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        completion_tokens=row.completion_tokens,
        gpu_seconds=Decimal(repr(row.gpu_seconds)),
        preempted=row.preempted,
        displaced=1 if row.displaced else 0,
    )
    prices = prices_at(row.received_at)
    return cost(prices, row.degraded_to or row.requested_model, row.lane, used).amount.quantize(
        PLACES
    )
