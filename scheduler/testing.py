"""One working fake per port, for tests and trials: nothing here reads a clock or a database."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from metering.core.facts import AccessSnapshot, BusinessFacts, CredentialFacts, KeyFacts
from metering.core.keys import digest, prefix_of
from metering.core.usage import UsageRow

from .core.fleet import FleetSnapshot, ModelFacts, PoolFacts, ReplicaFacts
from .core.policy import Policy


@dataclass(slots=True)
class ManualClock:
    """Moves when told; ns."""

    time: int = 1_700_000_000_000_000_000

    def now(self) -> int:
        """The present."""
        return self.time

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.time += round(seconds * 1e9)


@dataclass(slots=True)
class Memory:
    """Credentials, fleet and policy held in memory; changes are told through ``news``."""

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
        self, key: str, business: str, *, ceiling: int | None = None, expires: int | None = None
    ) -> None:
        """Add a key."""
        hashed = digest(key, self.pepper)
        self.keys[hashed] = KeyFacts(hashed, prefix_of(key), business, ceiling, expires)

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
