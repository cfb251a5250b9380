"""What the core asks for, made so by a driver: how many cards of a pool are to take work."""

import logging
from collections.abc import Callable, Collection

from scheduler.core.decisions import Scale
from scheduler.ports import Scaler

from .cards import Card, CardState

log = logging.getLogger(__name__)


class Steering:
    """``serving`` names a pool's replicas that take work, ``running`` says how many requests one
    has. The last order of a pool stands: of one for more, a card that breaks is replaced; of
    one for less, a card that was still starting is given back when it is there."""

    def __init__(
        self,
        scaler: Scaler,
        serving: Callable[[str], Collection[str]],
        running: Callable[[str], int],
    ) -> None:
        self._scaler = scaler
        self._serving = serving
        self._running = running
        self._orders: dict[str, Scale] = {}
        self._at_it = False

    def order(self, scale: Scale) -> None:
        """The pool should have so many cards."""
        self._orders[scale.pool] = scale
        self.again()

    def again(self) -> None:
        """Cards have changed: what was ordered may be possible now, or be missing again."""
        if self._at_it:
            return  # what is done here changes cards too
        self._at_it = True
        try:
            for scale in list(self._orders.values()):
                if scale.desired > scale.ready:
                    self._more(scale.pool, scale.desired)
                else:
                    self._fewer(scale.pool, scale.desired)
        finally:
            self._at_it = False

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
        cards = self._cards(pool)
        ours = {card.facts.name for card in cards if card.state is CardState.UP}
        going = {card.facts.name for card in cards} - ours
        surplus = len(ours | (set(self._serving(pool)) - going)) - desired
        emptiest = sorted(ours, key=lambda name: (self._running(name), name))
        for name in emptiest[: max(0, surplus)]:
            log.info("pool %s is to have %d cards: %s is drained", pool, desired, name)
            self._scaler.drain(name)

    def _cards(self, pool: str) -> list[Card]:
        return [card for card in self._scaler.cards() if card.facts.pool == pool]
