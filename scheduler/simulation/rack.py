"""The cards of a world as scaling has them: put to use, drained, and what that costs.

Orders are carried out by what does so in the running system (``scheduler.scaling.steering``);
this is its driver. Elastic replicas may be given back only where the scenario has idle cards:
elsewhere nothing scales.
"""

from collections.abc import Callable, Sequence

from scheduler.core.decisions import Scale
from scheduler.core.fleet import CardFacts, ReplicaFacts
from scheduler.scaling import cards as scaling
from scheduler.scaling.cards import CardState
from scheduler.scaling.steering import Steering

from .cluster import Card
from .records import Records
from .scenario import SECOND, ReplicaSpec
from .workload import Workload


class Rack:
    """``clock`` gives the time (ns). ``load`` is asked to call ``loaded`` at a time with the
    card's index and version, ``tell`` to let the scheduler know of a card."""

    def __init__(
        self,
        cards: Sequence[Card],
        workload: Workload,
        records: Records,
        *,
        clock: Callable[[], int],
        load: Callable[[int, int, int], None],
        tell: Callable[[int], None],
    ) -> None:
        self._cards = cards
        self._workload = workload
        self._records = records
        self._clock, self._load, self._tell = clock, load, tell
        scenario = workload.scenario
        self._own = [
            place
            for place, card in enumerate(cards)
            if scenario.idle_cards and not card.spec.pool.dedicated
        ]
        self._able = [card.spec.hardware.able(scenario.models.values()) for card in cards]
        self._places = {card.spec.name: place for place, card in enumerate(cards)}
        for card in cards[len(scenario.replicas) :]:
            card.state, card.up = CardState.IDLE, False
        self._steering = Steering(self)

    def order(self, order: Scale) -> None:
        """What the core asks for."""
        self._steering.order(order)

    def told(self) -> tuple[CardFacts, ...]:
        """The cards as the core knows them, with all models that each could be started for."""
        found = []
        for place in self._own:
            card = self._cards[place]
            free = card.state in {CardState.IDLE, CardState.DRAINING} and not card.broken
            used = card.state in {CardState.STARTING, CardState.UP} and not card.broken
            models = frozenset(
                self._able[place] if card.state is CardState.IDLE else self._held(card)
            )
            slots = card.spec.hardware.slots
            found.append(CardFacts(card.spec.name, card.spec.pool, models, free, used, slots))
        return tuple(found)

    def cards(self) -> list[scaling.Card]:
        """See Driver."""
        found = []
        for place in self._own:
            card = self._cards[place]
            state = CardState.BROKEN if card.broken else card.state
            found.append(scaling.Card(facts(card.spec, self._held(card)), state))
        return found

    def start(self, card: str, model: str = "") -> bool:
        """See Driver. A card that is started for a model which its kind does not hold by
        itself holds that model alone."""
        place = self._places[card]
        found = self._cards[place]
        if place not in self._own or found.broken:
            return False
        if found.state is CardState.DRAINING:
            found.state = CardState.UP
            self._tell(place)
            return True
        if found.state is not CardState.IDLE or (model and model not in self._able[place]):
            return False
        self._begin(found, place, model)
        return True

    def drain(self, replica: str) -> bool:
        """See Driver."""
        place = self._places[replica]
        card = self._cards[place]
        if place not in self._own or card.broken or card.state is not CardState.UP:
            return False
        card.state = CardState.DRAINING
        self._tell(place)
        return True

    def loaded(self, place: int, version: int) -> None:
        """A card has loaded its models, unless it has been lost meanwhile."""
        card = self._cards[place]
        if card.state is CardState.STARTING and card.version == version:
            card.state, card.up = CardState.UP, True
            card.generation += 1
            self._tell(place)
            self._steering.again()

    def broke(self, place: int) -> None:
        """A fault has taken a card. One that was in use will be so again when it is mended."""
        card = self._cards[place]
        card.broken, card.up = True, False
        if card.state is not CardState.UP:
            card.state = CardState.IDLE
        self._steering.again()

    def mended(self, place: int) -> None:
        """The fault is over."""
        card = self._cards[place]
        card.broken = False
        if card.state is CardState.UP:
            card.up = True
            card.generation += 1
        self._steering.again()

    def look(self) -> None:
        """Every second: what has drained is idle. Counts the cards in use, from the moment
        that they start to load until they are idle, but while a fault has them."""
        for place in self._own:
            card = self._cards[place]
            if card.state is CardState.DRAINING and not card.running:
                card.state, card.up = CardState.IDLE, False
                self._records.given_back += 1
                self._tell(place)
                self._steering.again()
        used = sum(not (card.broken or card.state is CardState.IDLE) for card in self._cards)
        self._records.cards.append(self._records.cards[-1] + used)

    def _begin(self, card: Card, place: int, model: str) -> None:
        names = card.spec.models if not model or model in card.spec.models else (model,)
        card.load(names, self._workload)
        card.state = CardState.STARTING
        card.version += 1
        self._records.started += 1
        models = self._workload.scenario.models
        took = sum(models[name].load_s for name in names)
        self._load(self._clock() + round(took * SECOND), place, card.version)
        self._tell(place)

    def _held(self, card: Card) -> list[str]:
        return [self._workload.models[model] for model in card.models]


def facts(spec: ReplicaSpec, models: Sequence[str]) -> ReplicaFacts:
    """A card as the core sees it while it holds these models."""
    return ReplicaFacts(
        name=spec.name,
        url="",
        engine="",
        pool=spec.pool.name,
        slots=spec.hardware.slots,
        gpus=spec.hardware.gpus,
        kv_tokens=spec.hardware.kv_tokens,
        models={name: name for name in models},
        hot=spec.hot,
    )
