"""Made-up live frames that move like real ones; seeded, so that a failure repeats."""

import random
from collections.abc import Iterable

from scheduler.live import BusinessLive, FeedItem, LaneLive, LiveFrame, ReplicaLive

LANES = ("P0", "P1", "P2")
REASONS = ("queue_full", "rate_limit_tokens", "backpressure")
NOON = 1_800_000_000_000


class FrameSource:
    """Frames of a small fleet, one a second from ``at`` on."""

    def __init__(
        self,
        businesses: Iterable[str] = ("alpha", "beta"),
        *,
        epoch: str = "e1",
        at: int = NOON,
        seed: int = 7,
        feed: int = 2,
    ) -> None:
        self.businesses = list(businesses)
        self.epoch, self.at, self.seq, self.feed = epoch, at, 0, feed
        self.random = random.Random(seed)

    def next(self, busy: Iterable[str] | None = None) -> LiveFrame:
        """The next frame, with traffic of ``busy`` only (all by default)."""
        active = self.businesses if busy is None else list(busy)
        self.seq += 1
        self.at += 1_000
        own = {name: self._business() for name in active}
        return LiveFrame(
            epoch=self.epoch,
            seq=self.seq,
            at=self.at,
            lanes={lane: self._sum(own.values(), lane) for lane in LANES},
            replicas=[self._replica(number) for number in range(1, 4)],
            businesses=own,
            refusals=self._refusals(own.values()),
            feed=[self._decision(active) for _ in range(self.feed)] if active else [],
        )

    def take(self, number: int) -> list[LiveFrame]:
        return [self.next() for _ in range(number)]

    def _business(self) -> BusinessLive:
        refused = self.random.choice((0, 0, 0, 1, 2))
        return BusinessLive(
            lanes={lane: self._lane(refused if lane == "P2" else 0) for lane in LANES},
            refusals={self.random.choice(REASONS): refused} if refused else {},
            prompt_tokens=self.random.randrange(5_000),
            completion_tokens=self.random.randrange(2_000),
        )

    def _lane(self, refused: int) -> LaneLive:
        wait = self.random.random() * 800
        return LaneLive(
            queued=self.random.randrange(12),
            running=self.random.randrange(6),
            wait_p50_ms=wait,
            wait_p95_ms=wait * 2.5,
            wait_p99_ms=wait * 4,
            dispatched=self.random.randrange(9),
            finished=self.random.randrange(9),
            refused=refused,
        )

    def _sum(self, businesses: Iterable[BusinessLive], lane: str) -> LaneLive:
        total = LaneLive()
        for each in businesses:
            own = each.lanes[lane]
            total.queued += own.queued
            total.running += own.running
            total.wait_p50_ms = max(total.wait_p50_ms, own.wait_p50_ms)
            total.wait_p95_ms = max(total.wait_p95_ms, own.wait_p95_ms)
            total.wait_p99_ms = max(total.wait_p99_ms, own.wait_p99_ms)
            total.dispatched += own.dispatched
            total.finished += own.finished
            total.refused += own.refused
        return total

    @staticmethod
    def _refusals(businesses: Iterable[BusinessLive]) -> dict[str, int]:
        totals: dict[str, int] = {}
        for each in businesses:
            for reason, times in each.refusals.items():
                totals[reason] = totals.get(reason, 0) + times
        return totals

    def _replica(self, number: int) -> ReplicaLive:
        return ReplicaLive(
            name=f"card-{number}",
            pool="gpu-p0" if number == 1 else "gpu-elastic",
            engine="vllm",
            state="down" if number == 3 else "ready",
            running=0 if number == 3 else self.random.randrange(9),
            slots=8,
            gpu=None if number == 3 else round(self.random.random(), 2),
            memory=0.61,
            queue=0,
            models=["chat"],
        )

    def _decision(self, active: list[str]) -> FeedItem:
        business = self.random.choice(active)
        lane = self.random.choice(LANES)
        return FeedItem(
            at=self.at - self.random.randrange(1_000),
            kind=self.random.choice(("dispatch", "finish", "refuse", "expire")),
            text=f"{business} on card-{self.random.randrange(1, 4)}",
            business=business,
            lane=lane,
            request=f"{self.random.getrandbits(40):010x}",
        )
