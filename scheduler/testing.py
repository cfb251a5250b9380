"""One working fake per port, for tests and trials: nothing here reads a clock or a database."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

from metering.core.escalations import EscalationMinute
from metering.core.facts import (
    FREE,
    AccessSnapshot,
    Allowance,
    BusinessFacts,
    CredentialFacts,
    KeyFacts,
)
from metering.core.keys import digest, prefix_of
from metering.core.periods import month_bounds, month_of
from metering.core.prices import PriceList
from metering.core.usage import Consumed, UsageRow

from .canary import Tally, Trial
from .core.decisions import Throttle
from .core.events import Sample
from .core.fleet import FleetSnapshot, ModelFacts, PoolFacts, ReplicaFacts
from .core.policy import Policy
from .decision_log.row import DecisionRow
from .ports import Ask, Denied, GpuHours, Grant, Level, Spent, Standing
from .scaling.cards import Card, CardState


@dataclass(slots=True)
class ManualClock:
    """Moves when told; ns. The wall clock is ``ahead`` of what has passed."""

    time: int = 1_700_000_000_000_000_000
    ahead: int = 0

    def now(self) -> int:
        """The present."""
        return self.time

    def wall(self) -> int:
        """The present date."""
        return self.time + self.ahead

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.time += round(seconds * 1e9)

    def jump(self, seconds: float) -> None:
        """Set the wall clock, while no time passes."""
        self.ahead += round(seconds * 1e9)


@dataclass(slots=True)
class Memory:
    """Credentials, fleet, policy and what was before (``recalled``), held in memory; changes are
    told through ``news``."""

    pepper: bytes = b"test-pepper"
    businesses: dict[str, BusinessFacts] = field(default_factory=dict)
    keys: dict[bytes, KeyFacts] = field(default_factory=dict)
    credentials: dict[str, CredentialFacts] = field(default_factory=dict)
    signing_keys: dict[str, bytes] = field(default_factory=dict)
    pools: dict[str, PoolFacts] = field(default_factory=dict)
    models: dict[str, ModelFacts] = field(default_factory=dict)
    replicas: dict[str, ReplicaFacts] = field(default_factory=dict)
    rules: Policy = field(default_factory=Policy)
    version: int = 0
    tried: Trial | None = None
    tallies: dict[int, Tally] = field(default_factory=dict)
    recalled: Sequence[Sample] = ()
    news: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue)

    def access(self) -> AccessSnapshot:
        """Who may call."""
        return AccessSnapshot(
            self.version,
            dict(self.businesses),
            dict(self.keys),
            dict(self.credentials),
            dict(self.signing_keys),
        )

    def fleet(self) -> FleetSnapshot:
        """Where requests may run."""
        return FleetSnapshot(self.version, dict(self.pools), dict(self.models), dict(self.replicas))

    def policy(self) -> tuple[int, Policy]:
        """By which rules."""
        return self.version, self.rules

    def trial(self) -> Trial | None:
        """The canary that runs."""
        return self.tried

    def report(self, trial: int, tally: Tally) -> None:
        """Add up what is counted of it."""
        self.tallies.setdefault(trial, Tally()).add(tally)

    def samples(self) -> Sequence[Sample]:
        """What requests were like before."""
        return self.recalled

    async def run(self, on_change: Callable[[str], Awaitable[None]]) -> None:
        """Tell each topic once, then what is put into ``news``."""
        for topic in ("access", "fleet", "policy"):
            await on_change(topic)
        while True:
            await on_change(await self.news.get())

    def tell(self, topic: str) -> None:
        """Announce a change."""
        self.version += 1
        self.news.put_nowait(topic)

    def business(self, facts: BusinessFacts, key: str) -> None:
        """Add or replace a business and its key."""
        self.businesses[facts.name] = facts
        self.key(key, facts.name)

    def key(
        self,
        key: str,
        business: str,
        *,
        ceiling: int | None = None,
        expires: int | None = None,
        allowance: Allowance = FREE,
        models: frozenset[str] | None = None,
    ) -> None:
        """Add or replace a key."""
        hashed = digest(key, self.pepper)
        self.keys[hashed] = KeyFacts(
            hashed, prefix_of(key), business, ceiling, expires, allowance, models
        )

    def model(self, facts: ModelFacts) -> None:
        """Add a model to the catalogue."""
        self.models[facts.name] = facts

    def replica(self, facts: ReplicaFacts) -> None:
        """Add or replace a replica, its pool made on first sight."""
        self.pools.setdefault(facts.pool, PoolFacts(facts.pool, False, frozenset({0, 1, 2})))
        self.replicas[facts.name] = facts

    def change_business(self, name: str, **changes: object) -> None:
        """Change some facts of a business and tell."""
        self.businesses[name] = replace(self.businesses[name], **changes)  # type: ignore[arg-type]
        self.tell("access")


@dataclass(slots=True)
class MemoryScaler:
    """Cards that are told to start and do, and that are told to drain and are gone."""

    held: dict[str, Card] = field(default_factory=dict)
    changed: Callable[[], None] = lambda: None

    def attach(self, changed: Callable[[], None], running: Callable[[str], int]) -> None:
        """Whom to tell."""
        self.changed = changed

    def add(
        self,
        name: str,
        pool: str,
        state: CardState = CardState.IDLE,
        *,
        models: Sequence[str] = (),
        slots: int = 1,
    ) -> None:
        """One more card."""
        served = {model: model for model in models}
        self.held[name] = Card(ReplicaFacts(name, "", "vllm", pool, slots, models=served), state)

    def to(self, name: str, state: CardState) -> None:
        """A card is there now."""
        self.held[name] = replace(self.held[name], state=state)
        self.changed()

    def cards(self) -> tuple[Card, ...]:
        """All of them."""
        return tuple(self.held.values())

    def start(self, card: str, model: str = "") -> bool:
        """It is starting, or drains no more."""
        states = {CardState.IDLE: CardState.STARTING, CardState.DRAINING: CardState.UP}
        if card not in self.held or self.held[card].state not in states:
            return False
        self.to(card, states[self.held[card].state])
        return True

    def drain(self, replica: str) -> bool:
        """It is draining."""
        if replica not in self.held or self.held[replica].state is not CardState.UP:
            return False
        self.to(replica, CardState.DRAINING)
        return True

    async def close(self) -> None:
        """Nothing to end."""


@dataclass(slots=True)
class MemoryUsage:
    """Keeps rows in a list."""

    rows: list[UsageRow] = field(default_factory=list)

    def start(self) -> None:
        """Nothing to start."""

    async def close(self) -> None:
        """Nothing to close."""

    def append(self, row: UsageRow) -> None:
        """Take a row."""
        self.rows.append(row)

    def pending(self) -> int:
        """Nothing is ever pending."""
        return 0

    def by_id(self, request: str) -> UsageRow:
        """The row of a request."""
        return next(row for row in self.rows if row.id == request)


@dataclass(slots=True)
class MemoryAudit:
    """Adds counts up in a dict by business and minute; ``away`` makes it refuse."""

    seen: dict[tuple[str, int], EscalationMinute] = field(default_factory=dict)
    away: bool = False

    def escalations(self, minutes: Sequence[EscalationMinute]) -> None:
        """Add them up."""
        if self.away:
            raise OSError("away")
        for row in minutes:
            known = self.seen.get((row.business, row.minute))
            count = row.count if known is None else known.count + row.count
            self.seen[row.business, row.minute] = replace(row, count=count)


@dataclass(slots=True)
class MemoryLimiter:
    """Counts down one number of requests for everybody; notes what was settled."""

    left: int = 1_000_000
    retry_after: int = 1_000_000_000
    settled: list[tuple[int, bool]] = field(default_factory=list)

    def follow(self, access: AccessSnapshot) -> None:
        """Its limit is its own."""

    def follow_fleet(self, gpus: float) -> None:
        """It knows no shares."""

    def throttle(self, throttle: Throttle) -> None:
        """It knows no rates."""

    def renew(self, requests: Sequence[str]) -> None:
        """It knows no places."""

    async def reserve(self, ask: Ask) -> Grant | Denied:
        """Take one, or nothing."""
        if not self.left:
            return Denied("rate_limit_requests", self.retry_after, Standing())
        self.left -= 1
        return MemoryGrant(self)


@dataclass(slots=True)
class MemoryGrant:
    """One taken of a ``MemoryLimiter``."""

    limiter: MemoryLimiter
    open: bool = True
    waits: bool = False

    async def turn(self) -> None:
        """Nothing to wait for."""

    def again(self) -> int:
        """Nothing to wait for."""
        return 0

    def settle(self, used: Consumed, model: str = "") -> None:
        """Note it; give it back where it does not count."""
        if self.open:
            self.open = False
            self.limiter.settled.append((used.tokens, used.counted))
            self.limiter.left += not used.counted

    def standing(self) -> Standing:
        """What is left."""
        return Standing(requests=Level(self.limiter.left, self.limiter.left, 0))


@dataclass(slots=True)
class MemoryBooks:
    """Books that say what a test puts into them, and keep the hours as each writer has told them
    last; ``away`` makes them refuse."""

    prices: PriceList = field(default_factory=PriceList)
    businesses: dict[str, Decimal] = field(default_factory=dict)
    keys: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    asked: list[tuple[int, int]] = field(default_factory=list)
    hours: dict[tuple[UUID, str, int], GpuHours] = field(default_factory=dict)
    away: bool = False

    def month(self, wall: int) -> tuple[int, int]:
        """Months of UTC."""
        first = month_of(datetime.fromtimestamp(wall // 10**9, UTC), UTC)
        begin, end = month_bounds(first, UTC)
        return int(begin.timestamp()) * 10**9, int(end.timestamp()) * 10**9

    def spent(
        self,
        since: int,
        before: int,
        businesses: Sequence[str],
        keys: Sequence[tuple[str, str]],
    ) -> Spent:
        """What they say, of those asked for."""
        if self.away:
            raise OSError("away")
        self.asked.append((since, before))
        return Spent(
            self.prices,
            {name: self.businesses[name] for name in businesses if name in self.businesses},
            {name: self.keys[name] for name in keys if name in self.keys},
        )

    def gpu_hours(self, hours: Sequence[GpuHours]) -> None:
        """Keep them."""
        if self.away:
            raise OSError("away")
        for row in hours:
            self.hours[row.writer, row.replica, row.hour] = row


@dataclass(slots=True)
class MemoryAnswers:
    """Keeps answers in a dict; ``away`` makes it refuse."""

    kept: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    away: bool = False

    def find(self, name: bytes, now: int) -> bytes | None:
        """What is kept, for a day."""
        if self.away:
            raise OSError("away")
        at, content = self.kept.get(name, (0, b""))
        return content if at > now - 86_400 * 10**9 else None

    def keep(self, name: bytes, content: bytes, now: int) -> None:
        """Keep it."""
        if self.away:
            raise OSError("away")
        self.kept[name] = (now, content)

    def drop(self, name: bytes) -> None:
        """Keep it no more."""
        self.kept.pop(name, None)

    def sweep(self, now: int) -> None:
        """It is never too much."""


@dataclass(slots=True)
class MemoryDecisions:
    """Keeps rows in a list."""

    rows: list[DecisionRow] = field(default_factory=list)
    dropped: int = 0

    def start(self) -> None:
        """Nothing to start."""

    async def close(self) -> None:
        """Nothing to close."""

    def append(self, row: DecisionRow) -> None:
        """Take a row."""
        self.rows.append(row)

    def of(self, request: str) -> list[str]:
        """The kinds of a request's rows, in order."""
        return [row.kind for row in self.rows if row.request == request]
