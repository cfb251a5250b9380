"""Sections about how requests are placed, admitted, retried and held back."""

from dataclasses import dataclass, field

from .spec import (
    MOST_LEVEL,
    Section,
    choice,
    choices,
    flag,
    group,
    millis,
    number,
    rows,
    seconds,
    share,
    whole,
)

REALTIME = ("high", "medium", "low")
MODEL_WEIGHT = ("light", "medium", "heavy")
GRADE = ("vip", "premium", "basic")
ACTIONS = ("throttle_P2", "refuse_P2", "scale_gpu")


@dataclass(frozen=True, slots=True)
class FeatureDefaults(Section):
    """Features of a request about which nothing else says anything."""

    realtime: str = choice("medium", REALTIME, "How soon somebody waits for the answer.")
    model_weight: str = choice("medium", MODEL_WEIGHT, "How much of a card a request takes.")
    grade: str = choice("basic", GRADE, "How important the tenant is, by contract.")
    offline: bool = flag(False, "Work that nobody waits for.")


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingRow(Section):
    """A level for requests with these features; a feature that is None matches any value."""

    realtime: str | None = choice(None, REALTIME, "Realtime class; null: any.")
    model_weight: str | None = choice(None, MODEL_WEIGHT, "Model weight; null: any.")
    grade: str | None = choice(None, GRADE, "Tenant grade; null: any.")
    offline: bool | None = flag(None, "Offline work or not; null: both.")
    level: int = whole(4, "The level such requests get.", most=MOST_LEVEL, required=True)


@dataclass(frozen=True, slots=True)
class Classification(Section):
    """From features to a level."""

    on_escalation: str = choice(
        "clamp",
        ("clamp", "refuse"),
        "A claim above the caller's ceiling is cut down to it, or refused.",
        aliases=(("reject", "refuse"),),
    )
    defaults: FeatureDefaults = field(
        default_factory=FeatureDefaults, metadata=group(FeatureDefaults, "Features nobody states.")
    )
    mapping: tuple[MappingRow, ...] = rows(
        MappingRow, "Levels by features, before the built-in rule; the first match wins."
    )


@dataclass(frozen=True, slots=True)
class Feedback(Section):
    """Weight and levels changed by what was measured."""

    enabled: bool = flag(True, "Raise and lower work by its measured results.")
    bound: int = whole(2, "Most steps that work is raised or lowered.", "steps", most=9)
    hold_ticks: int = whole(50, "Ticks a cause must hold.", "ticks", least=1)
    window_s: float = seconds(30.0, "Time over which requests are counted.")
    min_requests: int = whole(10, "Requests needed to judge.", least=1)
    p95_factor: float = number(1.3, "P95 over budget by this factor counts as missed.", above=0.0)
    p95_clear: float = number(1.0, "P95 over budget by less than this factor is well again.")
    drop_rate: float = share(0.05, "Refused share above which work is raised.")
    drop_clear: float = share(0.02, "Refused share below which that ends.")
    cost_factor: float = number(
        1.5, "Work that costs this many times what it declares is lowered.", above=0.0
    )
    cost_clear: float = number(1.2, "Below this many times that ends.")
    backlog_s: float = seconds(
        60.0, "Time that a model's queue must take before who fills it is lowered; never P0."
    )
    backlog_clear_s: float = seconds(30.0, "Below this time that ends.")


@dataclass(frozen=True, slots=True)
class ReplicaWeights(Section):
    """Weights of a replica's score."""

    gpu: float = number(0.4, "Weight of idle GPU.")
    memory: float = number(0.2, "Weight of free memory.")
    queue: float = number(0.4, "Weight of a short queue at the replica.")


@dataclass(frozen=True, slots=True)
class Placement(Section):
    """Which replica a request goes to."""

    mode: str = choice(
        "completion",
        ("completion", "score"),
        "Where a request is expected to be done soonest, or by a score of idle replicas.",
    )
    weights: ReplicaWeights = field(
        default_factory=ReplicaWeights,
        metadata=group(ReplicaWeights, "Weights of the replica score."),
    )
    latency_risk: float = number(0.5, "Weight of the risk to miss the budget there.")
    affinity: float = number(0.2, "Bonus of the replica that holds the session's prefix.")
    slot_price: float = number(1.0, "Weight of the price of scarce slots.")
    reprice_s: float = seconds(2.0, "Time between two computations of slot prices.")
    top_k: int = whole(3, "Replicas among which one is drawn.", "replicas", least=1, most=100)
    band: float = number(0.05, "Scores this close to the best take part in the draw.")
    most_share: float = number(
        1.5,
        "Most starts of a second, as times its share by slots, while others have room.",
        least=1.0,
    )
    metrics_every_s: float = seconds(3.0, "Time between two readings of a replica's metrics.")
    metrics_window_s: float = seconds(
        10.0, "Time over which readings are averaged, and after which they are unknown."
    )


