"""What was spent so far, for the check of monthly budgets."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.db.models import Count, Q, QuerySet, Sum

from metering.core.facts import LANES
from metering.core.tariff import Tariff, Used
from metering.models import UsageRecord

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Nothing produced costs nothing, but for what a replica had its work with all the same.
_COUNTED = (
    Q(status__in=["ok", "client_error", "client_disconnect"], dispatched_at__isnull=False)
    | Q(prompt_tokens__gt=0)
    | Q(completion_tokens__gt=0)
)


def load_tariff() -> Tariff:
    """The prices of now."""
    return Tariff()


def load_spent(
    since: int,
    before: int,
    businesses: Sequence[str],
    keys: Sequence[tuple[str, str]],
) -> tuple[Tariff, Mapping[str, Decimal], Mapping[tuple[str, str], Decimal]]:
    """The prices of now, and by them what these businesses and keys (business, prefix) have
    spent with requests received from ``since`` on and finished before ``before`` (ns)."""
    tariff = load_tariff()
    rows = UsageRecord.objects.filter(
        received_at__gte=_moment(since),
        finished_at__lt=_moment(before),
        business__in={*businesses, *(business for business, _ in keys)},
        lane__in=LANES,
    ).filter(_COUNTED)
    by_business = _sums(rows.filter(business__in=businesses), tariff, "business")
    of_keys = rows.filter(key_prefix__in={prefix for _, prefix in keys})
    by_key = _sums(of_keys, tariff, "business", "key_prefix")
    return (
        tariff,
        {name: by_business.get((name,), Decimal(0)) for name in businesses},
        {key: by_key.get(key, Decimal(0)) for key in keys},
    )


def _sums(
    rows: "QuerySet[UsageRecord]", tariff: Tariff, *names: str
) -> dict[tuple[str, ...], Decimal]:
    """Money by the values of these columns."""
    groups = rows.values(*names, "requested_model", "lane").annotate(
        prompt=Sum("prompt_tokens"),
        cached=Sum("cached_tokens"),
        completion=Sum("completion_tokens"),
        seconds=Sum("gpu_seconds"),
        requests=Count("pk"),
    )
    found: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for row in groups:
        used = Used(row["prompt"], row["cached"], row["completion"], row["seconds"])
        lane = LANES.index(row["lane"])
        cost = tariff.cost(row["requested_model"], lane, used, row["requests"])
        found[tuple(row[name] for name in names)] += cost
    return found


def _moment(ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ns // 1000)
