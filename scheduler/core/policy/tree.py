"""The root of the policy tree."""

from dataclasses import dataclass, field

from .queues import Bands, Lanes, Lending, Order, Queue, Queues, Starvation
from .service import (
    Admission,
    Backpressure,
    Classification,
    ColdStart,
    Failover,
    Feedback,
    Paths,
    Placement,
    Preemption,
    TenantBreaker,
)
from .spec import MOST_LEVEL, Section, choice, group, number, seconds, whole

MODES = ("strict", "weighted", "fifo")


@dataclass(frozen=True, slots=True)
class Policy(Section):
    """One complete policy. Building one checks nothing: see ``rules.problems``."""

    mode: str = choice("strict", MODES, "How lanes share slots: strictly, by weight, by arrival.")
    tick_ms: int = whole(
        20, "Time between two looks at what only time brings.", "ms", most=1000, least=1
    )
    lanes: Lanes = field(default_factory=Lanes, metadata=group(Lanes, "Levels of each lane."))
    bands: Bands = field(
        default_factory=Bands, metadata=group(Bands, "Order of levels inside a lane.")
    )
    queues: Queues = field(
        default_factory=Queues, metadata=group(Queues, "What each lane may use.")
    )
    starvation: Starvation = field(
        default_factory=Starvation, metadata=group(Starvation, "How overdue P2 work is helped.")
    )
    lending: Lending = field(
        default_factory=Lending, metadata=group(Lending, "Idle dedicated slots for P2.")
    )
    order: Order = field(
        default_factory=Order,
        metadata=group(Order, "Weights of the order inside and between queues."),
    )
    classification: Classification = field(
        default_factory=Classification, metadata=group(Classification, "From features to a level.")
    )
    feedback: Feedback = field(
        default_factory=Feedback,
        metadata=group(Feedback, "Weight and levels changed by what was measured."),
    )
    placement: Placement = field(
        default_factory=Placement, metadata=group(Placement, "Which replica a request goes to.")
    )
    admission: Admission = field(
        default_factory=Admission,
        metadata=group(Admission, "What is decided before a request is queued."),
    )
    preemption: Preemption = field(
        default_factory=Preemption,
        metadata=group(Preemption, "When running P2 work is paused for P0."),
    )
    failover: Failover = field(
        default_factory=Failover,
        metadata=group(Failover, "Time limits, retries, and breakers of replicas."),
    )
    paths: Paths = field(
        default_factory=Paths, metadata=group(Paths, "Hot and cold replicas of a model.")
    )
    tenant_breaker: TenantBreaker = field(
        default_factory=TenantBreaker,
        metadata=group(TenantBreaker, "When a business is suspended."),
    )
    cold_start: ColdStart = field(
        default_factory=ColdStart, metadata=group(ColdStart, "Models that no replica has ready.")
    )
    backpressure: Backpressure = field(
        default_factory=Backpressure,
        metadata=group(Backpressure, "What happens when P0 waits too long."),
    )
    keepalive_s: float = seconds(
        15.0, "Longest silence on a stream that waits; then a comment line.", most=15.0
    )
    header_hold_s: float = number(
        10.0, "Response headers wait this long for dispatch, then comments begin.", "s", most=60.0
    )
    _lane_table: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _least_table: tuple[int, int, int] = field(init=False, repr=False, compare=False)
    _queue_table: tuple[Queue, Queue, Queue] = field(init=False, repr=False, compare=False)
    _by_level: tuple[bool, bool, bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Precompute the look-ups that every event makes."""
        ranges = (self.lanes.P0, self.lanes.P1)
        table = tuple(
            next((lane for lane, (least, most) in enumerate(ranges) if least <= level <= most), 2)
            for level in range(MOST_LEVEL + 1)
        )
        object.__setattr__(self, "_lane_table", table)
        least = (self.lanes.P0[0], self.lanes.P1[0], self.lanes.P2[0])
        object.__setattr__(self, "_least_table", least)
        queues = (self.queues.P0, self.queues.P1, self.queues.P2)
        object.__setattr__(self, "_queue_table", queues)
        bands = (self.bands.P0, self.bands.P1, self.bands.P2)
        by_level = tuple(band == "by_level" and self.mode != "fifo" for band in bands)
        object.__setattr__(self, "_by_level", by_level)

    def lane_of(self, level: int) -> int:
        """The lane index (0 most urgent) of a level 0-9."""
        return self._lane_table[level]

    def least_level(self, lane: int) -> int:
        """The most urgent level of a lane."""
        return self._least_table[lane]

    def by_level(self, lane: int) -> bool:
        """Whether the lane serves its levels strictly one after the other."""
        return self._by_level[lane]

    def queue(self, lane: int) -> Queue:
        """The queue of a lane index."""
        return self._queue_table[lane]
