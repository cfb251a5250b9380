"""What a failed attempt does to its replica and to its request."""

import pytest

from scheduler.core import events
from scheduler.core.decisions import Dispatch, Reason, Trip
from scheduler.core.events import Fault
from scheduler.core.replica import BUSY_LEAST, BUSY_MOST

from .scene import MS, SECOND, Scene, card


def pair(slots: int = 2) -> Scene:
    return Scene(card("a", slots), card("b", slots))


def other(name: str) -> str:
    return "b" if name == "a" else "a"


def recount(scene: Scene) -> None:
    """What is counted is what runs, and nothing is below zero."""
    for replica in scene.state.replicas.values():
        assert replica.running == len(replica.holds) >= 0
        assert replica.kv_used >= 0
        assert min(replica.use.running) >= 0


# Unreachable.


def test_an_unreachable_replica_is_taken_out_and_the_request_runs_elsewhere() -> None:
    scene = pair()
    scene.arrive("r")
    first = scene.where("r")
    out = scene.fail("r", Fault.UNREACHABLE)
    assert Trip(first, 1) in out
    assert scene.where("r") == other(first)
    assert scene.running["r"].attempt == 2
    for _ in range(3):
        scene.arrive()
    assert scene.on(first) == []


def test_it_is_taken_out_once_however_many_fail_there() -> None:
    scene = pair(4)
    for number in range(8):
        scene.arrive(f"r{number}")
    for name in scene.on("a"):
        scene.fail(name, Fault.UNREACHABLE)
    assert scene.trips() == ["a"]
    assert len(scene.on("b")) == 4
    assert len(scene.waiting()) == 4
    recount(scene)


def test_a_probe_that_finds_it_well_brings_it_back() -> None:
    scene = pair(1)
    for name in ("x", "y", "z"):
        scene.arrive(name)
    lost = scene.on("a")[0]
    scene.fail(lost, Fault.UNREACHABLE)
    assert scene.on("a") == []
    scene.probe("a", ready=True)
    # Who failed there may not come back to the same process.
    assert scene.on("a") == ["z"]
    assert scene.waiting() == [lost]
    scene.finish("z")
    assert scene.waiting() == [lost]
    scene.restart("a")
    assert scene.on("a") == [lost]


def test_its_slots_count_no_more() -> None:
    scene = pair(10)
    assert scene.state.replicas["a"].use.slots == 20
    scene.arrive("r")
    scene.fail("r", Fault.UNREACHABLE)
    assert scene.state.replicas["b"].use.slots == 10


# Errors.


def test_an_error_leaves_the_replica_in() -> None:
    scene = pair()
    scene.arrive("r")
    first = scene.where("r")
    scene.fail("r", Fault.ERROR)
    assert scene.where("r") == other(first)
    assert not scene.trips()
    assert scene.state.replicas[first].ready


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.UNREACHABLE])
def test_with_no_other_replica_the_request_ends(fault: Fault) -> None:
    scene = Scene(card("a", 2))
    scene.arrive("r")
    scene.arrive("neighbour")
    scene.fail("r", fault)
    assert scene.refused["r"].reason is Reason.UPSTREAM_ERROR
    assert "neighbour" in scene.running
    recount(scene)


def test_a_request_is_not_tried_for_ever() -> None:
    scene = Scene(*(card(name, 1) for name in "abcdef"))
    scene.arrive("r")
    tried = []
    while "r" in scene.running:
        tried.append(scene.where("r"))
        scene.fail("r")
    assert len(tried) == len(set(tried)) == 3
    assert scene.refused["r"].reason is Reason.UPSTREAM_ERROR


def test_a_retry_waits_for_another_replica_and_goes_before_its_equals() -> None:
    scene = pair(1)
    for name in ("x", "y", "z"):
        scene.arrive(name)
    failed, neighbour = scene.on("a")[0], scene.on("b")[0]
    scene.fail(failed)
    assert scene.on("a") == ["z"]
    scene.arrive("later")
    scene.finish(neighbour)
    assert scene.on("b") == [failed]
    assert scene.waiting() == ["later"]


