"""What travels to a browser: every field by name, nothing else.

A socket gets one ``Snapshot`` and then ``Update``s. An update tells what is newer than the
frame ``since`` that this socket had: the present figures whole, the chart points that changed
(a point replaces the one of the same time), and the new lines of the feed. Applying it to
that state gives exactly what a fresh snapshot would say. Times are ms since the epoch.
"""

import msgspec


class LaneNow(msgspec.Struct, forbid_unknown_fields=True):
    """One lane now: requests, waits in ms over the last minute, finished per second over the
    last ten; ``finished``, ``refused``, ``paused`` (for another request) and ``promoted`` are
    counts over the span of the history."""

    queued: int
    running: int
    p50: float
    p95: float
    p99: float
    per_s: float
    finished: int
    refused: int
    paused: int
    promoted: int


class ReplicaNow(msgspec.Struct, forbid_unknown_fields=True):
    """One replica now; ratios 0-1, null where not measured."""

    name: str
    pool: str
    engine: str
    state: str
    running: int
    slots: int
    gpu: float | None
    memory: float | None
    queue: int | None
    models: list[str]
    breaker: str
    broken: list[str]


class PoolNow(msgspec.Struct, forbid_unknown_fields=True):
    """One pool now: what runs, the slots of its ready replicas, how many of these there are and
    should be (null: nobody says so)."""

    name: str
    dedicated: bool
    lanes: list[str]
    running: int
    slots: int
    ready: int
    wanted: int | None


class OperationsNow(msgspec.Struct, tag_field="view", tag="operations", forbid_unknown_fields=True):
    """All lanes, pools and replicas, refusals by reason over the span, and tokens per second
    over the last ten. ``pressed``: models whose P0 waits too long. ``predictor_error``: what
    foretold services were off by, by lane, as a ratio of the mean service; null where nothing
    has ended."""

    lanes: dict[str, LaneNow]
    pressed: list[str]
    pools: list[PoolNow]
    replicas: list[ReplicaNow]
    refusals: dict[str, int]
    prompt_per_s: float
    completion_per_s: float
    predictor_error: dict[str, float | None]


class BusinessNow(msgspec.Struct, tag_field="view", tag="business", forbid_unknown_fields=True):
    """One business's own lanes, and its refusals and tokens over the span."""

    business: str
    lanes: dict[str, LaneNow]
    refusals: dict[str, int]
    prompt_tokens: int
    completion_tokens: int


class FeedLine(msgspec.Struct, forbid_unknown_fields=True):
    """One decision as the operators read it."""

    at: int
    kind: str
    text: str
    business: str
    lane: str
    request: str


class OwnFeedLine(msgspec.Struct, forbid_unknown_fields=True):
    """One decision as its business reads it: no free text, which may name somebody else."""

    at: int
    kind: str
    lane: str
    request: str


Now = OperationsNow | BusinessNow
Feed = list[FeedLine] | list[OwnFeedLine]


class Snapshot(msgspec.Struct, tag_field="type", tag="snapshot", forbid_unknown_fields=True):
    """Everything a page needs. ``now`` is null before the scheduler's first frame; ``stale``
    says that its frames have stopped coming."""

    epoch: str
    seq: int
    at: int
    stale: bool
    step_ms: int
    span_ms: int
    feed_keep: int
    now: Now | None
    points: list[list[float]]
    feed: Feed


class Update(msgspec.Struct, tag_field="type", tag="update", forbid_unknown_fields=True):
    """What is newer than frame ``since`` of the same epoch."""

    epoch: str
    since: int
    seq: int
    at: int
    now: Now
    points: list[list[float]]
    feed: Feed
