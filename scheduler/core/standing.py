"""How models stand on replicas, and businesses with models: what attempts of late have shown.

Plain records, kept where they are read: ``Standing`` by a replica, ``Trouble`` by the replica
and by the business's row of the model. What they mean is said by ``blame``.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .request import Request


@dataclass(slots=True)
class Tally:
    """How many things ended of late, and how many of them badly: in this window, which began at
    ``since`` (ns), and in the one ``before``."""

    since: int = 0
    ended: int = 0
    failed: int = 0
    before: tuple[int, int] = (0, 0)

    def note(self, now: int, window: int, *, failed: bool, count: int = 1) -> None:
        """So many more have ended, at ``now``; a window takes ``window`` (ns)."""
        if now - self.since >= window:
            self._turn(now, window)
        self.ended += count
        self.failed += count * failed

    def total(self, now: int, window: int) -> tuple[int, int]:
        """How many ended, and how many of them badly."""
        if now - self.since >= window:
            self._turn(now, window)
        return self.ended + self.before[0], self.failed + self.before[1]

    def span(self, now: int, window: int) -> int:
        """The time (ns) that ``total`` is about."""
        return now - self.since + (window if self.before[0] else 0)

    def clear(self) -> None:
        """Forget all."""
        self.since = self.ended = self.failed = 0
        self.before = (0, 0)

    def _turn(self, now: int, window: int) -> None:
        fresh = now - self.since < 2 * window
        self.before = (self.ended, self.failed) if fresh else (0, 0)
        self.since, self.ended, self.failed = now, 0, 0


@dataclass(slots=True)
class Witness:
    """When the last attempt that went well had begun (ns; 0: none did), whose it was, and when
    the last of anybody else had. ``who`` is whatever tells them apart."""

    who: object = None
    at: int = 0
    others_at: int = 0

    def note(self, who: object, began: int) -> None:
        """An attempt that began then has gone well."""
        if who == self.who:
            self.at = max(self.at, began)
        elif began > self.at:
            self.who, self.at, self.others_at = who, began, self.at
        elif began > self.others_at:
            self.others_at = began

    def others(self, who: object) -> int:
        """When the last attempt of anybody else that went well had begun (ns; 0: none did)."""
        return self.others_at if who == self.who else self.at


@dataclass(slots=True, eq=False)
class Trouble:
    """A business's attempts with a model on a replica, from the first that failed (``begun``,
    ns) on: ``row`` failed since the last that went well, the first of them at ``since`` and the
    last at ``last``; ``again`` of them since one of others went well that had begun after the one
    before; none took longer to fail than ``longest`` (ns). ``moved`` is a request that failed
    there, and may run elsewhere now; one that failed there went well elsewhere at ``saved``.

    Of the failures there those in ``own`` are known to be its own doing; of the ``pending`` ones,
    until ``cut`` (ns), and of the ``fresh`` ones after that it is not known yet."""

    standing: "Standing"
    begun: int
    since: int = 0
    last: int = 0
    row: int = 0
    again: int = 0
    longest: int = 0
    moved: "Request | None" = None
    saved: int = 0
    cut: int = 0
    pending: int = 0
    fresh: int = 0
    attempts: Tally = field(default_factory=Tally)
    own: Tally = field(default_factory=Tally)

    def fail(self, request: "Request", now: int, window: int, proof: int) -> None:
        """One more attempt has failed; the last of others that went well had begun at ``proof``."""
        if not self.row:
            self.since, self.longest = now, 0
        if proof >= self.last:
            self.again = 0
        self.row += 1
        self.again += 1
        self.fresh += 1
        self.last = now
        self.longest = max(self.longest, now - request.dispatched)
        if self.moved is None or not self.moved.running:
            self.moved = request
        self.attempts.note(now, window, failed=True)

    def settle(self, proof: int, now: int, window: int) -> None:
        """The replica is known to have served the model at ``proof`` (ns): what failed before
        was the business's own doing."""
        while self.pending or self.fresh:
            if not self.pending:
                self.pending, self.fresh, self.cut = self.fresh, 0, self.last
            if proof < self.cut:
                return
            self.own.note(now, window, failed=True, count=self.pending)
            self.pending = 0


@dataclass(slots=True, eq=False)
class Standing:
    """A model on one generation of a replica: attempts that were ``served`` well, who had the
    last of them, and the businesses whose attempts fail."""

    served: Tally = field(default_factory=Tally)
    witness: Witness = field(default_factory=Witness)
    failing: dict[str, Trouble] = field(default_factory=dict)


@dataclass(slots=True)
class Circuit:
    """The open breaker of a model on a replica: nothing goes there before ``until`` (ns), then
    so many ``probes`` at a time, while it is ``trying``. ``word`` is the business on whose
    failures alone it was opened; "" where there is more to go by. ``asked`` are others for whom
    it was tried before its time, which would have been ``due`` (ns)."""

    until: int
    probes: int
    word: str = ""
    trying: bool = False
    due: int = 0
    asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.due = self.due or self.until
