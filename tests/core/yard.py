"""A stage with a scaler: the core's orders are carried out by the real steering, on cards that
take their time to load, drain when they are told to, and break when the test says so."""

from collections.abc import Mapping

from scheduler.core import events
from scheduler.core.decisions import Decision, Scale
from scheduler.core.fleet import FleetSnapshot, ModelFacts, PoolFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.scaling import CardState, cards_told, with_cards
from scheduler.scaling.steering import Steering
from scheduler.testing import MemoryScaler

from .scene import MS, SECOND, SHARED, Scene

SLOTS = 4
LOAD = 20 * SECOND


class Yard(Scene):
    """``fixed`` replicas and cards, by name with their models, all of one pool unless told
    otherwise; cards of ``up`` are on from the start."""

    def __init__(
        self,
        *fixed: tuple[ReplicaFacts, PoolFacts],
        cards: Mapping[str, tuple[str, ...]],
        up: tuple[str, ...] = (),
        pool: PoolFacts = SHARED,
        policy: Policy | None = None,
        load: int = LOAD,
    ) -> None:
        self.scaler = MemoryScaler()
        self.steering = Steering(self.scaler)
        self.loads = load
        self.known: set[str] = set()
        self._due: dict[str, int] = {}
        self._was: dict[str, CardState] = {}
        self._dirty = False
        self._pool = pool
        for name, models in cards.items():
            state = CardState.UP if name in up else CardState.IDLE
            self.scaler.add(name, pool.name, state, models=models, slots=SLOTS)
        served = {m for facts, _ in fixed for m in facts.models}.union(*cards.values())
        pools = {pool.name: pool, **{held.name: held for _, held in fixed}}
        self._fleet = FleetSnapshot(1, pools, {name: ModelFacts(name) for name in served}, {})
        super().__init__(*fixed, policy=policy)
        self.scaler.attach(self._changed, lambda name: 0)
        self._changed()
        self._settle()

    # What happens.

    def step(self, event: events.Event) -> list[Decision]:
        """Any event, and what its orders lead to."""
        out = super().step(event)
        for decision in out:
            if isinstance(decision, Scale):
                self.steering.order(decision)
        if not isinstance(event, events.CardsChanged):
            self._settle()
        return out

    def wait(self, ns: int) -> list[Decision]:
        """Time passes; cards come when they have loaded, and go when nothing runs there."""
        until = self.now + ns
        while True:
            due = min(self._due.values(), default=until + 1)
            if due > until:
                super().wait(until - self.now)
                break
            super().wait(max(0, due - self.now))
            for name in [name for name, at in self._due.items() if at <= self.now]:
                del self._due[name]
                self.scaler.to(name, CardState.UP)
            self.steering.again()
            self._settle()
        return []

    def load(
        self, slots: int, seconds: int, lane: int = 1, model: str = "m", prompt: int = 0
    ) -> None:
        """So many requests of a second each come every second."""
        for _ in range(seconds):
            for _ in range(slots):
                self.arrive(lane=lane, model=model, prompt=prompt, output=min(prompt, 1))
            self.wait(SECOND)
            self.finish(*list(self.running))
            self._settle()

    def settle(self) -> None:
        """What drains and has nothing running is idle."""
        self._settle()

    def breaks(self, name: str) -> None:
        """A card's server ends by itself; it can't be started until it is ``mended``."""
        for request in self.on(name):
            del self.running[request]
            self.step(events.Cancelled(request))
        self._due.pop(name, None)
        self.scaler.to(name, CardState.BROKEN)
        self.steering.again()
        self._settle()

    def mended(self, name: str) -> None:
        """It can be started again."""
        self.scaler.to(name, CardState.IDLE)
        self.steering.again()
        self._settle()

    # What came of it.

    @property
    def used(self) -> list[str]:
        """Cards that are on."""
        return self.names(CardState.UP, CardState.STARTING)

    def names(self, *states: CardState) -> list[str]:
        """Cards in one of these states."""
        return [card.facts.name for card in self.scaler.cards() if card.state in states]

    @property
    def ordered(self) -> list[tuple[int, int]]:
        """(ready, desired) of each order."""
        return [(d.ready, d.desired) for d in self.log if isinstance(d, Scale)]

    @property
    def orders(self) -> list[Scale]:
        """All orders."""
        return [decision for decision in self.log if isinstance(decision, Scale)]

    # Between the two.

    def _changed(self) -> None:
        self._dirty = True

    def _settle(self) -> None:
        """Tell the core of the cards, as the runtime does, until nothing changes any more."""
        for card in self.scaler.cards():
            name = card.facts.name
            if card.state is CardState.STARTING and self._was.get(name) is not card.state:
                self._due[name] = self.now + self.loads
            elif card.state is CardState.DRAINING and not self.on(name):
                self.scaler.to(name, CardState.IDLE)
            self._was[name] = card.state
        while self._dirty:
            self._dirty = False
            self._tell_fleet()

    def _tell_fleet(self) -> None:
        cards = self.scaler.cards()
        told = with_cards(self._fleet, cards).replicas
        for name in sorted(self.known - told.keys()):
            self.known.discard(name)
            self.remove(name)
        for name, facts in told.items():
            held = self._cards.get(name)
            if held is None or held.facts != facts:
                self.known.add(name)
                self.add(facts, self._pool)
        self.step(events.CardsChanged(cards_told(self._fleet, cards)))
        self._settle()


__all__ = ["LOAD", "MS", "SLOTS", "Yard"]
