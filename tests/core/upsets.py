"""What happens around requests in the random world: fleet, limits, policy, figures."""

import copy
from collections.abc import Callable
from dataclasses import replace

from hypothesis import strategies as st

from metering.core.facts import BusinessFacts
from scheduler.core import events
from scheduler.core.fleet import CardFacts

from .books import Books
from .world_parts import BUSINESSES, MODELS, POOLS, fleet, policies

NAMES = st.sampled_from(sorted(fleet()))
Upset = Callable[[st.DataObject], None]


class Upsets(Books):
    """Each method draws what it needs and posts an event."""

    def upsets(self) -> list[Upset]:
        """All of them."""
        return [
            self.probe,
            self.restart,
            self.change,
            self.remove,
            self.quota,
            self.new_policy,
            self.measure,
            self.measure,
            self.cards,
            self.copy,
        ]

    def probe(self, data: st.DataObject) -> None:
        name = data.draw(NAMES)
        self.ready[name] = data.draw(st.sampled_from([True, True, False]))
        self._tell(name)

    def restart(self, data: st.DataObject) -> None:
        name = data.draw(NAMES)
        self.generation[name] += 1
        self.ready[name] = True
        self._tell(name)

    def change(self, data: st.DataObject) -> None:
        name = data.draw(NAMES)
        slots, draining = data.draw(st.integers(1, 4)), data.draw(st.booleans())
        hot = name != "z1" or data.draw(st.booleans())
        self.facts[name] = replace(self.facts[name], slots=slots, draining=draining, hot=hot)
        self._tell(name)

    def remove(self, data: st.DataObject) -> None:
        name = data.draw(NAMES)
        self.ready[name] = False
        self._step(events.ReplicaRemoved(name))

    def quota(self, data: st.DataObject) -> None:
        business = data.draw(st.sampled_from(BUSINESSES))
        running = data.draw(st.sampled_from([None, None, 0, 1, 3]))
        queued = data.draw(st.sampled_from([None, None, 0, 2]))
        weight = data.draw(st.sampled_from([1.0, 1.0, 0.5, 4.0]))
        facts = BusinessFacts(business, running=running, queued=queued, weight=weight)
        self._step(events.QuotaChanged(business, None if data.draw(st.booleans()) else facts))

    def new_policy(self, data: st.DataObject) -> None:
        self._step(events.PolicyChanged(data.draw(st.sampled_from(policies()))))

    def measure(self, data: st.DataObject) -> None:
        use = data.draw(st.sampled_from([None, 0.0, 0.5, 1.0]))
        queue = data.draw(st.sampled_from([None, 0, 3]))
        self._step(events.Measured(data.draw(NAMES), use, use, queue))

    def cards(self, data: st.DataObject) -> None:
        """Cards that may be started for P0; nobody starts them."""
        states = [(False, False), (True, False), (False, True)]
        cards = [
            CardFacts(name, POOLS[pool], frozenset(MODELS), *data.draw(st.sampled_from(states)))
            for name, pool in (("c1", "urgent"), ("c2", "shared"))
        ]
        self._step(events.CardsChanged(tuple(cards)))

    def copy(self, data: st.DataObject) -> None:
        """From here a copy of the state must go on in the same way."""
        self.copied = (len(self.history), copy.deepcopy(self.state))
