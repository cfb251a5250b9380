"""What changes in the fleet: replicas come, change and go, and so do the cards beside them."""

from . import events
from .decisions import Decision
from .demand import renew_layout
from .dispatch import fill_all
from .replica import Replica
from .state import State


def replica_changed(state: State, event: events.ReplicaChanged, out: list[Decision]) -> None:
    """See ReplicaChanged."""
    name = event.facts.name
    known = state.replicas.get(name)
    if known is not None and known.generation == event.generation:
        if known.pool.name != event.pool.name:
            _move(state, known, event)
        known.facts, known.pool = event.facts, event.pool
        known.ready, known.warm = event.ready, event.warm
    else:
        if known is not None:
            known.counted = False
            state.estimates.forget(name)
        state.replicas[name] = Replica(
            event.facts,
            event.pool,
            event.generation,
            event.ready,
            state.use(event.pool),
            warm=event.warm,
        )
    _fleet_changed(state, out)


def _move(state: State, replica: Replica, event: events.ReplicaChanged) -> None:
    """Its running requests count in another pool from now on."""
    old, new = replica.use, state.use(event.pool)
    replica.use = new
    for request in state.requests.values():
        if request.running and request.replica is replica:
            for pool, change in ((old, -1), (new, 1)):
                pool.running[request.lane] += change
                pool.promoted += change * request.promoted


def replica_removed(state: State, event: events.ReplicaRemoved, out: list[Decision]) -> None:
    """See ReplicaRemoved."""
    replica = state.replicas.pop(event.name, None)
    if replica is not None:
        replica.counted = False
        state.blocked.discard(event.name)
        _fleet_changed(state, out)


def cards_changed(state: State, event: events.CardsChanged, out: list[Decision]) -> None:
    """See CardsChanged."""
    state.cards = {card.name: card for card in event.cards}


def _fleet_changed(state: State, out: list[Decision]) -> None:
    """Count the pools' slots and lay out anew."""
    count_slots(state)
    renew_layout(state)
    fill_all(state, out)


def count_slots(state: State) -> None:
    """Count the slots of the pools, those that nobody holds, and open breakers."""
    state.free = 0
    count_broken(state)
    for pool in state.pools.values():
        pool.slots = 0
    for replica in state.replicas.values():
        replica.use.dedicated = replica.pool.dedicated
        replica.counted = replica.serving()
        if replica.counted:
            replica.use.slots += replica.facts.slots
            state.free += max(0, replica.facts.slots - replica.running)


def count_broken(state: State) -> None:
    """Count replicas whose breaker is open."""
    state.broken = sum(replica.probes > 0 for replica in state.replicas.values())
