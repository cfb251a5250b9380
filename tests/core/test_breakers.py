"""Breakers of replicas, and the budget of retries (B07, D02, D05)."""

from dataclasses import replace

from scheduler.core import events
from scheduler.core.decisions import Decision, Kind, Notice, Reason
from scheduler.core.events import Fault
from scheduler.core.policy import Policy

from .scene import MS, SECOND, Scene, card


def notices(decisions: list[Decision], kind: Kind) -> list[Notice]:
    return [item for item in decisions if isinstance(item, Notice) and item.kind is kind]


def broke(scene: Scene, name: str) -> list[Decision]:
    """An answer broke off in the replica's hands."""
    attempt = scene.running.pop(name).attempt
    return scene.step(events.Finished(name, attempt, failed=True))


# Replicas.


def test_failures_in_a_row_open_a_breaker_and_one_probe_closes_it() -> None:
    scene = Scene(card("bad", 4))
    for number in range(3):
        scene.arrive(f"r{number}")
        broke(scene, f"r{number}")
    (opened,) = notices(scene.log, Kind.BROKEN)
    assert (opened.name, opened.value) == ("bad", scene.now + 30 * SECOND)
    scene.now += 30 * SECOND
    scene.arrive("probe")
    scene.arrive("next")
    assert scene.on("bad") == ["probe"], "one at a time while it is half open"
    scene.finish("probe")
    assert [item.name for item in notices(scene.log, Kind.MENDED)] == ["bad"]
    assert scene.on("bad") == ["next"]


def test_a_failed_probe_opens_it_again() -> None:
    scene = Scene(card("bad", 4))
    for number in range(3):
        scene.arrive(f"r{number}")
        broke(scene, f"r{number}")
    scene.now += 30 * SECOND
    scene.arrive("probe")
    broke(scene, "probe")
    assert len(notices(scene.log, Kind.BROKEN)) == 2
    scene.now += 29 * SECOND
    scene.arrive("early")
    assert scene.refused["early"].reason is Reason.NO_CAPACITY


def test_with_all_breakers_open_a_caller_is_told_when_to_come_back() -> None:
    scene = Scene(card("bad", 4))
    for number in range(3):
        scene.arrive(f"r{number}")
        broke(scene, f"r{number}")
    scene.arrive("refused")
    refusal = scene.refused["refused"]
    assert (refusal.reason, refusal.retry_after) == (Reason.NO_CAPACITY, 30 * SECOND)
    scene.now += refusal.retry_after
    scene.arrive("again")
    assert scene.on("bad") == ["again"]


def test_success_between_failures_keeps_a_breaker_closed() -> None:
    scene = Scene(card("c", 4))
    for number in range(12):
        scene.arrive(f"r{number}")
        if number % 3 == 2:
            scene.finish(f"r{number}")
        else:
            broke(scene, f"r{number}")
    assert not notices(scene.log, Kind.BROKEN)


def test_one_business_does_not_take_a_replica_from_others() -> None:
    scene = Scene(card("c", 4))
    scene.arrive("fine", business="neighbour")
    scene.finish("fine")
    for number in range(10):
        scene.arrive(f"r{number}")
        broke(scene, f"r{number}")
    assert not notices(scene.log, Kind.BROKEN)
    # When another's fails as well it is the replica.
    scene.arrive("too", business="neighbour")
    broke(scene, "too")
    assert len(notices(scene.log, Kind.BROKEN)) == 1


def test_busy_is_no_failure() -> None:
    scene = Scene(card("c", 4))
    scene.arrive("r")
    for _ in range(8):
        scene.fail("r", Fault.BUSY)
        scene.now += 10 * SECOND
        scene.step(events.Tick())
    assert not notices(scene.log, Kind.BROKEN)
    assert scene.on("c") == ["r"]


# Retries.


def test_retries_keep_to_their_share_of_the_traffic() -> None:
    policy = replace(
        Policy(), failover=replace(Policy().failover, fail_threshold=100_000, retry_budget=0.1)
    )
    scene = Scene(card("a", 1), card("b", 1), policy=policy)
    calls = 400
    for number in range(calls):
        name = f"r{number}"
        scene.arrive(name, business=f"b{number % 50}")
        while name in scene.running:
            scene.fail(name, Fault.ERROR)
    attempts = len(scene.started)
    assert calls < attempts <= calls * 1.1 + 3


def test_a_replica_that_is_gone_costs_no_retry() -> None:
    scene = Scene(*(card(f"c{number}", 20) for number in range(3)))
    for number in range(30):
        scene.arrive(f"r{number}")
    for name in list(scene.on("c0")):
        scene.fail(name, Fault.UNREACHABLE)
    assert len(scene.running) == 30
    assert not scene.refused


