"""A replica's breaker is one for each model, and no client closes it for the others."""

from scheduler.core import events
from scheduler.core.decisions import Decision, Kind, Notice, Reason
from scheduler.core.policy import Policy

from .scene import MS, SECOND, Scene, card


def notices(decisions: list[Decision], kind: Kind) -> list[Notice]:
    return [item for item in decisions if isinstance(item, Notice) and item.kind is kind]


def broke(scene: Scene, name: str) -> list[Decision]:
    """An answer broke off in the replica's hands."""
    attempt = scene.running.pop(name).attempt
    return scene.step(events.Finished(name, attempt, failed=True))


# One model of several.


def test_a_model_that_only_one_replica_has_lost_is_left_alone_there_and_nothing_else() -> None:
    """An adapter is gone after a restart: its calls are answered by the other replica, and the
    base model by both. Loaded again, it is back as soon as it is tried."""
    scene = Scene(card("r1", 4, "base", "tuned"), card("r2", 4, "base", "tuned"))
    lost = True

    def serve(seconds: int, seen: set[str]) -> int:
        """Ten calls a second for the tuned model, two for the base; how many attempts failed."""
        failed = 0
        for number in range(seconds * 10):
            name = f"t{scene.now}"
            scene.arrive(name, business=f"b{number % 3}", model="tuned")
            if number % 5 == 0:
                scene.arrive(f"base{scene.now}", business="b0", model="base")
                seen.add(scene.where(f"base{scene.now}"))
                if len(scene.running) > 1:
                    scene.arrive(f"more{scene.now}", business="b0", model="base")
                    seen.add(scene.where(f"more{scene.now}"))
            scene.wait(10 * MS)
            if scene.where(name) == "r1" and lost:
                failed += 1
                scene.fail(name)
            scene.wait(60 * MS)
            scene.finish(*scene.running)
            scene.wait(30 * MS)
        return failed

    seen: set[str] = set()
    assert serve(29, seen) == 3
    assert seen == {"r1", "r2"}
    assert not scene.refused
    (opened,) = notices(scene.log, Kind.BROKEN)
    assert (opened.name, opened.cause.partition(":")[0]) == ("r1", "tuned")
    serve(30, seen)
    assert len(notices(scene.log, Kind.BROKEN)) <= 3
    lost = False
    scene.wait(int(Policy().failover.open_s * SECOND))
    serve(10, seen)
    assert [item.name for item in notices(scene.log, Kind.MENDED)] == ["r1"]


def test_where_no_other_replica_has_it_the_model_alone_has_no_capacity() -> None:
    scene = Scene(card("r1", 4, "base", "tuned"))
    for number in range(5):
        scene.arrive(f"t{number}", business=f"b{number % 3}", model="tuned")
        if f"t{number}" in scene.running:
            scene.fail(f"t{number}")
        scene.arrive(f"base{number}", business=f"b{number % 3}", model="base")
        scene.finish(f"base{number}")
    assert scene.refused["t4"].reason is Reason.NO_CAPACITY
    assert scene.refused["t4"].retry_after == 30 * SECOND


# One business's word.


def test_what_one_business_alone_has_closed_another_may_try_at_once() -> None:
    scene = Scene(card("c", 4))
    for number in range(3):
        scene.arrive(f"bad{number}", business="bad")
        broke(scene, f"bad{number}")
    scene.arrive("again", business="bad")
    assert scene.refused["again"].reason is Reason.NO_CAPACITY
    scene.arrive("mine", business="good")
    assert scene.on("c") == ["mine"]
    scene.wait(SECOND)
    scene.finish("mine")
    assert [item.name for item in notices(scene.log, Kind.MENDED)] == ["c"]
    # And now that it is known to be well, the same failures do not close it again.
    for number in range(30):
        scene.arrive(f"more{number}", business="bad")
        if f"more{number}" in scene.running:
            broke(scene, f"more{number}")
        scene.wait(100 * MS)
        scene.arrive(f"fine{number}", business="good")
        scene.wait(100 * MS)
        scene.finish(f"fine{number}")
    assert len(notices(scene.log, Kind.BROKEN)) == 1


def test_when_the_other_fails_as_well_it_stays_closed_to_all() -> None:
    scene = Scene(card("c", 4))
    for number in range(3):
        scene.arrive(f"r{number}", business="north")
        broke(scene, f"r{number}")
    scene.arrive("mine", business="south")
    broke(scene, "mine")
    scene.arrive("third", business="west")
    assert scene.refused["third"].reason is Reason.NO_CAPACITY


def test_one_that_fails_everywhere_keeps_no_replica_closed() -> None:
    """Its tries of a replica that is left alone show nothing: others' do."""
    scene = Scene(card("a", 4), card("b", 4))
    for number in range(6):
        scene.arrive(f"r{number}", business=f"b{number}")
    for name in scene.on("a"):
        broke(scene, name)
    scene.wait(SECOND)
    scene.finish(*scene.on("b"))
    for number in range(3):
        scene.arrive(f"bad{number}", business="bad")
        scene.wait(MS)
        broke(scene, f"bad{number}")
        scene.wait(MS)
        scene.arrive(f"fine{number}", business="north")
        scene.wait(MS)
        scene.finish(f"fine{number}")
    scene.wait(30 * SECOND)
    for number in range(12):
        scene.arrive(f"bad-{number}", business="bad")
        scene.wait(MS)
        broke(scene, f"bad-{number}")
    assert [item.name for item in notices(scene.log, Kind.BROKEN)] == ["a"]
    for number in range(4):
        scene.arrive(f"{number}", business="north")
    scene.finish(*scene.on("a"))
    assert [item.name for item in notices(scene.log, Kind.MENDED)] == ["a"]


# Failures that do not come in a row.


def test_a_replica_that_fails_half_of_what_everybody_sends_is_left_alone() -> None:
    scene = Scene(card("flaky", 8), card("good", 8))
    for number in range(60):
        name = f"r{number}"
        scene.arrive(name, business=f"b{number % 3}")
        scene.wait(10 * MS)
        if scene.where(name) == "flaky" and number % 5 < 3:
            scene.fail(name)
        scene.wait(10 * MS)
        scene.finish(name)
    (opened,) = notices(scene.log, Kind.BROKEN)
    assert opened.name == "flaky"


def test_one_of_long_answers_needs_not_end_well_elsewhere_before_it_tells() -> None:
    """A request that failed here and runs on there is enough."""
    scene = Scene(card("bad", 40), card("good", 40))
    for number in range(30):
        name = f"r{number}"
        scene.arrive(name)
        scene.wait(5 * MS)
        if scene.where(name) == "bad":
            scene.fail(name)
        scene.wait(20 * MS)
    (opened,) = notices(scene.log, Kind.BROKEN)
    assert opened.name == "bad"
    assert not scene.done


def test_a_model_that_a_replica_no_longer_has_is_not_counted_as_left_alone() -> None:
    scene = Scene(card("r1", 4, "base", "tuned"))
    for number in range(3):
        scene.arrive(f"t{number}", business=f"b{number}", model="tuned")
        broke(scene, f"t{number}")
    assert scene.state.broken == 1
    facts, pool = card("r1", 4, "base")
    scene.add(facts, pool)
    assert scene.state.broken == 0
    assert not scene.state.replicas["r1"].circuits
