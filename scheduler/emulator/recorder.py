"""What the server saw: for tests that assert what reached the engine."""

import time
from collections import deque
from dataclasses import asdict, dataclass, field

BODY_BYTES = 64 * 1024
ABORTS_KEPT = 1000


@dataclass(slots=True)
class Seen:
    """One inference request. ``headers`` keeps order and doubles; ``body`` is cut at 64 KiB;
    ``at`` and ``ended_at`` are seconds since the epoch; ``outcome`` is running, answered,
    refused or aborted; ``generated`` are tokens."""

    path: str
    headers: list[tuple[str, str]]
    at: float
    id: str = ""
    body: str = ""
    outcome: str = "running"
    status: int = 0
    generated: int = 0
    ended_at: float | None = None


@dataclass(slots=True)
class Aborted:
    """A request whose client left: when (seconds since the epoch), how long after its arrival
    (seconds) and after how many tokens."""

    id: str
    at: float
    after_s: float
    generated: int


@dataclass(slots=True)
class Recorder:
    """Counts since the start or the last reset; the last ``keep`` requests."""

    keep: int = 100
    requests_seen: int = 0
    in_flight: int = 0
    max_in_flight: int = 0
    aborted: deque[Aborted] = field(default_factory=lambda: deque(maxlen=ABORTS_KEPT))
    recent: deque[Seen] = field(default_factory=deque)

    def begin(self, path: str, headers: list[tuple[str, str]]) -> Seen:
        """A request has arrived."""
        seen = Seen(path, headers, time.time())
        self.requests_seen += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self.recent.append(seen)
        while len(self.recent) > self.keep:
            self.recent.popleft()
        return seen

    def end(self, seen: Seen, outcome: str, status: int = 0) -> None:
        """It is over."""
        self.in_flight -= 1
        seen.ended_at = time.time()
        seen.outcome = outcome
        seen.status = status
        if outcome == "aborted":
            took = seen.ended_at - seen.at
            self.aborted.append(Aborted(seen.id, seen.ended_at, took, seen.generated))

    def reset(self) -> None:
        """Forget all but what is in flight."""
        self.requests_seen = 0
        self.max_in_flight = self.in_flight
        self.aborted.clear()
        self.recent.clear()

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "requests_seen": self.requests_seen,
            "in_flight": self.in_flight,
            "max_in_flight": self.max_in_flight,
            "aborted": [asdict(entry) for entry in self.aborted],
            "recent": [asdict(entry) for entry in self.recent],
        }
