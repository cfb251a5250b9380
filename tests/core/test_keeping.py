"""Nothing that waits is lost: not by edits, not by idle time, not by a cancelled neighbour."""

from dataclasses import replace

import pytest

from scheduler.core import events
from scheduler.core.decisions import Dispatch
from scheduler.core.policy import Policy

from .scene import MS, SECOND, SHARED, Scene, card

CALM = Policy()


def policies() -> list[Policy]:
    """Edits of one field each that have nothing to do with order."""
    queues = CALM.queues
    return [
        CALM,
        replace(CALM, tick_ms=50),
        replace(CALM, queues=replace(queues, P2=replace(queues.P2, max_queue=5))),
        replace(CALM, placement=replace(CALM.placement, top_k=1)),
        replace(CALM, lanes=replace(CALM.lanes, P0=(0, 1), P1=(2, 7), P2=(8, 9))),
        replace(CALM, mode="weighted"),
    ]


def test_an_idle_business_keeps_its_queue() -> None:
    """C11: three calls wait a minute without a new arrival, then capacity returns."""
    scene = Scene(card("c", 1), card("other", 1, "n"))
    scene.probe("c", ready=False)
    scene.add(*card("c2", 1, levels=(0, 0)))
    scene.probe("c", ready=True)
    scene.arrive("held")
    scene.probe("c", ready=False)
    scene.add(*card("spare", 1))
    scene.arrive("held-2")
    for name in ("one", "two", "three"):
        scene.arrive(name, 2, business="quiet")
        scene.wait(MS)
    for _ in range(60):
        scene.wait(SECOND)
        scene.arrive(business="busy", model="n")
        scene.finish(*scene.on("other"))
    assert scene.waiting() == ["one", "two", "three"]
    scene.finish("held-2")
    assert scene.drain() == ["two", "three"]
    assert not scene.refused


@pytest.mark.parametrize("edit", range(len(policies())))
def test_policy_edits_keep_waiting_requests_in_order(edit: int) -> None:
    def play(edits: list[Policy]) -> list[str]:
        scene = Scene(card("c", 1), policy=CALM)
        scene.arrive("held", 2)
        for number in range(12):
            level = (9, 7, 8)[number % 3]
            scene.arrive(f"n{number}", 2, level=level, prompt=10 * number, output=400 - 30 * number)
            scene.wait(300 * MS)
        for policy in edits:
            scene.rules(policy)
        return scene.drain(MS)

    assert play([policies()[edit]]) == play([])
    assert play([policies()[edit], CALM]) == play([])


def test_new_weights_of_order_hold_for_later_arrivals_only() -> None:
    scene = Scene(card("c", 1))
    scene.arrive("held")
    scene.arrive("deep", level=6)
    scene.wait(SECOND)
    scene.arrive("high", level=3)
    order = CALM.order
    scene.rules(replace(CALM, order=replace(order, level=0.0)))
    scene.arrive("deep-late", level=6)
    scene.wait(SECOND)
    scene.arrive("high-late", level=3)
    found = scene.drain(MS)
    assert found.index("high") < found.index("deep")
    assert found.index("deep-late") < found.index("high-late")


def test_an_edit_after_learning_keeps_the_order_too() -> None:
    """Estimates have changed since the requests came; an edit of something else must not
    bring that in."""
    scene = Scene(card("c", 1, "a", "b"))
    for name in ("teacher", "short", "long"):
        scene.arrive(name, model="b" if name == "long" else "a")
    scene.wait(60 * SECOND)
    scene.finish("teacher")
    before = {name: found.key for name, found in scene.state.requests.items()}
    scene.rules(replace(CALM, tick_ms=40))
    assert {name: found.key for name, found in scene.state.requests.items()} == before


def test_a_business_deleted_or_renamed_leaves_its_requests_waiting() -> None:
    scene = Scene(card("c", 1))
    scene.limit("old", running=1)
    scene.arrive("held", business="old")
    for name in ("one", "two", "three"):
        scene.arrive(name, business="old")
    scene.forget("old")
    scene.limit("new", running=1)
    scene.arrive("four", business="new")
    found = scene.drain()
    assert [name for name in found if name != "four"] == ["one", "two", "three"]
    assert "four" in found
    # Nothing is kept of a business that is gone.
    scene.forget("old")
    assert "old" not in scene.state.tenants


def test_limits_edited_while_they_hold_requests_back() -> None:
    scene = Scene(card("c", 1))
    scene.limit(running=0)
    scene.limit(running=None)
    scene.arrive("held")
    scene.arrive("one")
    scene.limit(running=0)
    scene.finish("held")
    assert scene.waiting() == ["one"]
    scene.wait(30 * SECOND)
    scene.limit(running=1)
    assert scene.on("c") == ["one"]


