"""One generation of a replica, with our own count of what it holds."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .fleet import PoolFacts, ReplicaFacts
from .pool import PoolUse
from .standing import Circuit, Standing, Witness

if TYPE_CHECKING:
    from .group import Group
    from .request import Request

BUSY_LEAST = 250_000_000
BUSY_MOST = 8_000_000_000
# Standard deviations of what runs that the KV cache has to spare.
SPARE = 2.0
NOTHING: tuple[frozenset[str], frozenset[str], frozenset[str]] = (frozenset(),) * 3
# Until a first request has been stopped there (ns).
STOPPING_PRIOR = 50_000_000
STOPPING_MEMORY = 8


@dataclass(slots=True, eq=False)
class Replica:
    """``running`` requests and ``kv_used`` tokens are counted from the moment of dispatch, never
    read from the engine, whose figures lag. ``gpu``, ``memory`` and ``queue`` are the engine's own
    figures, as of ``measured`` (ns). ``holds`` has the requests that run here, of which
    ``turnover`` end and ``kv_turnover`` tokens come free per ns by expectation, ``kv_variance`` is
    that of ``kv_used`` (tokens squared), with ``kv_named`` of these in blocks that they may have in
    common, and of which those in ``stoppable`` may be stopped for
    others, the newest last; ``lanes`` those let in by pool and policy, ``lanes_warm`` those let in
    once it is ``warm``, ``serves`` the models by lane, but for those that ``rest`` there (see
    ``paths``). Layouts bring that up to date. ``use`` is its part's of the pool; ``counted`` says
    that its free slots are in the state's count. ``stopping`` is how long it takes a request to
    stop (ns). ``picked`` requests started here in the last second. While it is ``held`` for P0 that
    waits too long, P2 is not started here. ``witness`` says which business and model was served
    well here last (by ``Conduct``), ``standings`` how each model has fared, ``circuits`` are the
    open breakers by model. ``prefills`` has the requests whose first token is not there, with the
    ns that their prefill is to take, until when it is believed to, a reading of ``shared`` (see
    ``outstanding``) and their lane; ``prefill_ns`` is the sum by lane, ``prefilled`` when the last
    was over (ns); ``area`` is the integral of ``running``, ``shared`` that of 1 / prefills, as of
    ``touched`` (ns). ``kind`` is what the fleet says of such a card, ``speed_class`` how fast it is
    compared to its kind (0: as fast); ``group`` are the replicas that are alike in all of this,
    ``group_key`` is its name."""

    facts: ReplicaFacts
    pool: PoolFacts
    generation: int
    ready: bool
    use: PoolUse = field(default_factory=PoolUse)
    counted: bool = False
    running: int = 0
    kv_used: int = 0
    busy_until: int = 0
    busy_for: int = 0
    gpu: float | None = None
    memory: float | None = None
    queue: int | None = None
    measured: int = 0
    turnover: float = 0.0
    kv_turnover: float = 0.0
    kv_variance: float = 0.0
    stoppable: "dict[str, Request]" = field(default_factory=dict)
    stopping: int = STOPPING_PRIOR
    warm: bool = True
    lanes: frozenset[int] = frozenset()
    lanes_warm: frozenset[int] = frozenset()
    serves: tuple[Collection[str], Collection[str], Collection[str]] = NOTHING
    rest: tuple[frozenset[str], frozenset[str], frozenset[str]] = NOTHING
    picked: int = 0
    held: bool = False
    witness: Witness = field(default_factory=Witness)
    standings: dict[str, Standing] = field(default_factory=dict)
    circuits: dict[str, Circuit] = field(default_factory=dict)
    holds: "dict[str, Request]" = field(default_factory=dict)
    prefills: dict[str, tuple[float, int, float, int]] = field(default_factory=dict)
    prefill_ns: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    area: float = 0.0
    shared: float = 0.0
    touched: int = 0
    prefilled: int = 0
    cache_tokens: int | None = None
    kv_named: int = 0
    kind: str = ""
    speed_class: int = 0
    group_key: str = ""
    group: "Group | None" = None

    def takes(self, model: str, lane: int, level: int) -> bool:
        """Whether it holds the model, its lanes and bounds let this lane and level in, and so
        does the model's breaker."""
        least, most = self.facts.levels
        if not (model in self.serves[lane] and least <= level <= most):
            return False
        return not self.circuits or self.admits(model)

    def could_take(self, model: str, lane: int, level: int) -> bool:
        """The same, were the model's breaker closed."""
        least, most = self.facts.levels
        held = model in self.facts.models and model not in self.rest[lane]
        return held and lane in self.lanes and least <= level <= most

    def will_take(self, model: str, lane: int, level: int) -> bool:
        """The same, now or as soon as it is warm."""
        least, most = self.facts.levels
        return model in self.facts.models and lane in self.lanes_warm and least <= level <= most

    def lay(self, lanes: frozenset[int]) -> None:
        """Lanes let in by pool and policy; what rests, or is left alone, is known."""
        self.lanes_warm = lanes
        self.lanes = lanes if self.warm else lanes - {0}
        models: Collection[str] = self.facts.models
        if self.circuits:
            alone = self.left_alone
            models = [model for model in models if model not in alone]
        self.serves = (
            self._served(0, models) if 0 in self.lanes else (),
            self._served(1, models) if 1 in self.lanes else (),
            self._served(2, models) if 2 in self.lanes else (),
        )

    def _served(self, lane: int, models: Collection[str]) -> Collection[str]:
        rest = self.rest[lane]
        return tuple(model for model in models if model not in rest) if rest else models

    @property
    def left_alone(self) -> list[str]:
        """Models that nothing goes to for now, in order."""
        return sorted(model for model, circuit in self.circuits.items() if not circuit.trying)

    def serving(self) -> bool:
        """Whether it takes new work at all."""
        return self.ready and not self.facts.draining

    def open(self, now: int) -> bool:
        """Whether a slot may be given out now."""
        return (
            self.ready
            and self.running < self.facts.slots
            and not self.facts.draining
            and self.busy_until <= now
        )

    def cache_room(self) -> int:
        """Tokens that its prefix cache has room for, with blocks of what runs; 0: not known."""
        most = self.cache_tokens or self.facts.kv_tokens
        return max(1, most - self.kv_used + self.kv_named) if most else 0

    def need(self, tokens: int) -> int:
        """KV tokens to reserve: at most all there are, for the engine judges what is too long."""
        return min(tokens, self.facts.kv_tokens) if self.facts.kv_tokens else 0

    def fits(self, tokens: int, variance: float = 0.0) -> bool:
        """Whether the KV cache has room beside what runs for a request of so many tokens, of which
        the ``variance`` (tokens squared) is known: for what all of it usually comes to, and two
        standard deviations of that to spare. An engine that runs short computes again."""
        most = self.facts.kv_tokens
        if not most or not self.running:
            return True
        spare: float = SPARE * max(0.0, self.kv_variance + variance) ** 0.5
        return self.kv_used + self.need(tokens) + spare <= most

    def hold_off(self, now: int) -> None:
        """The engine said it is busy: leave it alone, each time in a row twice as long."""
        if now < self.busy_until:
            return  # said by attempts of before
        self.busy_for = min(max(2 * self.busy_for, BUSY_LEAST), BUSY_MOST)
        self.busy_until = now + self.busy_for

    def note_stop(self, took: int) -> None:
        """Learn how long a stop takes here: engines differ, and so does what they save."""
        self.stopping += (took - self.stopping) // STOPPING_MEMORY

    def standing(self, model: str) -> Standing:
        """How the model stands here, made on first sight."""
        found = self.standings.get(model)
        if found is None:
            found = self.standings[model] = Standing()
        return found

    def admits(self, model: str) -> bool:
        """Whether the model's breaker lets one more request through."""
        circuit = self.circuits.get(model)
        if circuit is None:
            return True
        if not circuit.trying:
            return False
        trials = sum(
            request.ticket.model == model and request.dispatched >= circuit.until
            for request in self.holds.values()
        )
        return trials < circuit.probes
