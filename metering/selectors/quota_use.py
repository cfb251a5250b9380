"""How much of its limits a business uses at present."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Count, F, Sum
from django.utils import timezone

from metering.models import UsageRecord

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class RateUse:
    """Over the last minute: requests per second (mean), and tokens of what has finished."""

    requests_per_s: float
    tokens_per_min: int


def rate_use(business: str) -> RateUse:
    """What came in and was used in the last minute; one query."""
    recent = UsageRecord.objects.filter(
        business=business, received_at__gte=timezone.now() - MINUTE
    ).aggregate(
        requests=Count("pk"), tokens=Sum(F("prompt_tokens") + F("completion_tokens"), default=0)
    )
    return RateUse(recent["requests"] / MINUTE.total_seconds(), int(recent["tokens"]))
