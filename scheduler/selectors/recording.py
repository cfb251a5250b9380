"""What came in a window, out of usage rows and the decision log."""

from datetime import UTC, datetime, timedelta

from django.db.models import Value
from django.db.models.functions import Coalesce, NullIf

from metering.core.facts import LANES
from metering.models import UsageRecord
from scheduler.core.decisions import Reason
from scheduler.models import DecisionLog
from scheduler.whatif.recording import Asked, Recording, ReplicaChange

LEAD = timedelta(seconds=120)
MOST_REQUESTS = 500_000
CHUNK = 5_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS = (
    "business",
    "ran",
    "operation",
    "stream",
    "claimed",
    "base_level",
    "level",
    "lane",
    "status",
    "reason",
    "received_at",
    "dispatched_at",
    "first_byte_at",
    "finished_at",
    "prompt_tokens",
    "completion_tokens",
    "attempts",
    "preempted",
    "replica",
)
# What the scheduler itself refuses; rates and budgets turn requests away before it.
REFUSED = frozenset(reason.value for reason in Reason)


class TooMuchTrafficError(ValueError):
    """The window holds more requests than one run may have."""


def load_recording(begin: datetime, end: datetime, *, most: int = MOST_REQUESTS) -> Recording:
    """The requests that reached the scheduler from two minutes before ``begin`` to ``end``.

    Two queries. Raises TooMuchTrafficError beyond ``most`` requests.
    """
    rows = (
        UsageRecord.objects.filter(received_at__gte=begin - LEAD, received_at__lt=end)
        .exclude(lane="")
        # The model that ran: how long that takes is what was measured.
        .annotate(ran=Coalesce(NullIf("degraded_to", Value("")), "requested_model"))
        .order_by("received_at", "pk")
        .values_list(*_FIELDS)
    )
    found: list[Asked] = []
    for row in rows[: most + 1].iterator(CHUNK):
        asked = _asked(*row)
        if asked is not None:
            found.append(asked)
    if len(found) > most:
        raise TooMuchTrafficError(f"more than {most} requests: choose a shorter window")
    # The earlier part of a busy machine's clock may run into the later: order is what counts.
    found.sort(key=lambda asked: asked.arrived)
    return Recording(_ns(begin), _ns(end), tuple(found), _changes(end))


def _asked(
    business: str,
    model: str,
    operation: str,
    stream: bool,
    claimed: str,
    base: int | None,
    level: int | None,
    lane: str,
    status: str,
    reason: str,
    received: datetime,
    dispatched: datetime | None,
    first: datetime | None,
    finished: datetime,
    prompt: int,
    output: int,
    attempts: int,
    preempted: int,
    replica: str,
) -> Asked | None:
    """None for a request that the scheduler never saw."""
    left = status == "client_disconnect"
    refused = reason if dispatched is None and reason in REFUSED else ""
    if dispatched is None and not refused and not left:
        return None
    generative = operation != "embeddings"
    slot = _ns(finished) - _ns(dispatched) if dispatched and attempts == 1 and not preempted else 0
    return Asked(
        business=business,
        model=model,
        arrived=_ns(received),
        lane=LANES.index(lane),
        level=level or 0,
        base=base or 0,
        claim=claimed,
        generative=generative,
        continues=generative and (stream or lane == LANES[-1]),
        streamed=generative and stream,
        dispatched=_ns(dispatched),
        finished=_ns(finished),
        seen=_ns(first) - _ns(dispatched) if first and dispatched else 0,
        service=max(0, slot),
        replica=replica,
        prompt=prompt,
        output=output,
        left=left or (dispatched is not None and status != "ok"),
        timed_out=refused == Reason.QUEUE_TIMEOUT.value,
        refused=refused,
    )


def _changes(end: datetime) -> tuple[ReplicaChange, ...]:
    """What was found of replicas up to the window's end, as far as the log reaches back."""
    rows = (
        DecisionLog.objects.filter(kind=DecisionLog.Kind.REPLICA, request="", at__lt=end)
        .order_by("at", "pk")
        .values_list("at", "replica", "reason")
    )
    return tuple(ReplicaChange(_ns(at), name, state == "ready") for at, name, state in rows)


def _ns(moment: datetime | None) -> int:
    """ns since the epoch, to the microsecond that Postgres keeps; 0 for no moment."""
    return 0 if moment is None else (moment - _EPOCH) // timedelta(microseconds=1) * 1000
