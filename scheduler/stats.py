"""Running figures for the live feed: counts since the last frame, waits of the last minute."""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median

from metering.core.facts import LANES
from metering.core.usage import UsageRow

from .calls import Call
from .core.decisions import Degrade, Dispatch, Notice, Preempt, Promote
from .core.ticket import Ticket
from .decision_log.recorder import ABOUT_BUSINESSES
from .live import FeedItem, LaneLive
from .metrics import Metrics

MINUTE = 60_000_000_000
# All of these are put in order once a second, while requests stand still.
MOST_WAITS = 5000
MOST_WAITS_OF_BUSINESS = 500
MOST_FORETOLD = 1000
MOST_FEED = 40


def percentiles(values: Iterable[float]) -> tuple[float, float, float]:
    """P50, P95 and P99 by nearest rank; zeros for no values."""
    ordered = sorted(values)
    if not ordered:
        return 0.0, 0.0, 0.0
    last = len(ordered) - 1
    return (
        ordered[round(0.50 * last)],
        ordered[round(0.95 * last)],
        ordered[round(0.99 * last)],
    )


@dataclass(slots=True)
class LaneStats:
    """One lane: the newest waits as (when ns, ms), and counts since the last ``take``. The
    newest ``foretold`` requests are (when, error of the foretold service, true service), ns."""

    waits: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=MOST_WAITS))
    foretold: deque[tuple[int, int, int]] = field(
        default_factory=lambda: deque(maxlen=MOST_FORETOLD)
    )
    dispatched: int = 0
    finished: int = 0
    refused: int = 0
    paused: int = 0
    promoted: int = 0

    def error(self, now: int) -> float | None:
        """The predictor's error over the last minute: the median of what foretold services were
        off by, over the mean service. None: nothing has ended."""
        while self.foretold and self.foretold[0][0] < now - MINUTE:
            self.foretold.popleft()
        if not self.foretold:
            return None
        total = sum(service for _, _, service in self.foretold)
        middle = median(error for _, error, _ in self.foretold)
        return middle * len(self.foretold) / max(1, total)

    def take(self, now: int, queued: int, running: int) -> LaneLive:
        """The lane's part of a frame; the counts start anew."""
        while self.waits and self.waits[0][0] < now - MINUTE:
            self.waits.popleft()
        p50, p95, p99 = percentiles(wait for _, wait in self.waits)
        live = LaneLive(
            queued,
            running,
            p50,
            p95,
            p99,
            self.dispatched,
            self.finished,
            self.refused,
            self.paused,
            self.promoted,
        )
        self.dispatched = self.finished = self.refused = self.paused = self.promoted = 0
        return live


@dataclass(slots=True)
class BusinessStats:
    """One business: its lanes, and counts since the last frame."""

    lanes: dict[str, LaneStats] = field(
        default_factory=lambda: {
            name: LaneStats(deque(maxlen=MOST_WAITS_OF_BUSINESS)) for name in LANES
        }
    )
    refusals: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    touched: int = 0


