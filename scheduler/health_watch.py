"""What is known of one replica under watch."""

import asyncio
import math
from collections import deque
from dataclasses import dataclass, field

from .core.fleet import PoolFacts, ReplicaFacts
from .core.policy import Failover

# Downs longer ago than this are forgotten.
RECENT_S = 60.0


@dataclass(slots=True)
class Watch:
    """``number`` is its probes'. ``ready`` None: not yet probed. ``tripped``: a request could not
    reach it, and no probe has since; ``tripped_at`` is when. ``warm``: P0 may run there.
    ``gone``: since it was last ready nobody listened there. ``silent`` counts probes in a row
    without a sign of life. Times are the loop's, in seconds."""

    facts: ReplicaFacts
    pool: PoolFacts
    generation: int
    number: int = -1
    ready: bool | None = None
    warm: bool = False
    gone: bool = False
    tripped: bool = False
    tripped_at: float = -math.inf
    silent: int = 0
    well_since: float | None = None
    downs: deque[float] = field(default_factory=deque)
    judged: asyncio.Event = field(default_factory=asyncio.Event)
    warming: asyncio.Task[None] | None = None

    @property
    def state(self) -> str:
        """ready, down, draining or unknown."""
        if self.ready is None:
            return "unknown"
        if not self.ready:
            return "down"
        return "draining" if self.facts.draining else "ready"

    def note(self, *, well: bool, gone: bool, now: float) -> None:
        """A probe's verdict."""
        self.gone |= gone
        if not well:
            self.note_down(now)
        elif self.well_since is None:
            self.well_since = now

    def note_down(self, now: float) -> None:
        """It is not well; if it was before, that is remembered."""
        if self.well_since is not None:
            self.well_since = None
            self.downs.append(now)

    def may_serve(self, now: float, rules: Failover) -> bool:
        """Whether it is well, and for long enough. One that keeps coming and going has to stay
        for a while: each time it goes it takes running requests along."""
        if self.well_since is None:
            return False
        if self.ready:
            return True
        while self.downs and self.downs[0] < now - max(RECENT_S, rules.open_s):
            self.downs.popleft()
        held = len(self.downs) >= rules.fail_threshold
        return not held or now - self.well_since >= rules.open_s
