"""What a run took, and whom it turned away: cards, and refusals by reason."""

from collections import Counter
from itertools import pairwise
from typing import TypedDict

from scheduler.core.decisions import Reason

from .measures import ratio
from .records import Records
from .scheduling import Outcome

# By the names that callers are told.
REASONS: dict[Outcome, str] = {
    Outcome.QUOTA: "rate_limit_requests",
    Outcome.TIMEOUT: Reason.QUEUE_TIMEOUT.value,
    Outcome.REFUSED: "refused",
    Outcome.FAILED: Reason.UPSTREAM_ERROR.value,
    Outcome.QUEUE_FULL: Reason.QUEUE_FULL.value,
    Outcome.CONCURRENCY: Reason.CONCURRENCY_EXCEEDED.value,
    Outcome.NO_CAPACITY: Reason.NO_CAPACITY.value,
    Outcome.SUSPENDED: Reason.TENANT_SUSPENDED.value,
    Outcome.LATENCY_BUDGET: Reason.LATENCY_BUDGET.value,
    Outcome.BACKPRESSURE: Reason.BACKPRESSURE.value,
}


class CardFigures(TypedDict):
    """``card_seconds`` are cards that load, serve or drain, times the seconds that they do, over
    the ``seconds`` from the beginning until the last request ended."""

    card_seconds: int
    seconds: int
    mean: float | None
    most: int
    least: int
    started: int
    given_back: int


def cards(records: Records) -> CardFigures:
    """The cards of a run."""
    used, seconds = records.cards[-1], len(records.cards) - 1
    each = [after - before for before, after in pairwise(records.cards)]
    return {
        "card_seconds": used,
        "seconds": seconds,
        "mean": ratio(used, seconds),
        "most": max(each, default=0),
        "least": min(each, default=0),
        "started": records.started,
        "given_back": records.given_back,
    }


def refusals(records: Records) -> dict[str, int]:
    """Requests that ended unserved, by reason; reasons that were never given are left out."""
    counted = Counter(records.outcome)
    return {name: counted[outcome] for outcome, name in REASONS.items() if counted[outcome]}
