"""Steps the engine in real time: one timer per step, whatever the number of sequences."""

import logging
from collections.abc import Callable
from typing import Protocol

from .engine import Engine, Output, Sequence

Sink = Callable[[Output], None]
# A step that ends late starts the next one at its planned end, so a busy machine does not
# slow the card down. Beyond this the card falls behind instead of running a burst of steps.
MAX_LAG_S = 0.25

logger = logging.getLogger(__name__)


def _nothing() -> None:
    """Nobody listens."""


class Timer(Protocol):
    """A call to come."""

    def cancel(self) -> None:
        """Drop it."""


class Timers(Protocol):
    """The part of an event loop that knows the time, in seconds."""

    def time(self) -> float:
        """Now."""

    def call_at(self, when: float, callback: Callable[[], None], /) -> Timer:
        """Call back then."""


class Driver:
    """Owns the engine; all its methods belong to the event loop of ``timers``.

    ``sink`` gets each of a sequence's outputs, in the turn of the loop in which the step
    ends, and must not block.
    """

    def __init__(self, engine: Engine, timers: Timers) -> None:
        self.engine = engine
        # Called when a step is over, and what it changed in the cache with it.
        self.on_step: Callable[[], None] = _nothing
        self._timers = timers
        self.max_running = 0
        self._sinks: dict[Sequence, Sink] = {}
        self._timer: Timer | None = None
        self._ends = 0.0

    def submit(self, sequence: Sequence, sink: Sink) -> None:
        """Queue a sequence. Raises ValueError where it can never fit."""
        now = self._timers.time()
        self.engine.submit(sequence, now)
        self._sinks[sequence] = sink
        if self._timer is None:
            self._begin(now)

    def abort(self, sequence: Sequence, *, outcome: str = "abort") -> None:
        """Stop a sequence at once; nothing happens to one that is over."""
        self._sinks.pop(sequence, None)
        self.engine.abort(sequence, outcome)

    def stop(self) -> None:
        """Take no more steps."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._sinks.clear()

    def _begin(self, now: float) -> None:
        ends = self.engine.begin_step(now)
        self.max_running = max(self.max_running, len(self.engine.running))
        if ends is None:
            self._timer = None
            return
        self._ends = ends
        self._timer = self._timers.call_at(ends, self._end)

    def _end(self) -> None:
        for output in self.engine.end_step(self._ends):
            sink = self._sinks.get(output.sequence)
            if sink is None:
                continue
            if output.finish is not None:
                del self._sinks[output.sequence]
            try:
                sink(output)
            except Exception:  # one broken call must not stop the card for the others
                logger.exception("a call failed while taking its output")
                self.abort(output.sequence)
        now = self._timers.time()
        self._begin(self._ends if now - self._ends < MAX_LAG_S else now)
        self.on_step()
