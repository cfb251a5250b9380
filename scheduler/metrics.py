"""Prometheus metrics, all under ``fairlane_``. README's table of them is tested."""

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from metering.core.usage import UsageRow

MOST_BUSINESSES = 500
OTHER = "other"
WAITS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
BOUNDS = (*(str(float(bound)) for bound in WAITS), "+Inf")


class Counts:
    """A counter by labels, cheap to raise: made into samples when somebody asks.

    The client library's own counters and histograms take a lock and walk their buckets at
    each of the ten changes that a request makes; here one event loop makes them all.
    """

    def __init__(self, name: str, text: str, labels: tuple[str, ...]) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._values: dict[tuple[str, ...], float] = {}

    def add(self, amount: float, *labels: str) -> None:
        """Raise one counter."""
        self._values[labels] = self._values.get(labels, 0.0) + amount

    def family(self) -> Metric:
        """All of them as they stand."""
        found = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in self._values.items():
            found.add_metric(labels, value)
        return found


class Times:
    """A histogram of seconds by lane, as cheap."""

    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}

    def observe(self, lane: str, seconds: float) -> None:
        """Count one time into its bucket."""
        counts = self._counts.get(lane)
        if counts is None:
            counts = self._counts[lane] = [0] * len(BOUNDS)
            self._sums[lane] = 0.0
        counts[bisect_left(WAITS, seconds)] += 1
        self._sums[lane] += seconds

    def family(self) -> Metric:
        """All lanes as they stand; a bucket holds what is no longer than its bound."""
        found = HistogramMetricFamily(self._name, self._text, labels=("lane",))
        for lane, counts in self._counts.items():
            buckets, total = [], 0
            for bound, count in zip(BOUNDS, counts, strict=True):
                total += count
                buckets.append((bound, float(total)))
            found.add_metric((lane,), buckets, self._sums[lane])
        return found