def test_what_a_well_replica_can_take_needs_no_budget() -> None:
    """Other businesses use other replicas; that says nothing of these two."""
    none = replace(Policy(), failover=replace(Policy().failover, retry_budget=0.0))
    scene = Scene(card("bad", 4), card("good", 4), card("other", 4, "y"), policy=none)
    for number in range(80):
        scene.arrive(f"y{number}", business="neighbour", model="y")
        scene.finish(f"y{number}")
        name = f"r{number}"
        scene.arrive(name)
        scene.wait(10 * MS)
        if scene.where(name) == "bad":
            scene.fail(name)
            assert scene.where(name) == "good"
            scene.wait(50 * MS)
        scene.finish(name)
    assert not scene.refused
    (opened,) = notices(scene.log, Kind.BROKEN)
    assert opened.name == "bad"
    assert "m" in opened.cause


def test_where_nothing_is_known_to_be_well_retries_are_budgeted_for_one_business_too() -> None:
    patient = replace(Policy().failover, fail_threshold=100_000, retry_budget=0.1)
    scene = Scene(card("a", 4), card("b", 4), policy=replace(Policy(), failover=patient))
    calls = 100
    for number in range(calls):
        name = f"r{number}"
        scene.arrive(name)
        while name in scene.running:
            scene.wait(MS)
            scene.fail(name)
    assert calls < len(scene.started) <= calls * 1.1 + 4


def test_a_request_that_finds_one_dead_replica_after_another_is_served_by_the_last() -> None:
    scene = Scene(*(card(f"c{number}", 1) for number in range(6)))
    scene.arrive("r")
    for _ in range(5):
        scene.fail("r", Fault.UNREACHABLE)
    assert "r" in scene.running


def test_no_second_attempt_waits_for_a_breaker() -> None:
    scene = Scene(card("a", 4), card("b", 4))
    for number in range(6):
        scene.arrive(f"r{number}", business=f"b{number}")
    for name in scene.on("a"):
        broke(scene, name)
    assert [item.name for item in notices(scene.log, Kind.BROKEN)] == ["a"]
    (name, *_) = scene.on("b")
    scene.fail(name)
    assert scene.refused[name].reason is Reason.UPSTREAM_ERROR


# What says nothing of a replica.


def test_a_callers_own_error_or_its_leaving_does_not_close_a_breaker() -> None:
    scene = Scene(card("bad", 4))
    for number in range(3):
        scene.arrive(f"r{number}")
        broke(scene, f"r{number}")
    scene.now += 30 * SECOND
    scene.arrive("probe")
    scene.arrive("next")
    scene.step(events.Finished("probe", scene.running.pop("probe").attempt, answered=False))
    assert not notices(scene.log, Kind.MENDED)
    assert scene.on("bad") == ["next"], "another is tried at once"
    scene.finish("next")
    assert notices(scene.log, Kind.MENDED)


def test_errors_of_callers_in_between_keep_no_breaker_shut_and_condemn_nobody() -> None:
    """One sends prompts that are too long, while the replica fails all others."""
    scene = Scene(card("bad", 8))
    for number in range(60):
        for business in ("north", "south"):
            scene.arrive(f"{business}{number}", business=business)
            scene.arrive(f"long-{business}{number}", business="long")
            scene.wait(10 * MS)
            for name in (f"long-{business}{number}", f"{business}{number}"):
                if name in scene.running:
                    attempt = scene.running.pop(name).attempt
                    own = name.startswith("long")
                    scene.step(events.Finished(name, attempt, failed=not own, answered=not own))
    assert len(notices(scene.log, Kind.BROKEN)) == 1
    assert not notices(scene.log, Kind.SUSPENDED)


def test_an_answer_that_began_before_does_not_close_a_breaker() -> None:
    scene = Scene(card("bad", 8))
    scene.arrive("long")
    scene.wait(SECOND)
    for number in range(3):
        scene.arrive(f"r{number}")
        broke(scene, f"r{number}")
    scene.wait(SECOND)
    scene.finish("long")
    assert not notices(scene.log, Kind.MENDED)
    scene.arrive("held")
    assert scene.refused["held"].reason is Reason.NO_CAPACITY


def test_what_fails_on_a_process_that_is_gone_says_nothing_of_the_next() -> None:
    scene = Scene(card("a", 8))
    for number in range(6):
        scene.arrive(f"r{number}", business=f"b{number % 2}")
    scene.restart("a")
    for number in range(6):
        broke(scene, f"r{number}")
    assert not notices(scene.log, Kind.BROKEN)


def test_a_new_process_has_no_open_breaker() -> None:
    scene = Scene(card("a", 4))
    for number in range(3):
        scene.arrive(f"r{number}")
        broke(scene, f"r{number}")
    scene.restart("a")
    scene.arrive("next")
    assert scene.on("a") == ["next"]
