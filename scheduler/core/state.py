"""What the scheduler knows: replicas, tenants, requests, queues and counts. Plain data.

Only ``step`` changes it. Counts are kept where they are read, so that no step walks a
queue; the property tests hold them against a recount.
"""

from collections import deque
from dataclasses import dataclass, field

from .breaker import Breaker
from .card_plan import Plan
from .counters import Active
from .decisions import Notice
from .estimates import Estimates, Mean
from .fleet import CardFacts
from .layout import Demand, Layout
from .paths import Path
from .policy import Policy
from .prefixes import Prefixes
from .pressure import Pressure
from .prices import Flow
from .queues import Queues
from .replica import Replica
from .request import Request
from .starts import Start
from .tenant import Tenant

SEED_FACTOR = 6364136223846793005
SEED_TERM = 1442695040888963407
SEED_BITS = (1 << 64) - 1


@dataclass(slots=True)
class State:
    """``now`` (ns) never goes back. ``service`` is the mean time a slot was held (ns). ``wake`` is
    the time asked for last. ``free`` are the slots of serving replicas that nobody holds. ``gates``
    says until when (ns) replicas are believed to prefill. ``active`` has the businesses with
    requests by ledger, ``markets`` the numbers of models' markets, which ``market_ids`` gives out
    (see ``markets``), and ``passes`` says how far each lane has come in mode weighted. ``retries``
    could be made when the last was, since when there were so many ``arrivals``. ``hopeless``
    requests were refused, or let in to probe, by their budgets. ``breakers`` are those of
    businesses, by model; ``broken`` counts the open ones of replicas. P0's wait is looked at next
    at ``press_at`` (ns), if any waits or pressure is ``watching``. ``cold`` has the models that
    ``cards`` were started for, ``loads`` how long that took (ns), ``paths`` has the models with hot
    and cold replicas, ``news`` what is to be told at once, ``rests`` until when (ns) it is not
    tried again. How work has fared was ``reviewed`` last then and is again at ``review_at`` (ns);
    ``turn_at`` is when that or the next layout is due. ``weights``: of the businesses with requests
    in each lane, as reviewed last. ``plans`` say how many cards each pool should have, which is
    decided again at ``plan_at`` (ns); ``picks`` (ns, replica) are the last second's starts.
    ``demand`` is by flow, ``arrived`` what has come since it was brought up to date; requests for
    the ``generative`` models have tokens. ``lane_tokens`` of context wait in each lane, and
    requests of ``queuers`` (business, model)."""

    policy: Policy = field(default_factory=Policy)
    seed: int = 1
    now: int = 0
    sequence: int = 0
    service: int = 1_000_000_000
    wake: int = 0
    laid_out: int = 0
    lay_out_at: int = 0
    reviewed: int = 0
    review_at: int = 0
    turn_at: int = 0
    weights: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    looked: int = 0
    look_again: int = 0
    busy_until: int = 0
    overdue_at: int = 0
    late_at: int = 0
    dispatches: int = 0
    replicas: dict[str, Replica] = field(default_factory=dict)
    tenants: dict[str, Tenant] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    queues: Queues = field(default_factory=Queues)
    estimates: Estimates = field(default_factory=Estimates)
    layout: Layout = field(default_factory=Layout)
    demand: dict[Flow, Demand] = field(default_factory=dict)
    arrived: dict[Flow, list[float]] = field(default_factory=dict)
    generative: set[str] = field(default_factory=set)
    prefixes: Prefixes = field(default_factory=Prefixes)
    lane_queued: list[int] = field(default_factory=lambda: [0, 0, 0])
    lane_tokens: list[int] = field(default_factory=lambda: [0, 0, 0])
    queuers: list[int] = field(default_factory=lambda: [0, 0, 0])
    lane_running: list[int] = field(default_factory=lambda: [0, 0, 0])
    active: dict[int, Active] = field(default_factory=dict)
    markets: dict[str, int] = field(default_factory=dict)
    market_ids: dict[str, int] = field(default_factory=dict)
    passes: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    shares: list[float] = field(default_factory=lambda: [1.0, 1.0, 1.0])
    expiries: list[tuple[int, int, Request]] = field(default_factory=list)
    gates: list[tuple[int, str]] = field(default_factory=list)
    breakers: dict[tuple[str, str], Breaker] = field(default_factory=dict)
    retries: float = 1.0
    arrivals: int = 0
    hopeless: int = 0
    press_at: int = 0
    watching: bool = False
    broken: int = 0
    pressure: Pressure = field(default_factory=Pressure)
    paths: dict[str, Path] = field(default_factory=dict)
    news: list[Notice] = field(default_factory=list)
    cards: dict[str, CardFacts] = field(default_factory=dict)
    cold: dict[str, Start] = field(default_factory=dict)
    loads: dict[str, Mean] = field(default_factory=dict)
    rests: dict[str, int] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    plan_at: int = 0
    picks: deque[tuple[int, Replica]] = field(default_factory=deque)
    free: int = 0
    stoppable: int = 0
    yielding: int = 0

    def tenant(self, business: str) -> Tenant:
        """The business's row, made on first sight without limits."""
        found = self.tenants.get(business)
        if found is None:
            found = self.tenants[business] = Tenant()
        return found

    def turnover(self, model: str, lane: int) -> float:
        """Slots that may take such requests, coming free per ns by expectation."""
        layout, flow = self.layout, (model, lane)
        return sum(
            group.turnover
            for groups in (layout.sets.get(flow, ()), layout.spills.get(flow, ()))
            for group in groups
        )

    def draw(self, below: int) -> int:
        """A number from 0 to ``below`` - 1, of the seed alone (linear congruential)."""
        self.seed = (self.seed * SEED_FACTOR + SEED_TERM) & SEED_BITS
        return (self.seed >> 33) % below