def test_a_replica_that_leaves_strands_nobody() -> None:
    scene = Scene(card("a", 1), card("b", 1))
    for name in ("one", "two", "three"):
        scene.arrive(name)
    scene.remove(scene.where("one"))
    assert scene.waiting() == ["three"]
    scene.finish("one")
    assert scene.waiting() == ["three"]
    scene.finish("two")
    assert scene.running.keys() == {"three"}


def test_what_waits_for_a_fleet_that_has_gone_starts_when_it_is_back() -> None:
    scene = Scene(card("a", 1))
    scene.arrive("held")
    for name in ("one", "two"):
        scene.arrive(name)
    scene.remove("a")
    scene.finish("held")
    scene.wait(60 * SECOND)
    scene.add(*card("z", 2))
    assert scene.on("z") == ["one", "two"]


# C08: a slot that comes free is handed on, whoever leaves at the same moment.


def test_a_freed_slot_passes_a_waiter_who_has_just_gone() -> None:
    for first in ("finish", "cancel"):
        scene = Scene(card("c", 1))
        for name in "abc":
            scene.arrive(name)
        if first == "finish":
            scene.finish("a")
            scene.cancel("b")
        else:
            scene.cancel("b")
            scene.finish("a")
        assert scene.on("c") == ["c"]


def test_who_has_been_given_a_slot_and_leaves_hands_it_on() -> None:
    scene = Scene(card("c", 1))
    for name in "abc":
        scene.arrive(name)
    out = scene.finish("a")
    assert [d.request for d in out if isinstance(d, Dispatch)] == ["b"]
    out = scene.cancel("b")
    assert [d.request for d in out if isinstance(d, Dispatch)] == ["c"]


def test_cancelling_names_one_request_and_hits_no_other() -> None:
    """C10: a waiter's end, told twice, leaves what runs alone; so does a late end."""
    scene = Scene(card("c", 1))
    scene.arrive("a")
    scene.arrive("b")
    scene.cancel("b")
    scene.cancel("b")
    assert scene.on("c") == ["a"]
    gone = scene.running["a"]
    scene.finish("a")
    scene.arrive("next")
    for event in (
        events.Cancelled("a"),
        events.Finished("a", gone.attempt),
        events.Failed("a", gone.attempt, events.Fault.ERROR),
        events.Yielded("a", gone.attempt),
    ):
        assert not [d for d in scene.step(event) if isinstance(d, Dispatch)]
    assert scene.on("c") == ["next"]
    assert scene.state.replicas["c"].running == 1


def test_an_earlier_attempts_end_does_not_end_a_later_one() -> None:
    scene = Scene(card("a", 1), card("b", 1))
    scene.arrive("r")
    scene.fail("r")
    assert scene.running["r"].attempt == 2
    scene.step(events.Finished("r", 1))
    scene.step(events.Failed("r", 1, events.Fault.UNREACHABLE))
    assert scene.state.requests["r"].running
    assert sum(replica.running for replica in scene.state.replicas.values()) == 1


def test_a_ticket_told_twice_is_one_request() -> None:
    scene = Scene(card("c", 2))
    scene.arrive("a")
    ticket = scene.state.requests["a"].ticket
    assert not scene.step(events.Arrived(ticket))
    assert scene.state.replicas["c"].running == 1


def test_a_clock_that_goes_back_is_held() -> None:
    scene = Scene(card("c", 1), policy=CALM)
    scene.arrive("held")
    scene.now -= 10 * SECOND
    scene.arrive("a")
    assert scene.state.now > scene.now
    scene.finish("held")
    assert scene.on("c") == ["a"]


def test_a_rebuilt_state_goes_on_with_what_was_there() -> None:
    """Told by the gateways, in any order, what runs and what waits."""
    old = Scene(card("c", 2))
    for name in "abcd":
        old.arrive(name)
        old.wait(MS)
    new = Scene(card("c", 2))
    new.now = old.now
    for name in "badc":
        ticket = old.state.requests[name].ticket
        at = old.running.get(name)
        if at is not None:
            new.step(events.Adopted(ticket, at.attempt, at.replica, at.generation))
            new.running[name] = at
        else:
            new.step(events.Adopted(ticket, 0, None, 0))
    assert new.state.replicas["c"].running == 2
    assert not new.started
    new.finish("a")
    new.finish("b")
    assert new.started == ["c", "d"]


def test_a_pool_that_changes_its_lanes_keeps_who_waits() -> None:
    scene = Scene(card("c", 1))
    scene.arrive("held")
    scene.arrive("low", 2)
    narrow = replace(SHARED, lanes=frozenset({0, 1}))
    scene.add(card("c", 1)[0], narrow)
    scene.finish("held")
    assert scene.waiting() == ["low"]
    scene.add(card("c", 1)[0], SHARED)
    assert scene.on("c") == ["low"]