def test_but_not_before_more_urgent_work() -> None:
    scene = pair(1)
    for name in ("x", "y"):
        scene.arrive(name, 1)
    failed, neighbour = scene.on("a")[0], scene.on("b")[0]
    scene.arrive("urgent", 0)
    scene.arrive("urgent-2", 0)
    scene.fail(failed)
    scene.finish(neighbour)
    assert scene.on("a") == ["urgent"]
    assert scene.on("b") == ["urgent-2"]
    assert scene.waiting() == [failed]


def test_a_retry_respects_its_business_limit() -> None:
    scene = pair(2)
    scene.limit(running=1)
    scene.arrive("r")
    scene.arrive("next")
    first = scene.where("r")
    scene.fail("r")
    assert len(scene.running) == 1
    scene.finish(next(iter(scene.running)))
    assert len(scene.running) == 1
    assert scene.state.replicas[first].running + scene.state.replicas[other(first)].running == 1
    assert sorted([*scene.done, *scene.running]) == ["next", "r"]


def test_an_error_where_output_was_kept_goes_on_from_it() -> None:
    scene = pair()
    scene.arrive("r", prompt=100, output=400)
    attempt = scene.running.pop("r").attempt
    scene.step(events.Failed("r", attempt, Fault.ERROR, produced=120))
    assert scene.state.requests["r"].produced == 120


# Busy.


def test_a_busy_replica_is_left_alone_and_no_fault_counted() -> None:
    scene = pair(2)
    scene.arrive("r")
    first = scene.where("r")
    scene.fail("r", Fault.BUSY)
    assert scene.where("r") == other(first)
    assert scene.state.requests["r"].failures == 0
    assert not scene.trips()
    scene.arrive("s")
    assert scene.where("s") == other(first)
    scene.wait(BUSY_LEAST)
    scene.arrive("t")
    assert scene.where("t") == first


def test_who_waits_for_it_starts_when_the_time_is_over() -> None:
    scene = Scene(card("a", 1))
    scene.arrive("r")
    scene.fail("r", Fault.BUSY)
    assert scene.waiting() == ["r"]
    assert scene.state.wake == scene.now + BUSY_LEAST
    scene.wait(BUSY_LEAST - 1)
    assert scene.waiting() == ["r"]
    scene.wait(1)
    assert scene.on("a") == ["r"]


def test_each_time_in_a_row_it_is_left_alone_twice_as_long() -> None:
    scene = Scene(card("a", 1))
    scene.arrive("r")
    pauses = []
    for _ in range(8):
        scene.fail("r", Fault.BUSY)
        pauses.append(scene.state.replicas["a"].busy_until - scene.now)
        scene.wait(pauses[-1])
        assert scene.on("a") == ["r"]
    assert pauses[:3] == [BUSY_LEAST, 2 * BUSY_LEAST, 4 * BUSY_LEAST]
    assert pauses[-2:] == [BUSY_MOST, BUSY_MOST]
    scene.finish("r")
    scene.arrive("s")
    scene.fail("s", Fault.BUSY)
    assert scene.state.replicas["a"].busy_until - scene.now == BUSY_LEAST


def test_several_told_off_at_once_count_as_one() -> None:
    scene = Scene(card("a", 8))
    for number in range(8):
        scene.arrive(f"r{number}")
    for number in range(8):
        scene.fail(f"r{number}", Fault.BUSY)
    assert scene.state.replicas["a"].busy_until - scene.now == BUSY_LEAST
    scene.wait(BUSY_LEAST)
    assert len(scene.on("a")) == 8


def test_what_ran_there_before_and_ends_well_does_not_shorten_the_next_pause() -> None:
    """A server that is full serves on what it has, and says 503 to whatever comes besides."""
    scene = Scene(card("a", 8))
    for number in range(6):
        scene.arrive(f"long{number}")
    scene.wait(SECOND)
    scene.arrive("r")
    pauses = []
    for number in range(6):
        scene.fail("r", Fault.BUSY)
        pauses.append(scene.state.replicas["a"].busy_until - scene.now)
        scene.finish(f"long{number}")
        scene.wait(pauses[-1])
        assert "r" in scene.running
    assert pauses == [BUSY_LEAST << number for number in range(6)]


