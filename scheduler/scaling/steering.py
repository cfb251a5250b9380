"""What the core asks for, made so by a driver: which cards of a pool are to be on."""

import logging
from collections.abc import Sequence
from typing import Protocol

from scheduler.core.decisions import Scale
from scheduler.guard import shielded

from .cards import Card, CardState

log = logging.getLogger(__name__)


class Driver(Protocol):
    """What of ``ports.Scaler`` is made use of here."""

    def cards(self) -> Sequence[Card]:
        """All cards there are."""
        ...

    def start(self, card: str, model: str = "") -> bool:
        """Put one to use; False for one that can't be."""
        ...

    def drain(self, replica: str) -> bool:
        """Take one out of use; False for one that can't be."""
        ...


class Steering:
    """The last order of a pool stands: a card that could not be started when it was ordered is as
    soon as it can be, and one that was still starting when it was not wanted any more is given
    back when it is there. Nothing is decided here."""

    def __init__(self, scaler: Driver) -> None:
        self._scaler = scaler
        self._orders: dict[str, dict[str, str]] = {}
        self._at_it = False

    def order(self, scale: Scale) -> None:
        """These cards of the pool are to be on, and no others."""
        self._orders[scale.pool] = dict(scale.cards)
        self.again()

    def again(self) -> None:
        """Cards have changed: what was ordered may be possible now, or be missing again."""
        if self._at_it:
            return  # what is done here changes cards too
        self._at_it = True
        try:
            for card in self._scaler.cards():
                # What a driver cannot do with one card keeps no other waiting.
                shielded(f"card {card.facts.name} is left as it is", self._see_to, card)
        finally:
            self._at_it = False

    def _see_to(self, card: Card) -> None:
        facts, wanted = card.facts, self._orders.get(card.facts.pool)
        if wanted is None:
            return
        if facts.name in wanted:
            if card.state in (CardState.UP, CardState.STARTING):
                return
            if self._scaler.start(facts.name, wanted[facts.name]):
                log.info("pool %s: %s is started", facts.pool, facts.name)
        elif card.state is CardState.UP and self._scaler.drain(facts.name):
            log.info("pool %s: %s is drained", facts.pool, facts.name)
