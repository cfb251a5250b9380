"""Which of the cards there are it takes to do some work, where not all serve the same models.

The work of a model may be split over all that serve it. How much of it some cards can do is the
largest flow from cards to models, which is kept up card by card along augmenting paths (Ford and
Fulkerson): what one more would bring is exact, whichever models the others have been given.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

# Work for so little of a card is left to the others, so that cards do not come and go for it.
LACK = 0.1
# What is less (slots) is a rounding error.
NOTHING = 1e-9

Models = frozenset[str]
# What replicas have in common that are as good as each other: models, and requests at once.
Kind = tuple[Models, float]


@dataclass(frozen=True, slots=True)
class Offer:
    """A replica, or a card that may become one: its models, and requests at once."""

    name: str
    models: Models
    slots: float


@dataclass(slots=True)
class Demand:
    """What is to be covered: ``slots`` held at once by model, and at least so many replicas
    (``least``) that serve a model; what is ``left`` of the former, and what those with the same
    models do (``used``)."""

    slots: dict[str, float]
    least: dict[str, int]
    left: dict[str, float]
    used: dict[Models, dict[str, float]]

    @classmethod
    def of(cls, slots: Mapping[str, float], least: Mapping[str, int]) -> "Demand":
        """Nothing of it is covered yet."""
        return cls(dict(slots), dict(least), dict(slots), {})

    def copy(self) -> "Demand":
        """One that changes by itself."""
        used = {models: dict(uses) for models, uses in self.used.items()}
        return Demand(self.slots, dict(self.least), dict(self.left), used)

    def add(self, models: Models, slots: float, count: int = 1) -> float:
        """So many replicas more of so many slots do what they can of it; how many slots more are
        covered."""
        for model in models & self.least.keys():
            self.least[model] -= count
        self.used.setdefault(models, {})
        room = slots * count
        while room > NOTHING:
            path = self._path(models)
            if not path:
                break
            room -= self._augment(path, room)
        return slots * count - room

    def worth(self, models: Models, slots: float) -> tuple[int, float]:
        """What a replica would bring: models that want one more, and slots that it would cover."""
        wanted = sum(self.least.get(model, 0) > 0 for model in models)
        return wanted, self.copy().add(models, slots)

    def main(self, offer: Offer) -> str:
        """The model that a replica is wanted for most; empty where it has none."""
        return max(
            sorted(offer.models),
            key=lambda model: (
                self.least.get(model, 0) > 0,
                self.left.get(model, 0.0),
                self.slots.get(model, 0.0),
            ),
            default="",
        )

    def lacking(self, slots: float) -> int:
        """How many more cards of so many slots, with all these models, it would take."""
        work = ceil(sum(self.left.values()) / slots - LACK)
        return max(0, work, *self.least.values())

    def _path(self, models: Models) -> list[tuple[Models, str]]:
        """How room with these models can be of use: (who, which model) in turn, each of whom gives
        up the model before for its own, to one that is not covered; the shortest there is."""
        came: dict[str, tuple[Models, str]] = dict.fromkeys(sorted(models), (models, ""))
        edge = deque(came)
        while edge:
            model = edge.popleft()
            if self.left.get(model, 0.0) > NOTHING:
                path = [(came[model][0], model)]
                while came[path[-1][1]][1]:
                    before = came[path[-1][1]][1]
                    path.append((came[before][0], before))
                return path[::-1]
            for others, uses in self.used.items():
                if uses.get(model, 0.0) > NOTHING:
                    for other in sorted(others - came.keys()):
                        came[other] = (others, model)
                        edge.append(other)
        return []

    def _augment(self, path: list[tuple[Models, str]], room: float) -> float:
        """Shift as much along the path as can be; returns how much that is."""
        shifts = list(zip(path[1:], path, strict=False))
        most = min(room, self.left[path[-1][1]])
        for (who, _), (_, before) in shifts:
            most = min(most, self.used[who][before])
        for who, model in path:
            self.used[who][model] = self.used[who].get(model, 0.0) + most
        for (who, _), (_, before) in shifts:
            self.used[who][before] -= most
        self.left[path[-1][1]] -= most
        return most


def cover(
    demand: Demand, given: Iterable[Offer], offers: Sequence[Offer]
) -> tuple[dict[str, str], Demand]:
    """The offers that are needed beside the replicas ``given``, each with the model that it is
    needed for most, and the demand with what is left that none of them covers. Of equals the
    first are taken."""
    left = demand.copy()
    for (models, slots), count in Counter((o.models, o.slots) for o in given).items():
        left.add(models, slots, count)
    kinds: dict[Kind, deque[tuple[int, Offer]]] = {}
    for place, offer in enumerate(offers):
        kinds.setdefault((offer.models, offer.slots), deque()).append((place, offer))
    chosen: dict[str, str] = {}
    while kinds:
        worth = {kind: left.worth(*kind) for kind in kinds}
        best = max(kinds, key=lambda kind: (worth[kind], -kinds[kind][0][0]))
        models, slots = best
        if worth[best] <= (0, LACK * slots):
            break
        # Where nothing is asked for but work, as many at once as come before all others.
        count = 1 if worth[best][0] else _alike(left, best, kinds)
        for _ in range(count):
            offer = kinds[best].popleft()[1]
            chosen[offer.name] = left.main(offer)
        left.add(models, slots, count)
        if not kinds[best]:
            del kinds[best]
    return chosen, left


def _alike(left: Demand, best: Kind, kinds: Mapping[Kind, Sequence[tuple[int, Offer]]]) -> int:
    """How many of the best kind would be taken in turn, each of them in full use."""
    models, slots = best
    before = min((found[0][0] for kind, found in kinds.items() if kind != best), default=None)
    run = sum(before is None or place < before for place, _ in kinds[best])
    return max(1, min(run, int(left.copy().add(models, slots, run) // slots)))
