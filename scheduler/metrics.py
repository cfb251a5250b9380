"""Prometheus metrics, all under ``fairlane_``. README's table of them is tested."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from metering.core.usage import UsageRow

MOST_BUSINESSES = 500
OTHER = "other"
WAITS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """One process's registry. Labels that come from callers are bounded in number."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._names: set[str] = set()
        self._children: dict[tuple[object, ...], Counter | Histogram] = {}
        registry = self.registry
        self.queue_depth = Gauge(
            "fairlane_queue_depth", "Requests waiting.", ["lane"], registry=registry
        )
        self.running = Gauge(
            "fairlane_running", "Requests running.", ["lane", "pool"], registry=registry
        )
        self.replica_state = Gauge(
            "fairlane_replica_state",
            "1 for the state that the replica is in.",
            ["replica", "state"],
            registry=registry,
        )
        self.journal_pending = Gauge(
            "fairlane_usage_journal_pending", "Usage rows not yet in Postgres.", registry=registry
        )
        self._queue_wait = Histogram(
            "fairlane_queue_wait_seconds",
            "Arrival to dispatch.",
            ["lane"],
            buckets=WAITS,
            registry=registry,
        )
        self._duration = Histogram(
            "fairlane_request_duration_seconds",
            "Arrival to end, of requests that ran.",
            ["lane"],
            buckets=WAITS,
            registry=registry,
        )
        self._first_token = Histogram(
            "fairlane_time_to_first_token_seconds",
            "Arrival to the first byte of the answer.",
            ["lane"],
            buckets=WAITS,
            registry=registry,
        )
        self._requests = Counter(
            "fairlane_requests",
            "Requests that ended.",
            ["business", "lane", "outcome"],
            registry=registry,
        )
        self._tokens = Counter(
            "fairlane_tokens", "Tokens used.", ["business", "kind"], registry=registry
        )
        self._rejections = Counter(
            "fairlane_rejections", "Refusals.", ["lane", "reason"], registry=registry
        )
        self._escalations = Counter(
            "fairlane_escalations_denied",
            "Claims above the caller's ceiling.",
            ["business"],
            registry=registry,
        )

    def queue_wait(self, lane: str, seconds: float) -> None:
        """A request was dispatched."""
        self._observe(self._queue_wait, seconds, lane)

    def escalation(self, business: str) -> None:
        """A claim was cut down or refused."""
        self._escalations.labels(self._business(business)).inc()

    def finished(self, row: UsageRow) -> None:
        """A request ended."""
        business = self._business(row.business)
        self._inc(self._requests, 1, business, row.lane, row.status)
        if row.dispatched:
            self._observe(self._duration, (row.finished - row.received) / 1e9, row.lane)
        elif row.reason:
            self._inc(self._rejections, 1, row.lane, row.reason)
        if row.first_byte:
            self._observe(self._first_token, (row.first_byte - row.received) / 1e9, row.lane)
        if row.prompt_tokens:
            self._inc(self._tokens, row.prompt_tokens, business, "prompt")
        if row.completion_tokens:
            self._inc(self._tokens, row.completion_tokens, business, "completion")

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def _business(self, name: str) -> str:
        if name in self._names:
            return name
        if len(self._names) >= MOST_BUSINESSES:
            return OTHER
        self._names.add(name)
        return name

    def _inc(self, counter: Counter, amount: float, *labels: str) -> None:
        key = (id(counter), *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = counter.labels(*labels)
        assert isinstance(child, Counter)
        child.inc(amount)

    def _observe(self, histogram: Histogram, value: float, lane: str) -> None:
        key = (id(histogram), lane)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = histogram.labels(lane)
        assert isinstance(child, Histogram)
        child.observe(value)
