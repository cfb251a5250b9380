"""Cards that a driver may put to use, and the fleet with those that it has."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from scheduler.core.fleet import CardFacts, FleetSnapshot, ReplicaFacts

log = logging.getLogger(__name__)


class CardState(Enum):
    """Where a card is on its way round.

    IDLE -> STARTING -> UP -> DRAINING -> STOPPING -> IDLE; BROKEN is what could not be
    started or ended by itself, until it is tried again.
    """

    IDLE = "idle"
    STARTING = "starting"  # its server does not listen yet
    UP = "up"  # it listens; whether it is ready is for the health checks to say
    DRAINING = "draining"  # no new work; what runs there runs to its end
    STOPPING = "stopping"  # nothing runs there any more
    BROKEN = "broken"


# In these it is a replica of the fleet.
SERVING = frozenset({CardState.UP, CardState.DRAINING})


@dataclass(frozen=True, slots=True)
class CardSpec:
    """One card: the replica that it becomes, and the program that serves it (``emulator`` or
    ``llama``) with further ``arguments`` of that program."""

    name: str
    pool: str
    run: str
    slots: int = 1
    gpus: float = 1.0
    kv_tokens: int | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """A card as it is now: ``facts`` of the replica that it is or would be (``url`` empty
    while there is none)."""

    facts: ReplicaFacts
    state: CardState


def cards_told(fleet: FleetSnapshot, cards: Iterable[Card]) -> tuple[CardFacts, ...]:
    """The cards as the core knows them: those that may be started, draining ones among them, and
    those in use, of pools and with models that the fleet has."""
    return tuple(
        CardFacts(
            card.facts.name,
            fleet.pools[card.facts.pool],
            frozenset(card.facts.models.keys() & fleet.models.keys()),
            startable=card.state in {CardState.IDLE, CardState.DRAINING},
            on=card.state in {CardState.STARTING, CardState.UP},
            slots=card.facts.slots,
        )
        for card in cards
        if card.facts.pool in fleet.pools and card.facts.name not in fleet.replicas
    )


def with_cards(fleet: FleetSnapshot, cards: Iterable[Card]) -> FleetSnapshot:
    """The fleet, and beside its own replicas the cards that serve. What the fleet file names
    comes first; a card of a pool or with models that the fleet does not know is left out."""
    replicas = dict(fleet.replicas)
    for card in cards:
        facts = card.facts
        if card.state not in SERVING:
            continue
        if facts.name in fleet.replicas or facts.pool not in fleet.pools:
            log.warning("card %s is no part of the fleet: its name or pool is not free", facts.name)
            continue
        known = {public: own for public, own in facts.models.items() if public in fleet.models}
        draining = card.state is CardState.DRAINING
        replicas[facts.name] = replace(facts, models=known, draining=draining)
    return replace(fleet, replicas=replicas)
