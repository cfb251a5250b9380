"""What changes in the fleet: replicas come, change and go, and so do the cards beside them; and
what businesses may use of it."""

from metering.core.facts import BusinessFacts

from . import events
from .blame import clear_standing
from .circuits import count_broken
from .decisions import Decision
from .delay import lose_holder
from .demand import renew_layout
from .dispatch import fill_all
from .kinds import name_kind
from .markets import connected, note_markets
from .pool import PoolUse
from .replica import Replica
from .state import State
from .tenant import Tenant


def replica_changed(state: State, event: events.ReplicaChanged, out: list[Decision]) -> None:
    """See ReplicaChanged."""
    name = event.facts.name
    known = state.replicas.get(name)
    if known is not None and known.generation == event.generation:
        known.facts, known.pool = event.facts, event.pool
        known.ready, known.warm = event.ready, event.warm
        for model in known.circuits.keys() - event.facts.models.keys():
            del known.circuits[model]
    else:
        if known is not None:
            known.counted = False
            state.estimates.forget(name)
            state.prefixes.forget(name)
            _forget(state, known)
        state.replicas[name] = Replica(
            event.facts,
            event.pool,
            event.generation,
            event.ready,
            warm=event.warm,
            touched=state.now,
        )
    replica = state.replicas[name]
    if not replica.serving() or known is None or known.generation != event.generation:
        lose_holder(state, name)
    replica.kind = state.estimates.homes[name] = name_kind(replica)
    if not event.more:
        _fleet_changed(state, out)


def _forget(state: State, replica: Replica) -> None:
    """What failed on a process that is gone says nothing any more."""
    for model in replica.standings:
        clear_standing(state, replica, model)


def replica_removed(state: State, event: events.ReplicaRemoved, out: list[Decision]) -> None:
    """See ReplicaRemoved."""
    replica = state.replicas.pop(event.name, None)
    if replica is not None:
        # It may still be laid out for a moment, when more is told at once.
        replica.counted = replica.ready = False
        state.prefixes.forget(event.name)
        lose_holder(state, event.name)
        _forget(state, replica)
    if not event.more:
        _fleet_changed(state, out)


def cards_changed(state: State, event: events.CardsChanged, out: list[Decision]) -> None:
    """See CardsChanged."""
    state.cards = {card.name: card for card in event.cards}
    state.plan_at = 0


def set_limits(tenant: Tenant, facts: BusinessFacts | None) -> None:
    """A business may run and queue so much from now on; None: it is gone."""
    tenant.running_limit = facts.running if facts is not None else None
    tenant.queued_limit = facts.queued if facts is not None else None
    tenant.suspended = facts.suspended if facts is not None else False
    tenant.weight = facts.weight if facts is not None else 1.0


def _fleet_changed(state: State, out: list[Decision]) -> None:
    """Count the pools' slots and lay out anew."""
    count_slots(state)
    note_markets(state)
    renew_layout(state)
    fill_all(state, out)


def count_slots(state: State) -> None:
    """Count what the pools are used for, the slots that nobody holds, and open breakers. Replicas
    of a pool among which no work can move, for they have no model in common, are parts of it that
    have nothing to do with each other."""
    state.free = 0
    count_broken(state)
    pools: dict[str, list[Replica]] = {}
    for replica in state.replicas.values():
        pools.setdefault(replica.pool.name, []).append(replica)
        replica.counted = replica.serving()
        if replica.counted:
            state.free += max(0, replica.facts.slots - replica.running)
    for replicas in pools.values():
        first = connected(replica.facts.models for replica in replicas)
        parts: dict[str, PoolUse] = {}
        for replica in replicas:
            part = next((first[model] for model in replica.facts.models), "")
            if part not in parts:
                parts[part] = PoolUse(dedicated=replica.pool.dedicated)
            replica.use = parts[part]
            _count_use(replica)


def _count_use(replica: Replica) -> None:
    use = replica.use
    if replica.counted:
        use.slots += replica.facts.slots
    for request in replica.holds.values():
        use.running[request.lane] += 1
        use.promoted += request.promoted
