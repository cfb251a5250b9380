"""What the scheduler remembers of each pool's cards."""

from dataclasses import dataclass, field

from .card_needs import Held

PARTS = 4
# A load that is higher by so much (as a share) than it was before grows.
GROWS = 0.01


@dataclass(slots=True)
class Plan:
    """Of one pool: the replicas that it should have (``desired``), and of the scaler's cards those
    among them, by name with the model that each is to serve first. ``ready`` replicas took work as
    seen last. ``told``: the cards that were told last. ``cold``: those that were started for P0 of
    a model alone; ``leaving``: those told to go that have not yet; ``absent``: since when (ns) one
    that is on takes no work. ``most`` is the largest load (slots by model) in each of the last
    parts of the time that it must be low for, the one that began at ``part`` (ns) first. P0 waited
    too long at ``pressed`` last (ns; 0: it has been calm since); for its sake cards were first
    asked for at ``grown`` (ns; 0: they were not), when ``base`` replicas were ready. ``given_up``:
    they have not helped."""

    desired: int
    cards: dict[str, str] = field(default_factory=dict)
    ready: int = 0
    told: set[str] = field(default_factory=set)
    cold: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    absent: dict[str, int] = field(default_factory=dict)
    held: Held = field(default_factory=Held)
    most: list[dict[str, float]] = field(default_factory=lambda: [{}])
    part: int = 0
    pressed: int = 0
    grown: int = 0
    base: int = 0
    given_up: bool = False

    def note_load(self, load: dict[str, float], now: int, settle: int) -> None:
        """Keep the largest load of each part of ``settle`` (ns)."""
        if now - self.part >= settle / PARTS:
            self.part, self.most = now, [{}, *self.most[:PARTS]]
        if sum(load.values()) >= sum(self.most[0].values()):
            self.most[0] = load

    @property
    def settled(self) -> bool:
        """Whether the largest load of late is known, and it does not grow."""
        work = [sum(load.values()) for load in self.most]
        return len(work) > PARTS and work[0] <= (1.0 + GROWS) * max(work[1:])

    @property
    def largest(self) -> dict[str, float]:
        """The largest load of late, model by model."""
        found: dict[str, float] = {}
        for load in self.most:
            for model, slots in load.items():
                found[model] = max(slots, found.get(model, 0.0))
        return found

    def take(self, desired: int, cards: dict[str, str], cold: list[str]) -> None:
        """What was decided. Cards that come for a model of those that are ``cold`` do so for P0."""
        self.leaving = (self.leaving | (self.told - cards.keys())) - cards.keys()
        new = {name for name, model in cards.items() if name not in self.cards and model in cold}
        self.cold = (self.cold | new) & cards.keys()
        self.desired, self.cards, self.told = desired, dict(cards), set(cards)

    def drop(self, name: str) -> None:
        """A card is no part of it any more."""
        del self.cards[name]
        self.cold.discard(name)
