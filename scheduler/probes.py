"""Each replica's own figures, told to the scheduler every few seconds.

They only help to choose among replicas. How much a replica takes at once is our own count,
whatever its metrics say. Pages are read and averaged in the probing process.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from .core.events import Measured
from .core.fleet import FleetSnapshot, ReplicaFacts
from .core.policy import Placement
from .probing.messages import Figures
from .probing.prober import Prober
from .readings import Reading

log = logging.getLogger(__name__)

# Above its slots by our count, somebody else must be using it.
FOREIGN = 0.5


@dataclass(slots=True)
class Watch:
    """One replica under watch, by the number of its pages, and what of it was logged."""

    facts: ReplicaFacts
    number: int
    failing: bool = False
    shared: bool = False


class Probes:
    """``tell`` hears of each replica after each reading. Belongs to one event loop."""

    def __init__(self, tell: Callable[[Measured], None], prober: Prober) -> None:
        self._watches: dict[str, Watch] = {}
        self._numbered: dict[int, Watch] = {}
        self._tell = tell
        self._prober = prober
        prober.on_figures = self._measured
        self.set_policy(Placement())

    def set_policy(self, policy: Placement) -> None:
        """How often from now on, and over how long means are taken."""
        self._prober.pace(policy.metrics_every_s, policy.metrics_window_s)

    def watch(self, fleet: FleetSnapshot) -> None:
        """Follow a fleet. A replica that moved is another: what it said before is forgotten."""
        for name in self._watches.keys() - fleet.replicas.keys():
            self._drop(self._watches.pop(name))
        for name, facts in fleet.replicas.items():
            known = self._watches.get(name)
            if known is not None and _pages(known.facts) == _pages(facts):
                known.facts = facts
                continue
            if known is not None:
                self._drop(known)
            number = self._prober.read(*_pages(facts))
            self._watches[name] = self._numbered[number] = Watch(facts, number)

    def _drop(self, watch: Watch) -> None:
        del self._numbered[watch.number]
        self._prober.drop(watch.number)

    def _measured(self, figures: Figures) -> None:
        watch, mean = self._numbered[figures.number], figures.mean
        self._note_sharing(watch, mean)
        if figures.problem and not watch.failing:
            log.info("metrics of replica %s: %s", watch.facts.name, figures.problem)
        watch.failing = bool(figures.problem)
        queue = None if mean.queue is None else round(mean.queue)
        cache = None if mean.cache_tokens is None else round(mean.cache_tokens)
        self._tell(Measured(watch.facts.name, mean.gpu, mean.memory, queue, cache))

    def _note_sharing(self, watch: Watch, mean: Reading) -> None:
        shared = mean.running is not None and mean.running > watch.facts.slots + FOREIGN
        if shared and not watch.shared:
            log.warning(
                "replica %s runs %.0f requests on %d slots: somebody else uses it too",
                watch.facts.name,
                mean.running,
                watch.facts.slots,
            )
        watch.shared = shared


def _pages(facts: ReplicaFacts) -> tuple[tuple[str, ...], str]:
    """Where a replica's figures stand, its engine's page and its card's where there is one, and
    whose names they have."""
    own = facts.metrics_url or facts.url.rstrip("/") + "/metrics"
    return ((own, facts.dcgm_url) if facts.dcgm_url else (own,)), facts.engine