@dataclass(frozen=True, slots=True)
class Admission(Section):
    """What is decided before a request is queued."""

    latency_budget: bool = flag(True, "Refuse at once what can't meet its budget.")
    degrade: bool = flag(False, "Try a lighter deployment before refusing.")
    quantile: float = number(
        0.5,
        "A request's own time is foreseen at this quantile: the higher, the sooner it is refused.",
        least=0.01,
        most=0.99,
    )
    probe_every: int = whole(50, "One in so many refusals is admitted as a probe.", least=1)


@dataclass(frozen=True, slots=True)
class PreemptionWeights(Section):
    """What a millisecond of delay counts."""

    P0: float = number(4.0, "Weight of time that P0 gains.", above=0.0)
    P2: float = number(1.0, "Weight of time that the victim loses.")


@dataclass(frozen=True, slots=True)
class Preemption(Section):
    """When running P2 work is paused for P0."""

    enabled: bool = flag(True, "Pause running P2 work where the gain exceeds the cost.")
    margin_ms: int = millis(50, "Gain must exceed cost by this.", least=0)
    weights: PreemptionWeights = field(
        default_factory=PreemptionWeights, metadata=group(PreemptionWeights, "What delay counts.")
    )
    max_per_request: int = whole(2, "Times one request may be paused.", most=100)
    cooldown_ms: int = millis(2000, "Rest of a request between two pauses.", least=0)


@dataclass(frozen=True, slots=True)
class Failover(Section):
    """Time limits of an attempt, retries, and the breaker of a replica."""

    retry_budget: float = share(
        0.1, "Share of traffic that may be retries on replicas that may fail as well."
    )
    connect_ms: int = millis(2000, "Time to connect to a replica.")
    first_byte_ms: int = millis(60_000, "Time to the first byte of an answer.")
    idle_ms: int = millis(60_000, "Longest silence within an answer.")
    fail_threshold: int = whole(3, "Failures in a row that open the breaker.", least=1)
    open_s: float = seconds(30.0, "Time an open breaker lets nothing through.")
    half_open_probes: int = whole(1, "Requests let through to try again.", least=1)


@dataclass(frozen=True, slots=True)
class Paths(Section):
    """When a model is served by its cold replicas instead of its hot ones."""

    failures: int = whole(5, "Failures in a row of a model's hot replicas that switch.", least=1)
    latency_factor: float = number(
        4.0,
        "Times their usual latency at which hot replicas are left for quicker cold ones.",
        least=1.0,
    )
    probe_s: float = seconds(10.0, "Time between two tries of hot replicas that were left.")


@dataclass(frozen=True, slots=True)
class TenantBreaker(Section):
    """When a model is kept from a business whose requests for it fail by its own doing."""

    failure_rate: float = share(0.5, "Failed share from which a model is kept from a business.")
    window_s: float = seconds(60.0, "Time over which failures are counted.")
    min_requests: int = whole(20, "Requests needed to judge.", least=1)
    open_s: float = seconds(60.0, "Time of full suspension.")
    trickle: float = share(0.1, "Share of its usual requests let through afterwards.")


@dataclass(frozen=True, slots=True)
class ColdStart(Section):
    """Requests for a model that no replica has ready."""

    enabled: bool = flag(True, "Let P0 start a replica for its model.")
    wait_s: float = seconds(120.0, "Longest wait for such a start.")
    warm_before_p0: bool = flag(True, "Warm a replica up before it takes P0.")


@dataclass(frozen=True, slots=True)
class Scale(Section):
    """How many replicas are asked for."""

    headroom: float = share(0.2, "Capacity beyond what work needs.")
    drain_s: float = seconds(10.0, "Time in which the backlog should be gone.")
    max_cards: int | None = whole(None, "Most cards ever used; null: all there are.", "cards")
    least_cards: int = whole(1, "Fewest cards a pool is left with.", "cards", least=1)
    cooldown_s: float = seconds(300.0, "Calm before capacity is given back.")
    settle_s: float = seconds(30.0, "Time for which fewer cards must have been enough.")
    help_window_s: float = seconds(120.0, "Time in which scaling must have helped.")


@dataclass(frozen=True, slots=True)
class Throttle(Section):
    """How limits on rates are slowed for P2 requests."""

    interval_s: float = seconds(
        5.0, "While P0 waits too long, P2's rates are halved each time this has passed."
    )
    floor: float = share(0.1, "Share of a rate that P2 keeps however long that lasts; 1% at least.")
    step: float = share(0.1, "Share of a rate that P2 gets back in each such time afterwards.")


@dataclass(frozen=True, slots=True)
class Backpressure(Section):
    """What happens when P0 waits too long."""

    p0_wait_ms: int = millis(2000, "Wait of P0 that sets it off.")
    clear_ms: int = millis(1000, "Wait of P0 that ends it; at most the wait that sets it off.")
    action: tuple[str, ...] = choices(
        ("throttle_P2", "scale_gpu"),
        ACTIONS,
        "What is done: hold P2 back where P0 waits and slow its rates; refuse such P2 instead of "
        "queueing it; have as many cards in use as the work needs.",
    )
    throttle: Throttle = field(
        default_factory=Throttle,
        metadata=group(Throttle, "How limits on rates are slowed for P2 requests."),
    )
    scale: Scale = field(
        default_factory=Scale, metadata=group(Scale, "How many replicas are asked for.")
    )
