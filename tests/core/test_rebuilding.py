"""What a state that is built anew is made of: nothing is forgotten by oversight."""

from dataclasses import fields

from scheduler.core import events
from scheduler.core.rebuilding import (
    CARRIED,
    MADE_ANEW,
    REPLICA_CARRIED,
    REQUEST_CARRIED,
    adopt,
    carried_over,
    know,
    lay,
)
from scheduler.core.replica import Replica
from scheduler.core.request import Request
from scheduler.core.state import State
from scheduler.core.ticket import Ticket

from .scene import MS, SECOND, SHARED, Scene, card

# Told by the fleet's watchers; and counted or laid out again.
REPLICA_ANEW = {
    *("facts", "pool", "generation", "ready", "warm"),
    *("use", "counted", "running", "kv_used", "turnover", "holds", "picked", "held"),
    *("lanes", "lanes_warm", "serves", "rest", "kind", "group", "group_key"),
    *("kv_turnover", "kv_variance", "stoppable", "prefills", "prefill_ns", "area", "shared"),
    *("touched", "prefilled", "kv_named"),
}
# Told by the gateways; and found again from that.
REQUEST_ANEW = {
    *("ticket", "attempt", "replica", "dispatched", "seen", "produced", "failures"),
    *("tried", "preempted", "stopped", "promoted"),
    *("tenant", "conduct", "generative", "phase", "estimate", "charged", "kv", "cold"),
    *("ledger", "turn", "place", "context", "variance", "latest", "missed", "holder"),
    *("first", "prefill", "held", "named", "mark", "ahead"),
}


def test_each_field_is_carried_or_made_anew() -> None:
    """Whoever adds one says in ``rebuilding`` what becomes of it."""
    for kind, carried, anew in (
        (State, CARRIED, set(MADE_ANEW)),
        (Replica, REPLICA_CARRIED, REPLICA_ANEW),
        (Request, REQUEST_CARRIED, REQUEST_ANEW),
    ):
        assert len(set(carried)) == len(carried)
        assert not anew & set(carried)
        assert {field.name for field in fields(kind)} == anew | set(carried), kind


def test_adopted_requests_start_nobody_before_all_are_there() -> None:
    """Told first, one of a lower lane must not get the slot that an urgent one waits for."""
    scene = Scene(card("c", 1))
    scene.step(events.Adopted(Ticket("low", "shop", "m", 2, 8, scene.now - SECOND), 0, None, 0))
    scene.step(events.Adopted(Ticket("top", "shop", "m", 0, 0, scene.now), 0, None, 0))
    assert not scene.running
    scene.tick()
    assert scene.on("c") == ["top"]


def test_what_runs_on_a_replica_that_has_left_is_known_and_takes_no_slot() -> None:
    """Restarted, or gone from the fleet: what breaks off there has another attempt."""
    facts = card("c", 2)[0]
    state = State()
    know(state, events.ReplicaChanged(facts, SHARED, True, 2), {})
    lay(state)
    for name in ("c", "gone"):
        ticket = Ticket(f"on {name}", "shop", "m", 1, 4, 0)
        told = events.Adopted(ticket, 1, name, 1, facts=card(name, 2)[0], dispatched=SECOND)
        adopt(state, told)
    assert {request.ticket.id for request in state.requests.values()} == {"on c", "on gone"}
    assert all(request.running for request in state.requests.values())
    assert state.replicas["c"].running == 0
    assert state.free == 2
    scene = Scene()
    scene.state, scene.now = state, 5 * SECOND
    out = scene.step(events.Failed("on gone", 1, events.Fault.ERROR))
    assert scene.where("on gone") == "c"
    assert len(out) >= 1
    scene.step(events.Finished("on c", 1))
    assert state.requests.keys() == {"on gone"}


def test_nobody_falls_back_or_catches_up_by_it() -> None:
    """One business has been served for long, the other not at all: so it stays."""
    scene = Scene(card("c", 1))
    scene.arrive("long", business="much")
    scene.arrive("waits", business="much")
    scene.arrive("first", business="little")
    scene.arrive("second", business="little")
    scene.wait(60 * SECOND)
    scene.finish("long")
    assert scene.on("c") == ["first"]
    scene.wait(MS)
    used = {name: dict(tenant.used) for name, tenant in scene.state.tenants.items()}
    assert used["much"][1] > used["little"].get(1, 0.0)
    state = carried_over(scene.state)
    know(state, events.ReplicaChanged(card("c", 1)[0], SHARED, True, 1), scene.state.replicas)
    lay(state)
    for name in ("waits", "second", "first"):
        before = scene.state.requests[name]
        where = "c" if name == "first" else None
        at = before.dispatched
        adopt(state, events.Adopted(before.ticket, 1, where, 1, dispatched=at), before)
    assert {name: dict(tenant.used) for name, tenant in state.tenants.items()} == used
    scene.state = state
    scene.tick()
    assert scene.on("c") == ["first"]
    scene.finish("first")
    assert scene.on("c") == ["second"]
