"""Who used how much of a card: its time split evenly among the requests on it.

With V(t) the integral of gpus / running, a request that ran from a to b used V(b) - V(a)
GPU-seconds, and the shares of all requests add up to the busy time. Whole numbers throughout:
V of a replica that runs for months is as fine at the end as at the beginning.
"""

from dataclasses import dataclass, field

NS = 1_000_000_000
HOUR = 3600 * NS
# GPUs are counted in millionths, and what each of those does in a ns in so many parts.
MICRO = 1_000_000
PARTS = 1 << 32


@dataclass(slots=True)
class Hour:
    """One replica in one hour, in millionths of a GPU-ns: while it was known, and with a request
    on it."""

    wall: int = 0
    busy: int = 0


@dataclass(slots=True)
class GpuMeter:
    """One replica's meter. Times are ns and never go back; shares are GPU-seconds.

    ``known`` False: the replica has left, and only what still runs there counts. ``hours``
    has what was measured so far, by the hour's first second; ``at`` is how far that goes.
    Dates are ``ahead`` ns later than the meter's times: that says which hour it is, and no more.
    """

    gpus: float
    at: int = 0
    known: bool = True
    running: int = 0
    hours: dict[int, Hour] = field(default_factory=dict)
    ahead: int = 0
    _virtual: int = 0

    def advance(self, now: int) -> None:
        """Measure up to ``now``."""
        while now > self.at:
            edge = ((self.at + self.ahead) // HOUR + 1) * HOUR
            until = min(now, edge - self.ahead)
            if self.running or self.known:
                self._spend(until)
            self.at = until

    def join(self, now: int) -> int:
        """A request starts; returns its mark, to be handed to ``leave``."""
        self.advance(now)
        self.running += 1
        return self._virtual

    def leave(self, mark: int, now: int) -> float:
        """The request ends; returns its share in GPU-seconds."""
        self.advance(now)
        self.running -= 1
        return (self._virtual - mark) / (PARTS * MICRO * NS)

    def change(self, gpus: float, now: int, *, known: bool = True) -> None:
        """The replica has so many GPUs from now on, or has left."""
        self.advance(now)
        self.gpus, self.known = gpus, known

    def take(self, now: int) -> dict[int, Hour]:
        """What was measured since the last ``take``, by the hour's first second."""
        self.advance(now)
        taken, self.hours = self.hours, {}
        return taken

    def _spend(self, until: int) -> None:
        spent = round(self.gpus * MICRO) * (until - self.at)
        begin = (self.at + self.ahead) // HOUR * 3600
        hour = self.hours.get(begin)
        if hour is None:
            hour = self.hours[begin] = Hour()
        hour.wall += spent
        if self.running:
            hour.busy += spent
            self._virtual += spent * PARTS // self.running
