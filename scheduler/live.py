"""The live frame: what the scheduler publishes once a second, whoever watches.

One frame goes to the channel group ``LIVE_GROUP`` as
``{"type": "live.frame", "frame": frame.as_dict()}``. The console's hub keeps the last
fifteen minutes and fans out; it alone decides who may see what.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec

LIVE_GROUP = "live"


@dataclass(slots=True)
class LaneLive:
    """One lane: requests waiting and running now; waits in ms over the last minute's dispatches;
    ``dispatched``, ``finished``, ``refused``, ``paused`` (stopped for another) and ``promoted``
    are counts since the frame before."""

    queued: int = 0
    running: int = 0
    wait_p50_ms: float = 0.0
    wait_p95_ms: float = 0.0
    wait_p99_ms: float = 0.0
    dispatched: int = 0
    finished: int = 0
    refused: int = 0
    paused: int = 0
    promoted: int = 0


@dataclass(slots=True)
class PoolLive:
    """One pool: requests running and slots that are there for them now. ``lanes`` are names.
    ``ready`` replicas take work, ``wanted`` should (None: nobody says so)."""

    name: str
    dedicated: bool
    lanes: list[str]
    running: int
    slots: int
    ready: int = 0
    wanted: int | None = None


@dataclass(slots=True)
class ReplicaLive:
    """One replica: ``state`` is ready, down, draining or unknown; ``breaker`` is closed, open
    (it could not be reached, or every model of it failed several times in a row), partly open
    ("partly": some models did) or busy (it said so itself); ``broken`` are the models that are
    left alone there; utilisations are ratios 0-1, None where not measured."""

    name: str
    pool: str
    engine: str
    state: str
    running: int
    slots: int
    gpu: float | None = None
    memory: float | None = None
    queue: int | None = None
    models: list[str] = field(default_factory=list)
    breaker: str = "closed"
    broken: list[str] = field(default_factory=list)


@dataclass(slots=True)
class BusinessLive:
    """One business: the same figures, its own alone. ``lanes`` has P0, P1 and P2."""

    lanes: dict[str, LaneLive]
    refusals: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(slots=True)
class FeedItem:
    """One decision worth telling. ``kind`` is dispatch, finish, refuse, expire, retry,
    replica, preempt, degrade, or a notice's; ``at`` is ms since the epoch; ``business`` is empty
    for the fleet's own."""

    at: int
    kind: str
    text: str
    business: str = ""
    lane: str = ""
    request: str = ""


@dataclass(slots=True)
class LiveFrame:
    """The state at ``at`` (ms since the epoch); ``seq`` rises by one a frame and starts anew
    with each ``epoch`` (a string made when the scheduler starts). ``pressed``: models whose
    P0 waits too long, and about which the policy says what is done. ``predictor_error`` by lane is
    a ratio of the mean service (None: nothing has ended in the last minute)."""

    epoch: str
    seq: int
    at: int
    lanes: dict[str, LaneLive]
    replicas: list[ReplicaLive]
    businesses: dict[str, BusinessLive]
    refusals: dict[str, int] = field(default_factory=dict)
    feed: list[FeedItem] = field(default_factory=list)
    pools: list[PoolLive] = field(default_factory=list)
    pressed: list[str] = field(default_factory=list)
    predictor_error: dict[str, float | None] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, numbers and strings, fit for JSON and the channel layer."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
