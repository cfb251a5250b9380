"""What a business used over a window of time."""

from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Aggregate, Count, FloatField, Q, QuerySet, Sum

from metering.core.facts import LANES
from metering.models import UsageRecord

Status = UsageRecord.Status

# Turned away before it ran, and by whose rules the page may tell.
TURNED_AWAY = (Status.REFUSED, Status.QUEUE_TIMEOUT, Status.SHUTTING_DOWN)
BROKEN = (Status.UPSTREAM_ERROR, Status.UPSTREAM_TIMEOUT, Status.INTERNAL_ERROR)


class Percentile(Aggregate):
    """Postgres's continuous percentile of a column; ``ratio`` is 0-1."""

    function = "PERCENTILE_CONT"
    name = "percentile"
    output_field = FloatField()
    template = "%(function)s(%(ratio)s) WITHIN GROUP (ORDER BY %(expressions)s)"

    def __init__(self, expression: str, ratio: float) -> None:
        super().__init__(expression, ratio=float(ratio))


@dataclass(frozen=True, slots=True)
class LaneUsage:
    """Requests of one lane that were dispatched, and how long they waited for it (ms)."""

    lane: str
    requests: int = 0
    wait_p50_ms: float = 0.0
    wait_p95_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Usage:
    """One business over one window. Tokens are what the engines counted; ``refusals`` has
    each reason with its count, the commonest first. ``paused`` counts how often its requests were
    paused for others, ``displaced`` those of its requests that made others pause."""

    requests: int = 0
    succeeded: int = 0
    turned_away: int = 0
    broken: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    paused: int = 0
    displaced: int = 0
    lanes: list[LaneUsage] = field(default_factory=list)
    refusals: list[tuple[str, int]] = field(default_factory=list)


def usage_of(business: str, since: datetime) -> Usage:
    """What ``business`` asked for and got since then; three queries."""
    rows = UsageRecord.objects.filter(business=business, received_at__gte=since)
    totals = rows.aggregate(
        requests=Count("pk"),
        succeeded=Count("pk", filter=Q(status=Status.OK)),
        turned_away=Count("pk", filter=Q(status__in=TURNED_AWAY)),
        broken=Count("pk", filter=Q(status__in=BROKEN)),
        prompt_tokens=Sum("prompt_tokens", default=0),
        completion_tokens=Sum("completion_tokens", default=0),
        paused=Sum("preempted", default=0),
        displaced=Count("pk", filter=~Q(displaced="")),
    )
    return Usage(**totals, lanes=_lanes(business, since), refusals=_refusals(business, since))


def recent_requests(business: str, limit: int) -> QuerySet[UsageRecord]:
    """The newest finished requests of ``business``, newest first."""
    return UsageRecord.objects.filter(business=business).order_by("-received_at")[:limit]


def _lanes(business: str, since: datetime) -> list[LaneUsage]:
    """All lanes, also those with nothing in them."""
    rows = (
        UsageRecord.objects.filter(
            business=business, received_at__gte=since, dispatched_at__isnull=False
        )
        .values("lane")
        .annotate(
            requests=Count("pk"),
            p50=Percentile("queue_wait_ms", 0.5),
            p95=Percentile("queue_wait_ms", 0.95),
        )
    )
    found = {
        row["lane"]: LaneUsage(row["lane"], row["requests"], row["p50"], row["p95"]) for row in rows
    }
    return [found.get(lane, LaneUsage(lane)) for lane in LANES]


def _refusals(business: str, since: datetime) -> list[tuple[str, int]]:
    rows = (
        UsageRecord.objects.filter(
            business=business, received_at__gte=since, status__in=TURNED_AWAY
        )
        .values_list("reason")
        .annotate(count=Count("pk"))
        .order_by("-count", "reason")
    )
    return [(str(reason), int(count)) for reason, count in rows]
