"""Who used how much of a card: its time split evenly among the requests on it.

With V(t) the integral of gpus / running, a request that ran from a to b used
V(b) - V(a) GPU-seconds, and the shares of all requests add up to the busy time.
"""

from dataclasses import dataclass

NS = 1_000_000_000


@dataclass(slots=True)
class GpuMeter:
    """One replica's meter. Times are ns and never go back; results are GPU-seconds."""

    gpus: float
    running: int = 0
    at: int = 0
    virtual: float = 0.0
    busy: float = 0.0

    def _advance(self, now: int) -> None:
        if self.running and now > self.at:
            spent = self.gpus * (now - self.at) / NS
            self.virtual += spent / self.running
            self.busy += spent
        self.at = max(self.at, now)

    def join(self, now: int) -> float:
        """A request starts; returns its mark, to be handed to ``leave``."""
        self._advance(now)
        self.running += 1
        return self.virtual

    def leave(self, mark: float, now: int) -> float:
        """The request ends; returns its share in GPU-seconds."""
        self._advance(now)
        self.running -= 1
        return self.virtual - mark
