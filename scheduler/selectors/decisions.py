"""What was decided about one request, in order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from metering.core.facts import LANES
from scheduler.models import DecisionLog


@dataclass(frozen=True, slots=True)
class DecisionStep:
    """One decision. ``about`` is the request that it was made about: another than the one asked
    for where that one gained by it. ``detail`` is empty for compact rows."""

    at: datetime
    kind: str
    about: str
    other: str
    business: str
    model: str
    lane: str
    level: int | None
    attempt: int
    replica: str
    waited_ms: float
    reason: str
    detail: Mapping[str, object] = field(default_factory=dict)


def story(request: str) -> list[DecisionStep]:
    """Everything that was decided about a request, or at another's expense for it, as far as
    the log reaches back. One query."""
    rows = DecisionLog.objects.filter(Q(request=request) | (Q(other=request) & ~Q(other="")))
    return [_step(row) for row in rows.order_by("at", "pk")]


def _step(row: DecisionLog) -> DecisionStep:
    return DecisionStep(
        at=row.at,
        kind=row.kind,
        about=row.request,
        other=row.other,
        business=row.business,
        model=row.model,
        lane="" if row.lane is None else LANES[row.lane],
        level=row.level,
        attempt=row.attempt,
        replica=row.replica,
        waited_ms=row.waited_ms,
        reason=row.reason,
        detail=row.detail or {},
    )
