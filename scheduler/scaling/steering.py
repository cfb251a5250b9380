"""What the core asks for, made so by a driver: how many cards of a pool are to take work, and
for which models one is to be kept."""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from scheduler.core.decisions import Scale, Warm

from .cards import Card, CardState

log = logging.getLogger(__name__)

ON = (CardState.UP, CardState.STARTING)


class Driver(Protocol):
    """What of ``ports.Scaler`` is made use of here."""

    def cards(self) -> Sequence[Card]:
        """All cards there are."""
        ...

    def start(self, pool: str, count: int, model: str = "") -> int:
        """Put up to so many to use; returns how many that is."""
        ...

    def drain(self, replica: str) -> bool:
        """Take one out of use; False for one that can't be."""
        ...


class Steering:
    """``serving`` names a pool's replicas that take work, ``running`` says how many requests one
    has. The last order of a pool stands: of one for more, a card that breaks is replaced; of
    one for less, a card that was still starting is given back when it is there. A card that is
    kept for a model counts towards more, and is not given back for less."""

    def __init__(
        self,
        scaler: Driver,
        serving: Callable[[str], Collection[str]],
        running: Callable[[str], int],
    ) -> None:
        self._scaler = scaler
        self._serving = serving
        self._running = running
        self._orders: dict[str, Scale] = {}
        self._kept: dict[str, Warm] = {}
        self._leaving: set[str] = set()
        self._at_it = False

    def order(self, scale: Scale) -> None:
        """The pool should have so many cards."""
        self._orders[scale.pool] = scale
        self.again()

    def warm(self, order: Warm) -> None:
        """A card of the pool should serve the model, or need not any more."""
        before = self._kept.pop(order.model, None)
        if order.cards:
            self._kept[order.model] = order
        elif before is not None:
            scale = self._orders.get(before.pool)
            # Where more are wanted it is one of them.
            if scale is None or scale.desired <= scale.ready:
                self._leaving.update(self._holders(before)[:1])
        self.again()

    def again(self) -> None:
        """Cards have changed: what was ordered may be possible now, or be missing again."""
        if self._at_it:
            return  # what is done here changes cards too
        self._at_it = True
        try:
            for order in self._kept.values():
                self._keep(order)
            self._let_go()
            for scale in list(self._orders.values()):
                if scale.desired > scale.ready:
                    self._more(scale.pool, scale.desired)
                else:
                    self._fewer(scale.pool, scale.desired)
        finally:
            self._at_it = False

    def _keep(self, order: Warm) -> None:
        if not self._holders(order) and self._scaler.start(order.pool, 1, order.model):
            log.info("pool %s: a card is started for %s", order.pool, order.model)

    def _holders(self, order: Warm) -> list[str]:
        """Cards in use that serve the order's model, the one that is kept for it first."""
        found = [
            (ON.index(card.state), card.facts.name)
            for card in self._cards(order.pool)
            if card.state in ON and order.model in card.facts.models
        ]
        return [name for _, name in sorted(found)]

    def _reserved(self, pool: str) -> set[str]:
        orders = [order for order in self._kept.values() if order.pool == pool]
        return {name for order in orders for name in self._holders(order)[:1]}

    def _let_go(self) -> None:
        """Give back what was kept for a model, as soon as it can be drained."""
        for card in self._scaler.cards():
            name = card.facts.name
            if name not in self._leaving or card.state is CardState.STARTING:
                continue
            self._leaving.discard(name)
            if card.state is CardState.UP and name not in self._reserved(card.facts.pool):
                log.info("card %s is drained: its model is not needed", name)
                self._scaler.drain(name)

    def _more(self, pool: str, desired: int) -> None:
        serving = self._serving(pool)
        coming = sum(
            card.state is CardState.STARTING
            or (card.state is CardState.UP and card.facts.name not in serving)
            for card in self._cards(pool)
        )
        missing = desired - len(serving) - coming
        if missing > 0:
            begun = self._scaler.start(pool, missing)
            if begun:
                log.info("pool %s is to have %d cards: %d more are started", pool, desired, begun)

    def _fewer(self, pool: str, desired: int) -> None:
        """Give back the emptiest of those that were started here."""
        cards, kept = self._cards(pool), self._reserved(pool)
        ours = {card.facts.name for card in cards if card.state is CardState.UP} - kept
        others = {card.facts.name for card in cards} - ours
        surplus = len(ours | (set(self._serving(pool)) - others)) - desired
        emptiest = sorted(ours, key=lambda name: (self._running(name), name))
        for name in emptiest[: max(0, surplus)]:
            log.info("pool %s is to have %d cards: %s is drained", pool, desired, name)
            self._scaler.drain(name)

    def _cards(self, pool: str) -> list[Card]:
        return [card for card in self._scaler.cards() if card.facts.pool == pool]