def test_a_busy_fleet_refuses_nobody_before_the_queue_does() -> None:
    scene = pair(1)
    scene.arrive("r")
    for _ in range(20):
        scene.fail("r", Fault.BUSY)
        scene.wait(10 * SECOND)
        assert "r" in scene.running
    assert not scene.refused


# Generations (D07).


def test_what_runs_on_an_earlier_process_is_not_the_new_ones() -> None:
    scene = Scene(*(card(name, 8) for name in ("r1", "r2", "r3")))
    for number in range(15):
        scene.arrive(f"old-{number}")
    assert 3 <= len(scene.on("r1")) <= 7
    scene.restart("r1")
    assert scene.state.replicas["r1"].running == 0
    for name in scene.on("r1"):
        scene.finish(name)
        assert scene.state.replicas["r1"].running == 0
    recount(scene)
    for number in range(100):
        scene.arrive(f"new-{number}")
    loads = [replica.running for replica in scene.state.replicas.values()]
    assert loads == [8, 8, 8]
    recount(scene)


@pytest.mark.parametrize("gone", ["replaced", "removed"])
def test_what_an_earlier_process_still_answers_starts_nobody_there(gone: str) -> None:
    """The first token of an answer frees the card for other prompts: not one that is gone."""
    scene = Scene(card("a", 8), card("b", 1))
    scene.arrive("old", prompt=100, output=100)
    name = scene.where("old")
    scene.restart(name) if gone == "replaced" else scene.remove(name)
    started = len(scene.started)
    for number in range(12):
        scene.arrive(f"new-{number}", prompt=100, output=100)
    assert scene.waiting()
    scene.see("old")
    for request in scene.started[started:]:
        found = scene.running[request]
        assert found.generation == scene.state.replicas[found.replica].generation
    recount(scene)


@pytest.mark.parametrize("how", ["finish", "cancel", "fail", "unreachable", "busy", "stop"])
def test_no_end_of_an_old_attempt_touches_the_new_process(how: str) -> None:
    scene = pair(2)
    scene.arrive("old")
    name = scene.where("old")
    scene.restart(name)
    for _ in range(3):
        scene.arrive()
    before = [found for found in scene.on(name) if found != "old"]
    if how == "finish":
        scene.finish("old")
    elif how == "cancel":
        scene.cancel("old")
    elif how == "stop":
        scene.stop("old")
    else:
        fault = {"fail": Fault.ERROR, "unreachable": Fault.UNREACHABLE, "busy": Fault.BUSY}[how]
        scene.fail("old", fault)
    assert set(before) <= set(scene.on(name))
    replica = scene.state.replicas[name]
    assert replica.ready
    assert replica.busy_until == 0
    assert not scene.trips()
    recount(scene)


def test_a_dispatch_names_the_process_it_is_for() -> None:
    scene = Scene(card("a", 4))
    out = scene.arrive("one")
    scene.restart("a")
    out += scene.arrive("two")
    assert [d.generation for d in out if isinstance(d, Dispatch)] == [1, 2]


def test_who_failed_on_one_process_may_run_on_the_next() -> None:
    scene = Scene(card("a", 1), card("b", 1))
    scene.arrive("r")
    first = scene.where("r")
    scene.arrive("held")
    scene.fail("r")
    assert scene.waiting() == ["r"]
    scene.restart(first)
    assert scene.where("r") == first


def test_a_replica_removed_and_added_again_counts_from_nothing() -> None:
    scene = Scene(card("a", 2))
    scene.arrive("x")
    scene.arrive("y")
    facts = scene.state.replicas["a"].facts
    scene.remove("a")
    scene.add(facts)
    scene.finish("x", "y")
    assert scene.state.replicas["a"].running == 0
    recount(scene)


def test_faults_of_requests_unknown_or_over_change_nothing() -> None:
    scene = pair()
    scene.arrive("r")
    scene.finish("r")
    before = scene.state.replicas["a"].ready, scene.state.replicas["b"].ready
    for fault in Fault:
        assert not scene.step(events.Failed("r", 1, fault))
        assert not scene.step(events.Failed("never", 1, fault))
    assert (scene.state.replicas["a"].ready, scene.state.replicas["b"].ready) == before
    assert scene.now % MS == 0
