"""What the engine counts about itself. Pure; ``exposition`` shows it in Prometheus' form."""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field

QUEUE_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
STEP_BOUNDS = (0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.05, 0.075, 0.1, 0.25, 1.0)
BUSY_WINDOW_S = 1.0


class Tally:
    """A histogram of seconds: counts per upper bound, their sum."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count ``seconds``, ``times`` times."""
        self.counts[bisect_left(self.bounds, seconds)] += times
        self.sum += seconds * times

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound as text, count up to it), as Prometheus wants it."""
        total = 0
        rows: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            rows.append((bound, float(total)))
        return rows


@dataclass(slots=True)
class Counters:
    """Totals since the start; tokens, seconds and requests."""

    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})
    queue_time: Tally = field(default_factory=lambda: Tally(QUEUE_BOUNDS))
    first_token: Tally = field(default_factory=lambda: Tally(QUEUE_BOUNDS))
    whole: Tally = field(default_factory=lambda: Tally(QUEUE_BOUNDS))
    step: Tally = field(default_factory=lambda: Tally(STEP_BOUNDS))
    _steps: deque[tuple[float, float]] = field(default_factory=deque)

    def busy(self, now: float, seconds: float) -> None:
        """A step of ``seconds`` ended at ``now``."""
        self._steps.append((now, seconds))
        while self._steps[0][0] < now - BUSY_WINDOW_S:
            self._steps.popleft()

    def utilisation(self, now: float) -> float:
        """The share 0-1 of the last second in which a step was running."""
        since = now - BUSY_WINDOW_S
        share = sum(min(took, ended - since) for ended, took in self._steps if ended > since)
        return min(1.0, share / BUSY_WINDOW_S)
