"""Breakers of businesses: whose own doing it is that its requests fail, and how it comes back."""

from dataclasses import replace

import pytest

from scheduler.core import events
from scheduler.core.decisions import Decision, Kind, Notice, Reason
from scheduler.core.policy import Policy

from .scene import MS, SECOND, Scene, card
from .trials import BAD, Flow, Trial

EARLY = replace(
    Policy(), failover=replace(Policy().failover, fail_threshold=100_000, retry_budget=0.0)
)
RULES = Policy().tenant_breaker
OPEN = int(RULES.open_s * SECOND)


def notices(scene: Scene, kind: Kind) -> list[Notice]:
    return [item for item in scene.log if isinstance(item, Notice) and item.kind is kind]


def broke(scene: Scene, name: str) -> list[Decision]:
    """An answer broke off in the replica's hands."""
    attempt = scene.running.pop(name).attempt
    return scene.step(events.Finished(name, attempt, failed=True))


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
    (suspended,) = notices(scene, Kind.SUSPENDED)
    assert suspended.name == "bad"
    scene.arrive("held", business="bad")
    refusal = scene.refused["held"]
    assert refusal.reason is Reason.TENANT_SUSPENDED
    assert refusal.retry_after >= suspended.value - scene.now
    # Under observation: a few requests, which fail as well.
    scene.now = suspended.value
    before = len(scene.started)
    traffic(scene, bad=True, seconds=40)
    assert len(notices(scene, Kind.SUSPENDED)) == 2
    bad = [name for name in scene.started[before:] if name.startswith("bad")]
    assert 5 <= len(bad) <= 10
    # And again, when it has come to its senses.
    scene.now = notices(scene, Kind.SUSPENDED)[-1].value
    traffic(scene, bad=False, seconds=40)
    assert [item.name for item in notices(scene, Kind.RESTORED)] == ["bad"]
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
    assert not notices(scene, Kind.SUSPENDED)


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
    assert bool(notices(scene, Kind.SUSPENDED)) == (failed >= 20)


# Failures of replicas.


@pytest.mark.parametrize("replicas", [1, 2, 5])
def test_what_replicas_fail_suspends_nobody(replicas: int) -> None:
    """All of them fail one model, which one business alone uses; another model is well."""
    cards = [card(f"r{number}", 16, "x") for number in range(replicas)]
    scene = Scene(*cards, card("other", 16, "y"))
    flows = [Flow("one", "x", 20), Flow("one", "y", 5), Flow("neighbour", "y", 5)]
    trial = Trial(scene, lambda flow, _place, at: flow.model == "x" and at > 5.0)
    trial.run(flows, seconds=60)
    assert not trial.suspended()
    assert trial.lost("neighbour") == 0
    refused = {how for (name, how) in trial.ended if name == "one"} - {"ok"}
    assert refused <= {Reason.NO_CAPACITY, Reason.UPSTREAM_ERROR}
    well = [name for name in scene.done if name.startswith("one-y")]
    assert len(well) == sum(n.startswith("one-y") for n in scene.started)


def test_one_dead_of_two_replicas_suspends_nobody_and_costs_no_call() -> None:
    scene = Scene(card("dead", 8), card("well", 8))
    trial = Trial(scene, lambda _flow, place, _at: place == "dead").run([Flow("one", "m", 8)], 60)
    assert trial.lost("one") == 0
    assert trial.broken() == {("dead", "m")}
    assert not trial.suspended()


def test_a_model_is_kept_from_who_fails_with_it_and_the_others_are_not() -> None:
    """Its requests for one model fail on all replicas, where others' go well."""
    scene = Scene(card("r1", 16, "x", "y"), card("r2", 16, "x", "y"))
    flows = [Flow(BAD, "x", 10), Flow(BAD, "y", 5), Flow("good", "x", 10)]
    trial = Trial(scene, lambda flow, _place, _at: (flow.business, flow.model) == (BAD, "x"))
    trial.run(flows, 60)
    assert trial.suspended() == {(BAD, "x")}
    assert not trial.broken()
    assert trial.lost("good") == 0
    assert sum(name.startswith("bad-y") for name in scene.refused) == 0
    assert sum(name.startswith("bad-x") for name in scene.refused) > 100