class Stats:
    """Everything the live frame and /metrics count. Written by actor and gateway; all times are
    the process clock's, the feed's too."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.lanes = {name: LaneStats() for name in LANES}
        self.businesses: dict[str, BusinessStats] = defaultdict(BusinessStats)
        self.refusals: dict[str, int] = {}
        self.feed: deque[FeedItem] = deque(maxlen=MOST_FEED)

    def dispatched(self, ticket: Ticket, decision: Dispatch, now: int) -> None:
        """A request got its slot."""
        lane, wait = LANES[ticket.lane], decision.waited / 1e6
        for stats in (self.lanes[lane], self.businesses[ticket.business].lanes[lane]):
            stats.waits.append((now, wait))
            stats.dispatched += 1
        self.metrics.queue_wait(lane, decision.waited / 1e9)
        if len(self.feed) == MOST_FEED:
            # A busy second shows its first dispatches; what is rarer than they finds room.
            return
        self.feed.append(
            FeedItem(
                at=now // 1_000_000,
                kind="retry" if decision.attempt > 1 else "dispatch",
                text=f"{lane} to {decision.replica} after {wait:.0f} ms",
                business=ticket.business,
                lane=lane,
                request=ticket.id,
            )
        )

    def foretold(self, call: Call, now: int) -> None:
        """A request ran from end to end in one attempt: was it as foretold?"""
        lane, service, ticket = LANES[call.ticket.lane], now - call.began, call.ticket
        error = abs(call.foreseen - service)
        total = abs(call.foreseen_wait + call.foreseen - (now - ticket.arrived))
        self.lanes[lane].foretold.append((now, error, service))
        self.metrics.foretold(lane, error / 1e9, total / 1e9)

    def preempted(self, call: Call, decision: Preempt, now: int) -> None:
        """A running attempt was told to stop for a more urgent one."""
        business, lane = call.ticket.business, LANES[call.ticket.lane]
        self.metrics.preempting(decision.gain / 1e9, decision.cost / 1e9)
        for stats in (self.lanes[lane], self.businesses[business].lanes[lane]):
            stats.paused += 1
        text = (
            f"paused on {decision.replica} for another request, "
            f"gain {decision.gain // 1_000_000} ms, cost {decision.cost // 1_000_000} ms"
        )
        at = now // 1_000_000
        self.feed.append(FeedItem(at, "preempt", text, business, lane, decision.request))

    def degraded(self, call: Call, decision: Degrade, now: int) -> None:
        """A lighter model answers."""
        ticket = call.ticket
        text = f"{decision.model} answers for {ticket.model}: {decision.reason.value}"
        at, lane = now // 1_000_000, LANES[ticket.lane]
        self.feed.append(FeedItem(at, "degrade", text, ticket.business, lane, ticket.id))

    def promoted(self, call: Call, decision: Promote, now: int) -> None:
        """The starvation guard gave an overdue request a slot."""
        business, lane = call.ticket.business, LANES[call.ticket.lane]
        self.metrics.promoted(lane)
        for stats in (self.lanes[lane], self.businesses[business].lanes[lane]):
            stats.promoted += 1
        text = f"promoted after {decision.waited / 1e9:.1f} s"
        at = now // 1_000_000
        self.feed.append(FeedItem(at, "promote", text, business, lane, decision.request))

    def tripped(self, replica: str, now: int) -> None:
        """A replica was taken out."""
        self.feed.append(FeedItem(now // 1_000_000, "replica", f"{replica} is unreachable"))

    def noticed(self, notice: Notice, now: int) -> None:
        """The scheduler has changed its ways."""
        text = f"{notice.name} {notice.kind.value}: {notice.cause}"
        business = notice.name.partition("/")[0] if notice.kind in ABOUT_BUSINESSES else ""
        self.feed.append(FeedItem(now // 1_000_000, notice.kind.value, text, business))

    def replica_state(self, replica: str, state: str, now: int) -> None:
        """A replica's state as probes found it."""
        self.feed.append(FeedItem(now // 1_000_000, "replica", f"{replica} is {state}"))

    def finished(self, row: UsageRow, now: int) -> None:
        """A request came to its one end."""
        business = self.businesses[row.business]
        business.touched = now
        business.prompt_tokens += row.prompt_tokens
        business.completion_tokens += row.completion_tokens
        self.metrics.finished(row)
        served = row.dispatched > 0
        if row.lane:
            for stats in (self.lanes[row.lane], business.lanes[row.lane]):
                if served:
                    stats.finished += 1
                else:
                    stats.refused += 1
        if row.status == "ok":
            return
        if not served and row.reason:
            for counts in (self.refusals, business.refusals):
                counts[row.reason] = counts.get(row.reason, 0) + 1
        kind = "expire" if row.reason == "queue_timeout" else "refuse" if not served else "finish"
        self.feed.append(
            FeedItem(
                at=now // 1_000_000,
                kind=kind,
                text=f"{row.status}{': ' + row.reason if row.reason else ''}",
                business=row.business,
                lane=row.lane,
                request=row.id,
            )
        )
