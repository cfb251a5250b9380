"""Breakers of replicas and of businesses, and the budget of retries (B07, D02, D05)."""

from dataclasses import replace

import pytest

from scheduler.core import events
from scheduler.core.decisions import Decision, Kind, Notice, Reason
from scheduler.core.events import Fault
from scheduler.core.policy import Policy

from .scene import SECOND, Scene, card


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


# Businesses.

EARLY = replace(
    Policy(), failover=replace(Policy().failover, fail_threshold=100_000, retry_budget=0.0)
)


def traffic(scene: Scene, *, bad: bool, seconds: int = 1) -> None:
    """Per second five requests of a good business and five of another, which may be bad."""
    for _ in range(seconds):
        for number in range(5):
            for business in ("good", "bad"):
                name = f"{business}-{scene.now}-{number}"
                scene.arrive(name, business=business)
                if name not in scene.running:
                    continue
                if business == "bad" and bad:
                    broke(scene, name)
                else:
                    scene.finish(name)
        scene.now += SECOND


def test_a_business_whose_requests_all_fail_is_suspended_trickled_and_restored() -> None:
    scene = Scene(card("c", 8), policy=EARLY)
    traffic(scene, bad=True, seconds=5)
    (suspended,) = notices(scene.log, Kind.SUSPENDED)
    assert suspended.name == "bad"
    scene.arrive("held", business="bad")
    refusal = scene.refused["held"]
    assert refusal.reason is Reason.TENANT_SUSPENDED
    assert refusal.retry_after == suspended.value - scene.now
    # Under observation: a few requests, which fail as well.
    scene.now = suspended.value
    before = len(scene.started)
    traffic(scene, bad=True, seconds=40)
    assert len(notices(scene.log, Kind.SUSPENDED)) == 2
    bad = [name for name in scene.started[before:] if name.startswith("bad")]
    assert 5 <= len(bad) <= 10
    # And again, when it has come to its senses.
    scene.now = notices(scene.log, Kind.SUSPENDED)[-1].value
    traffic(scene, bad=False, seconds=40)
    assert [item.name for item in notices(scene.log, Kind.RESTORED)] == ["bad"]
    before = len(scene.started)
    traffic(scene, bad=False, seconds=2)
    assert len(scene.started) - before == 20
    assert not [name for name in scene.refused if name.startswith("good")]


def test_where_everybody_fails_nobody_is_to_blame() -> None:
    scene = Scene(card("c", 8), policy=EARLY)
    for number in range(200):
        name = f"r{number}"
        scene.arrive(name, business=f"b{number % 4}")
        broke(scene, name)
    assert not notices(scene.log, Kind.SUSPENDED)


@pytest.mark.parametrize("failed", [20, 19])
def test_it_takes_the_share_and_the_number_that_the_policy_says(failed: int) -> None:
    scene = Scene(card("c", 8), policy=EARLY)
    for number in range(20):
        scene.arrive(f"good-{number}", business="good")
        scene.finish(f"good-{number}")
    for number in range(40):
        name = f"r{number}"
        scene.arrive(name)
        if number >= 40 - failed:
            broke(scene, name)
        else:
            scene.finish(name)
    assert bool(notices(scene.log, Kind.SUSPENDED)) == (failed >= 20)
