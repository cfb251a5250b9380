"""Sections about lanes: which levels they hold and what each queue may use."""

from dataclasses import dataclass, field

from .spec import Section, choice, flag, group, levels, millis, number, pool, share, whole

BANDS = ("by_level", "single")
BUDGET_ON = ("first_token", "completion")


@dataclass(frozen=True, slots=True)
class Lanes(Section):
    """Inclusive level ranges of the lanes: 0-9 without gap or overlap."""

    P0: tuple[int, int] = levels(0, 2, "Levels of the high-priority lane.")
    P1: tuple[int, int] = levels(3, 6, "Levels of the latency-controlled lane.")
    P2: tuple[int, int] = levels(7, 9, "Levels of the low and offline lane.")


@dataclass(frozen=True, slots=True)
class Bands(Section):
    """Whether levels are served strictly one after the other inside a lane."""

    P0: str = choice("by_level", BANDS, "P0: one band a level, or one band with levels scored.")
    P1: str = choice("single", BANDS, "P1: one band a level, or one band with levels scored.")
    P2: str = choice("single", BANDS, "P2: one band a level, or one band with levels scored.")


@dataclass(frozen=True, slots=True)
class P0Queue(Section):
    """The high-priority lane's queue."""

    dedicated_pool: str | None = pool("Pool kept for P0; none: every dedicated pool.")
    overflow: bool = flag(True, "Use elastic pools too when the dedicated ones are full.")
    preempt: bool = flag(True, "May take slots back from running P2 work.")
    min_bandwidth: float = share(
        0.4, "Share of a shared pool's slots that P0 gets as soon as it can use them."
    )
    max_queue: int = whole(
        5000,
        "Longest queue, about 1 KB of memory a request; beyond it a business is refused that has "
        "more than an even part of it.",
        least=1,
    )
    max_queue_tokens: int = whole(
        10_000_000,
        "Most tokens of context that its requests ask for, about 4 bytes of memory each.",
        "tokens",
        least=1,
        most=10**10,
    )
    queue_timeout_ms: int = millis(30_000, "Longest time in the queue.")
    on_timeout: str = choice(
        "refuse", ("refuse", "move_down"), "After that time: refuse, or move to the next lane."
    )
    latency_budget_ms: int | None = millis(
        10_000, "Time in which an answer is due, for requests that state none."
    )
    budget_on: str = choice("first_token", BUDGET_ON, "What the budget is measured to.")
    weight: float = number(8.0, "Part of the lane in mode weighted.", above=0.0)

    @property
    def pool(self) -> str | None:
        """The pool named for this lane."""
        return self.dedicated_pool

    @property
    def min_share(self) -> float:
        """Least share of slot time in mode weighted: the reserved bandwidth."""
        return self.min_bandwidth


@dataclass(frozen=True, slots=True)
class P1Queue(Section):
    """The latency-controlled lane's queue."""

    shared_pool: str | None = pool("Pool that P1 shares; none: every elastic pool.")
    preempt: bool = flag(False, "May take slots back from running P2 work.")
    max_queue: int = whole(
        20_000,
        "Longest queue, about 1 KB of memory a request; beyond it a business is refused that has "
        "more than an even part of it.",
        least=1,
    )
    max_queue_tokens: int = whole(
        40_000_000,
        "Most tokens of context that its requests ask for, about 4 bytes of memory each.",
        "tokens",
        least=1,
        most=10**10,
    )
    queue_timeout_ms: int = millis(120_000, "Longest time in the queue.")
    on_timeout: str = choice(
        "refuse", ("refuse", "move_down"), "After that time: refuse, or move to the next lane."
    )
    latency_budget_ms: int | None = millis(
        60_000, "Time in which an answer is due, for requests that state none."
    )
    budget_on: str = choice("first_token", BUDGET_ON, "What the budget is measured to.")
    weight: float = number(3.0, "Part of the lane in mode weighted.", above=0.0)
    min_share: float = share(0.1, "Least share of slot time in mode weighted.")

    @property
    def pool(self) -> str | None:
        """The pool named for this lane."""
        return self.shared_pool


@dataclass(frozen=True, slots=True)
class P2Queue(Section):
    """The queue of low and offline work."""

    shared_pool: str | None = pool("Pool that P2 shares; none: every elastic pool.")
    max_occupy: float = share(0.3, "Most of a shared pool's slots that P2 may hold.")
    borrow: bool = flag(True, "Go beyond that share while nobody else wants the slots.")
    max_queue: int = whole(
        250_000,
        "Longest queue, about 1 KB of memory a request; beyond it a business is refused that has "
        "more than an even part of it.",
        least=1,
    )
    max_queue_tokens: int = whole(
        100_000_000,
        "Most tokens of context that its requests ask for, about 4 bytes of memory each.",
        "tokens",
        least=1,
        most=10**10,
    )
    max_wait_ms: int = millis(90_000, "After this wait a request is overdue and may be promoted.")
    queue_timeout_ms: int = millis(3_600_000, "Longest time in the queue.")
    on_timeout: str = choice("refuse", ("refuse",), "After that time: refuse; no lane is lower.")
    latency_budget_ms: int | None = millis(
        None, "Time in which an answer is due, for requests that state none; null: any time."
    )
    weight: float = number(1.0, "Part of the lane in mode weighted.", above=0.0)
    min_share: float = share(0.05, "Least share of slot time in mode weighted.")

    @property
    def pool(self) -> str | None:
        """The pool named for this lane."""
        return self.shared_pool

    @property
    def preempt(self) -> bool:
        """Never: nothing runs below this lane."""
        return False

    @property
    def budget_on(self) -> str:
        """What a budget that a request brings along is measured to."""
        return "first_token"


Queue = P0Queue | P1Queue | P2Queue


@dataclass(frozen=True, slots=True)
class Queues(Section):
    """One queue a lane."""

    P0: P0Queue = field(default_factory=P0Queue, metadata=group(P0Queue, "High priority."))
    P1: P1Queue = field(default_factory=P1Queue, metadata=group(P1Queue, "Latency-controlled."))
    P2: P2Queue = field(default_factory=P2Queue, metadata=group(P2Queue, "Low and offline."))


@dataclass(frozen=True, slots=True)
class Starvation(Section):
    """How overdue P2 work is helped."""

    pool_share: float = share(
        0.1, "Share of a pool's slots offered to overdue P2 first, where replicas share models."
    )


@dataclass(frozen=True, slots=True)
class Lending(Section):
    """Idle dedicated slots for P2."""

    enabled: bool = flag(False, "Run P2 work on idle slots of dedicated pools.")
    keep_free: int = whole(1, "Idle slots that are never lent.", "slots")


@dataclass(frozen=True, slots=True)
class Order(Section):
    """Weights of the key that orders requests; later arrivals get new weights."""

    level: float = number(1.0, "Weight of a request's level.")
    expected_service: float = number(0.2, "Weight of the expected service time.")
    deadline: float = number(0.5, "Weight of the time left to the deadline.")
    fairness: float = number(1.0, "Weight of what a business has used, between businesses.")
    drop_rate: float = number(0.5, "Weight of recent refusals, between businesses.")