class Metrics(Collector):
    """One process's registry. Labels that come from callers are bounded in number."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._names: set[str] = set()
        self.queue_depth = self._gauge("queue_depth", "Requests waiting.", "lane")
        self.running = self._gauge("running", "Requests running.", "lane", "pool")
        self.replica_state = self._gauge(
            "replica_state", "1 for the state that the replica is in.", "replica", "state"
        )
        self.replica_gpu = self._gauge(
            "replica_gpu_util_ratio", "GPU time in use, by the replica's own figures.", "replica"
        )
        self.replica_memory = self._gauge(
            "replica_memory_util_ratio", "KV or card memory in use, likewise.", "replica"
        )
        self.replica_queue = self._gauge(
            "replica_queue_depth", "Requests waiting inside the replica, likewise.", "replica"
        )
        self.journal_pending = self._gauge(
            "usage_journal_pending", "Usage rows not yet in Postgres."
        )
        self.reconciliation_differences = self._gauge(
            "reconciliation_differences", "Differences between usage rows, statements and bills."
        )
        self._queue_wait = Times("fairlane_queue_wait_seconds", "Arrival to dispatch.")
        self._duration = Times(
            "fairlane_request_duration_seconds", "Arrival to end, of requests that ran."
        )
        self._first_token = Times(
            "fairlane_time_to_first_token_seconds", "Arrival to the first byte of the answer."
        )
        self._requests = Counts(
            "fairlane_requests", "Requests that ended.", ("business", "lane", "outcome")
        )
        self._tokens = Counts("fairlane_tokens", "Tokens used.", ("business", "kind"))
        self._rejections = Counts("fairlane_rejections", "Refusals.", ("lane", "reason"))
        self._escalations = Counts(
            "fairlane_escalations_denied", "Claims above the caller's ceiling.", ("business",)
        )
        self._add_predictor()
        self._add_scaling()
        self._add_rare()
        self.registry.register(self)

    def _add_predictor(self) -> None:
        """What was foretold, held against what came."""
        self.predictor_error = self._gauge(
            "predictor_error_ratio",
            "Median error of the foretold service over the mean service, last minute.",
            "lane",
        )
        self._service_error = Times(
            "fairlane_predicted_service_error_seconds",
            "What the service foretold at dispatch was off by.",
        )
        self._latency_error = Times(
            "fairlane_predicted_latency_error_seconds", "The same of wait and service together."
        )

    def _add_scaling(self) -> None:
        """What is done because P0 waits, and how many replicas there should be."""
        self.backpressure = self._gauge(
            "backpressure_active", "1 while this is done because P0 waits too long.", "action"
        )
        self.p0_waits = self._gauge(
            "backpressure_wait_seconds",
            "How long P0 of a model waits that waits too long.",
            "model",
        )
        self.desired = self._gauge(
            "scale_desired_replicas", "Replicas that the pool should have.", "pool"
        )
        self.scale_ready = self._gauge(
            "scale_ready_replicas", "Replicas that it had ready when that was found.", "pool"
        )

    def _add_rare(self) -> None:
        """Events so rare that the client library's own counters will do."""
        self._preemptions = Counter(
            "fairlane_preemptions",
            "Running requests told to stop for others, by what came of it.",
            ("pool", "outcome"),
            registry=self.registry,
        )
        self._preemption_gain = self._seconds(
            "preemption_gain_seconds", "Weighted time that a preemption was expected to save."
        )
        self._preemption_cost = self._seconds(
            "preemption_cost_seconds", "Weighted time that a preemption was expected to cost."
        )
        self._promotions = Counter(
            "fairlane_promotions", "Overdue requests put first.", ("lane",), registry=self.registry
        )

    def collect(self) -> Iterator[Metric]:
        """What is counted here, for the registry."""
        for times in (
            self._queue_wait,
            self._duration,
            self._first_token,
            self._service_error,
            self._latency_error,
        ):
            yield times.family()
        for counts in (self._requests, self._tokens, self._rejections, self._escalations):
            yield counts.family()

    def queue_wait(self, lane: str, seconds: float) -> None:
        """A request was dispatched."""
        self._queue_wait.observe(lane, seconds)

    def foretold(self, lane: str, service: float, latency: float) -> None:
        """A request has ended; seconds by which its predictions were off."""
        self._service_error.observe(lane, service)
        self._latency_error.observe(lane, latency)

    def escalation(self, business: str) -> None:
        """A claim was cut down or refused."""
        self._escalations.add(1, self._business(business))

    def preempting(self, gain: float, cost: float) -> None:
        """A preemption was decided on; seconds."""
        self._preemption_gain.observe(gain)
        self._preemption_cost.observe(cost)

    def preemption(self, pool: str, outcome: str) -> None:
        """A preemption is over."""
        self._preemptions.labels(pool, outcome).inc()

    def promoted(self, lane: str) -> None:
        """An overdue request was put first."""
        self._promotions.labels(lane).inc()

    def finished(self, row: UsageRow) -> None:
        """A request ended."""
        business = self._business(row.business)
        self._requests.add(1, business, row.lane, row.status)
        if row.dispatched:
            self._duration.observe(row.lane, (row.finished - row.received) / 1e9)
        elif row.reason:
            self._rejections.add(1, row.lane, row.reason)
        if row.first_byte:
            self._first_token.observe(row.lane, (row.first_byte - row.received) / 1e9)
        if row.prompt_tokens:
            self._tokens.add(row.prompt_tokens, business, "prompt")
        if row.completion_tokens:
            self._tokens.add(row.completion_tokens, business, "completion")

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"fairlane_{name}", text, labels, registry=self.registry)

    def _seconds(self, name: str, text: str) -> Histogram:
        return Histogram(f"fairlane_{name}", text, buckets=WAITS, registry=self.registry)

    def _business(self, name: str) -> str:
        if name in self._names:
            return name
        if len(self._names) >= MOST_BUSINESSES:
            return OTHER
        self._names.add(name)
        return name
