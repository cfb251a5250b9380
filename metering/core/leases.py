"""Places for running and waiting requests, each held by a lease with its own id.

A lease ends when it is released, or when nobody has renewed it for ``TTL``: what a holder that
died has left is free again by itself. No lease ever prolongs another one.
"""

from collections.abc import Collection
from dataclasses import dataclass

SECOND = 1_000_000_000
TTL = 10 * SECOND
# How long a place is held, before anything is known; and how slowly a long one is forgotten.
HOLD_PRIOR = 2 * SECOND
FORGET = 16


@dataclass(slots=True)
class Lease:
    """One request's place: running since (ns), or None while it waits; good until ``ends``."""

    ends: int
    since: int | None = None


class Leases:
    """The places of one party. ``running`` and ``queued`` are limits; None is unlimited, 0
    blocks. Times are the caller's, in ns."""

    __slots__ = ("_held", "_hold", "_running", "queued", "running")

    def __init__(self, running: int | None, queued: int | None) -> None:
        self.running = running
        self.queued = queued
        self._held: dict[str, Lease] = {}
        self._running = 0
        self._hold = HOLD_PRIOR

    def __len__(self) -> int:
        return len(self._held)

    def runs(self, request: str) -> bool:
        """Whether this request has a running place."""
        lease = self._held.get(request)
        return lease is not None and lease.since is not None

    def room(self) -> bool:
        """Whether one more may run or wait."""
        if self.running == 0:
            return False
        return self._may_run() or self.queued is None or self._waiting() < self.queued

    def take(self, request: str, now: int) -> bool:
        """Take a place, given that there is ``room``: True to run, False to wait for it."""
        runs = self._may_run() and not self._waiting()
        self._held[request] = Lease(now + TTL, now if runs else None)
        self._running += runs
        return runs

    def renew(self, alive: Collection[str], now: int) -> None:
        """These requests live: each one's own lease is good for another ``TTL``."""
        for request, lease in self._held.items():
            if request in alive:
                lease.ends = now + TTL

    def release(self, request: str, now: int) -> list[str]:
        """End a lease; returns who runs now in its place. Safe to call twice."""
        lease = self._held.pop(request, None)
        if lease is None:
            return []
        if lease.since is not None:
            self._running -= 1
            took = now - lease.since
            # The longest of late, rather than the mean: whoever comes again after that time
            # shall find a place.
            self._hold = max(took, self._hold - (self._hold - took) // FORGET)
        return self._promote(now)

    def expire(self, now: int) -> list[str]:
        """End the leases that nobody renewed; returns who runs now in their places."""
        promoted = []
        for request in [name for name, lease in self._held.items() if lease.ends <= now]:
            promoted += self.release(request, now)
        return [request for request in promoted if request in self._held]

    def change(self, running: int | None, queued: int | None, now: int) -> list[str]:
        """Other limits from now on; returns who runs now. Nobody loses a place by it."""
        self.running, self.queued = running, queued
        return self._promote(now)

    def wait(self, now: int) -> int:
        """A guess (ns) at when a place comes free, if nobody else comes meanwhile."""
        ends = [
            max(lease.since + self._hold - now, (now - lease.since) // 2)
            for lease in self._held.values()
            if lease.since is not None
        ]
        return max(1, min(ends, default=self._hold))

    def wait_for_all(self, now: int) -> int:
        """A guess (ns) at when all who wait have had their turn, and one more."""
        rounds = self._waiting() // max(1, self.running or 1)
        return self.wait(now) + rounds * self._hold

    def _promote(self, now: int) -> list[str]:
        """Who waits longest runs first."""
        promoted: list[str] = []
        if self._running == len(self._held):
            return promoted
        for request, lease in self._held.items():
            if not self._may_run():
                break
            if lease.since is None:
                lease.since = now
                self._running += 1
                promoted.append(request)
        return promoted

    def _may_run(self) -> bool:
        return self.running is None or self._running < self.running

    def _waiting(self) -> int:
        return len(self._held) - self._running