def test_other_models_of_its_own_tell_where_nobody_else_uses_the_one_that_fails() -> None:
    scene = Scene(card("r1", 16, "x", "y"), card("r2", 16, "x", "y"))
    flows = [Flow(BAD, "x", 5), Flow(BAD, "y", 10)]
    trial = Trial(scene, lambda flow, _place, _at: flow.model == "x").run(flows, 60)
    assert trial.suspended() == {(BAD, "x")}
    assert not trial.broken()
    assert not [name for name in scene.refused if name.startswith("bad-y")]


# Coming back.


def suspended(scene: Scene, gap: int = 3 * SECOND) -> Notice:
    """A business is suspended that sends a request each ``gap`` (ns), as another does."""
    for number in range(RULES.min_requests + 1):
        scene.arrive(f"fine{number}", business="good")
        scene.wait(gap // 2)
        scene.finish(f"fine{number}")
        scene.arrive(f"bad{number}", business="bad")
        if f"bad{number}" in scene.running:
            broke(scene, f"bad{number}")
        scene.wait(gap // 2)
    (notice,) = notices(scene, Kind.SUSPENDED)
    return notice


def ask(scene: Scene) -> int:
    """The business asks, and what comes in goes well; the time (ns) to come again, 0: it was
    let in."""
    name = f"asks{len(scene.log)}"
    scene.arrive(name, business="bad")
    if name in scene.refused:
        return scene.refused[name].retry_after
    scene.finish(name)
    return 0


def test_a_caller_who_comes_when_told_gets_in_however_seldom_it_calls() -> None:
    """Once an hour is enough: places come with time, not with calls."""
    scene = Scene(card("c", 8))
    suspended(scene)
    scene.wait(ask(scene))
    for _ in range(4):
        assert ask(scene) == 0
        scene.wait(3600 * SECOND)
    assert ask(scene) == 0
    assert notices(scene, Kind.RESTORED)


@pytest.mark.parametrize("gap", [100 * MS, SECOND, 5 * SECOND])
def test_each_of_many_callers_who_come_when_told_gets_in(gap: int) -> None:
    scene = Scene(card("c", 8))
    suspended(scene, gap)
    waits = sorted(ask(scene) for _ in range(5))
    assert len(set(waits)) == 5, "each has a place of its own"
    began = scene.now
    for wait in waits:
        scene.wait(began + wait - scene.now)
        assert ask(scene) == 0
    assert notices(scene, Kind.RESTORED)


@pytest.mark.parametrize("gap", [10 * MS, SECOND, 5 * SECOND])
def test_a_trickle_takes_no_longer_than_the_suspension_did(gap: int) -> None:
    scene = Scene(card("c", 8))
    notice = suspended(scene, gap)
    scene.wait(notice.value - scene.now)
    while not notices(scene, Kind.RESTORED):
        scene.wait(max(ask(scene), MS))
        assert scene.now <= notice.value + OPEN


def test_a_trickle_is_no_flood() -> None:
    scene = Scene(card("c", 8))
    notice = suspended(scene, 10 * MS)
    scene.wait(notice.value - scene.now)
    let_in = 0
    for _ in range(300):
        name = f"flood{scene.now}"
        scene.arrive(name, business="bad")
        if name in scene.running:
            let_in += 1
            broke(scene, name)
        scene.wait(10 * MS)
    assert 1 <= let_in <= 5


def test_who_keeps_asking_is_not_told_to_come_ever_later() -> None:
    scene = Scene(card("c", 8))
    suspended(scene)
    waits = [ask(scene) for _ in range(1000)]
    assert max(waits) <= 3 * OPEN


def test_the_requests_of_before_do_not_decide_the_trickle() -> None:
    scene = Scene(card("c", 30))
    for number in range(10):
        scene.arrive(f"long{number}", business="bad")
    notice = suspended(scene)
    scene.wait(notice.value - scene.now)
    assert ask(scene) == 0
    for number in range(10):
        broke(scene, f"long{number}")
    assert len(notices(scene, Kind.SUSPENDED)) == 1
