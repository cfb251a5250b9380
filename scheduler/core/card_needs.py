"""Why a pool wants cards: what runs and waits there, P0 that waits too long, and models that P0
waits for and no replica serves. How many cards that makes is for ``cards`` to say.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, exp
from typing import TYPE_CHECKING

from .backlog import slot_time
from .fleet import CardFacts
from .outstanding import closed
from .pool import lanes_let_in

if TYPE_CHECKING:
    from .replica import Replica
    from .state import State

MS = 1_000_000
NS = 1_000_000_000
# The slots held are a mean over about so long (ns), of samples not closer than so much.
MEMORY = 10 * NS
SAMPLED = NS
# Of a mean, what is less than so much (slots) is nothing.
NOTHING = 0.01


@dataclass(slots=True)
class Held:
    """Slots of a pool that each model's requests hold, those of P0 and P1 (``urgent``) and those
    of P2 (``patient``), as means as of ``at`` (ns; 0: nothing has been seen). What takes a card so
    far that it takes no more, be it prompts or KV cache, holds all of its slots."""

    urgent: dict[str, float] = field(default_factory=dict)
    patient: dict[str, float] = field(default_factory=dict)
    at: int = 0

    def sample(self, members: "Iterable[Replica]", now: int) -> None:
        """Take in what the pool's replicas hold now."""
        if self.at and now - self.at < SAMPLED:
            return
        keep = exp((self.at - now) / MEMORY) if self.at else 0.0
        self.at = now
        for means in (self.urgent, self.patient):
            for model, mean in list(means.items()):
                means[model] = mean * keep
                if means[model] < NOTHING:
                    del means[model]
        for replica in members:
            each = _fullness(replica) * replica.facts.slots / max(1, replica.running)
            for request in replica.holds.values():
                means = self.patient if request.lane == 2 else self.urgent
                model = request.ticket.model
                means[model] = means.get(model, 0.0) + each * (1.0 - keep)


def _fullness(replica: "Replica") -> float:
    """How much of a replica is taken (0-1), in what there is least of."""
    found = replica.running / replica.facts.slots
    if closed(replica, 2):
        return 1.0
    most = replica.facts.kv_tokens
    return max(found, min(1.0, replica.kv_used / most)) if most else found


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool as it is now: its replicas (``members``), those of them that take work, of these the
    ones that are no cards of the scaler, and the scaler's cards in it."""

    name: str
    dedicated: bool
    members: "tuple[Replica, ...]"
    serving: "tuple[Replica, ...]"
    fixed: "tuple[Replica, ...]"
    cards: tuple[CardFacts, ...]

    @property
    def slots(self) -> float:
        """Slots of a card, on average."""
        known = [replica.facts.slots for replica in self.serving]
        known = known or [card.slots for card in self.cards if card.slots]
        return sum(known) / len(known) if known else 1.0

    def ready(self, model: str) -> int:
        """How many of its replicas take work of a model."""
        return sum(model in replica.facts.models for replica in self.serving)

    def models(self) -> list[str]:
        """What it serves, or could."""
        own = {model for replica in self.serving for model in replica.facts.models}
        return sorted(own.union(*(card.models for card in self.cards)))


@dataclass(frozen=True, slots=True)
class Needs:
    """``load``: slots by model. ``backlog``: replicas that should serve a model whose P0 waits too
    long. ``cold``: models for which a card is started, or kept. ``scales``: the first two count,
    and what they do not need may go."""

    load: dict[str, float]
    backlog: dict[str, int]
    cold: list[str]
    scales: bool


def by_load(state: "State", pool: PoolView, held: Held) -> dict[str, float]:
    """Slots that each model needs in an elastic pool, for what runs and for what waits. P1's
    backlog is to be gone within half its latency budget, beside what runs. P2's is not to become
    overdue: it needs the slots that it holds, or those that start its backlog within half that
    time, whichever is more; and they are headroom for the others, to whom it yields."""
    scale, queues = state.policy.backpressure.scale, state.policy.queues
    drain, budget = scale.drain_s * NS, queues.P1.latency_budget_ms
    soon = drain if budget is None else max(drain, budget * MS / 2)
    late = max(1, queues.P2.max_wait_ms * MS / 2)
    found = {}
    for model in pool.models():
        urgent = held.urgent.get(model, 0.0) + _waiting(state, pool, model, 1) / soon
        patient = max(held.patient.get(model, 0.0), _waiting(state, pool, model, 2) / late)
        need = urgent + max(urgent * scale.headroom, patient)
        if need:
            found[model] = need
    return found


def by_backlog(state: "State", pool: PoolView) -> dict[str, int]:
    """How many replicas of an elastic pool should serve each model whose P0 waits too long: those
    that do, and as many as its backlog needs to be gone within ``drain_s``, ceil(backlog / (slots
    of a card x that time) x (1 + headroom)), the backlog in slot time (ns)."""
    scale = state.policy.backpressure.scale
    found = {}
    for model in state.pressure.pressed():
        work = _waiting(state, pool, model, 0)
        if work:
            short = work / (pool.slots * scale.drain_s * NS) * (1.0 + scale.headroom)
            found[model] = pool.ready(model) + ceil(short)
    return found


def by_cold_start(state: "State", pool: PoolView) -> list[str]:
    """Models for which a card of the pool is started, or kept."""
    return sorted(model for model, start in state.cold.items() if start.pool == pool.name)


def _waiting(state: "State", pool: PoolView, model: str, lane: int) -> float:
    """Slot time (ns) of the lane's backlog of a model that falls to an elastic pool: by the cards
    for it that pools could add, or where none has any by the slots there are."""
    if (model, lane) not in state.queues.waiting:
        return 0.0
    more, slots = {pool.name: 0}, {pool.name: 0}
    for card in state.cards.values():
        if (
            (card.on or card.startable)
            and model in card.models
            and not card.pool.dedicated
            and lane in lanes_let_in(card.pool, state.policy)
        ):
            held = state.replicas.get(card.name)
            if held is None or not held.serving():
                more[card.pool.name] = more.get(card.pool.name, 0) + 1
    for replica in state.replicas.values():
        name = replica.pool.name
        if replica.serving() and not replica.pool.dedicated and model in replica.serves[lane]:
            slots[name] = slots.get(name, 0) + replica.facts.slots
    parts = more if any(more.values()) else slots
    if not parts[pool.name]:
        return 0.0
    return slot_time(state, lane, model, pool.slots) * parts[pool.name] / sum(parts.values())
