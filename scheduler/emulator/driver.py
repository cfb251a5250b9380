"""Steps the engine in real time: one timer per step, whatever the number of sequences."""

import asyncio
import logging
from collections.abc import Callable

from .engine import Engine, Output, Sequence

Sink = Callable[[Output], None]
# A step that ends late starts the next one at its planned end, so a busy machine does not
# slow the card down. Beyond this the card falls behind instead of running a burst of steps.
MAX_LAG_S = 0.25

logger = logging.getLogger(__name__)


class Driver:
    """Owns the engine; all its methods belong to one event loop.

    ``sink`` gets each of a sequence's outputs, in the turn of the loop in which the step
    ends, and must not block.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.max_running = 0
        self._sinks: dict[Sequence, Sink] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ends = 0.0

    def submit(self, sequence: Sequence, sink: Sink) -> None:
        """Queue a sequence. Raises ValueError where it can never fit."""
        loop = asyncio.get_running_loop()
        self.engine.submit(sequence, loop.time())
        self._sinks[sequence] = sink
        if self._timer is None:
            self._begin(loop.time())

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
        self._timer = asyncio.get_running_loop().call_at(ends, self._end)

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
        now = asyncio.get_running_loop().time()
        self._begin(self._ends if now - self._ends < MAX_LAG_S else now)
