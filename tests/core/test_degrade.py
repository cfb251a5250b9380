"""A lighter model in place of a refusal, where policy, business and time allow it."""

from dataclasses import replace

from scheduler.core import events
from scheduler.core.decisions import Decision, Degrade, Kind, Notice, Reason, Scale
from scheduler.core.fleet import CardFacts
from scheduler.core.policy import Policy

from .scene import MS, SECOND, SHARED, Scene, card

SERVICE = SECOND
LIGHT = ("light", "lighter")


def rules(*, probe_every: int = 50) -> Policy:
    policy = Policy()
    admission = replace(policy.admission, degrade=True, probe_every=probe_every)
    return replace(policy, admission=admission)


def full(policy: Policy | None = None, waiting: int = 8) -> Scene:
    """``m`` is known to take a second, its four slots are taken and so many wait for them; there
    are other replicas for the lighter ones."""
    scene = Scene(
        card("heavy", 4), card("a", 1, "light"), card("b", 1, "lighter"), policy=policy or rules()
    )
    for number in range(80):
        scene.arrive(f"known-{number}")
        scene.now += SERVICE
        scene.finish(f"known-{number}")
    for number in range(4 + waiting):
        scene.arrive(f"held-{number}", budget=60 * SECOND)
    return scene


def degraded(scene: Scene) -> list[Degrade]:
    return [item for item in scene.log if isinstance(item, Degrade)]


def test_over_its_budget_the_lighter_model_answers_at_once() -> None:
    scene = full()
    scene.arrive("late", budget=1500 * MS, lighter=LIGHT)
    assert scene.where("late") == "a"
    (made,) = degraded(scene)
    assert (made.request, made.model, made.reason) == ("late", "light", Reason.LATENCY_BUDGET)
    assert 0 < made.late < SECOND
    assert scene.state.requests["late"].ticket.model == "light"
    # It learns of the model that ran.
    scene.now += 100 * MS
    scene.finish("late")
    assert scene.state.estimates.models["light"].samples == 1


def test_within_its_budget_it_keeps_its_own() -> None:
    scene = full()
    scene.arrive("early", budget=60 * SECOND, lighter=LIGHT)
    scene.arrive("any", lighter=LIGHT)
    assert not degraded(scene)
    assert {"early", "any"} <= set(scene.waiting())


def test_without_permission_it_is_refused() -> None:
    scene = full()
    scene.arrive("late", budget=1500 * MS)
    assert scene.refused["late"].reason is Reason.LATENCY_BUDGET
    scene = full(Policy())
    scene.arrive("late", budget=1500 * MS, lighter=LIGHT)
    assert scene.refused["late"].reason is Reason.LATENCY_BUDGET


def test_a_lighter_one_that_cannot_come_in_time_either_is_passed_over() -> None:
    scene = full()
    for number in range(20):
        scene.arrive(f"light-{number}", model="light")
        scene.now += SERVICE
        scene.finish(f"light-{number}")
    for number in range(5):
        scene.arrive(f"busy-{number}", model="light")
    scene.arrive("late", budget=1500 * MS, lighter=LIGHT)
    assert scene.where("late") == "b"
    scene.probe("b", ready=False)
    scene.arrive("later", budget=1500 * MS, lighter=LIGHT)
    assert scene.refused["later"].reason is Reason.LATENCY_BUDGET
    assert len(degraded(scene)) == 1


def test_a_lighter_one_that_is_busy_is_waited_for_within_the_budget() -> None:
    scene = full()
    scene.arrive("holds", model="light")
    scene.arrive("late", budget=1500 * MS, lighter=("light",))
    assert "late" in scene.waiting()
    assert degraded(scene)[0].model == "light"
    scene.finish("holds")
    assert scene.where("late") == "a"


def test_where_no_replica_serves_the_model_the_lighter_one_answers() -> None:
    scene = Scene(card("a", 1, "light"), policy=rules())
    for lane in range(3):
        scene.arrive(f"r{lane}", lane, lighter=LIGHT)
    assert [made.reason for made in degraded(scene)] == [Reason.NO_CAPACITY] * 3
    assert scene.on("a") == ["r0"]
    assert scene.waiting() == ["r1", "r2"]
    scene.arrive("none", lighter=("nowhere",))
    assert scene.refused["none"].reason is Reason.NO_CAPACITY


def test_p0_is_answered_by_the_lighter_one_while_its_own_is_started() -> None:
    scene = Scene(card("a", 1, "light"), policy=rules())
    scene.step(events.CardsChanged((CardFacts("spare", SHARED, frozenset({"m"}), startable=True),)))
    scene.arrive("urgent", 0, lighter=LIGHT)
    assert scene.where("urgent") == "a"
    assert [item.models for item in scene.log if isinstance(item, Scale)] == [("m",)]
    scene.add(*card("spare"))
    scene.arrive("next", 0, lighter=LIGHT)
    assert scene.where("next") == "spare"


def test_a_business_that_is_held_back_gets_no_lighter_one() -> None:
    """It is about the business, not about the model."""
    scene = full()
    scene.limit("shop", suspended=True)
    scene.arrive("r", lighter=LIGHT, budget=MS)
    assert scene.refused["r"].reason is Reason.TENANT_SUSPENDED
    assert not degraded(scene)


def test_one_in_so_many_tries_its_own_so_that_no_estimate_of_long_ago_stays() -> None:
    scene = full(rules(probe_every=3))
    for number in range(6):
        scene.arrive(f"late-{number}", budget=1500 * MS, lighter=LIGHT)
    assert len(degraded(scene)) == 4
    assert {"late-2", "late-5"} <= set(scene.waiting())


def test_it_is_decided_before_anything_is_done() -> None:
    scene = full()
    out: list[Decision] = scene.arrive("late", budget=1500 * MS, lighter=LIGHT)
    kinds = [type(item) for item in out if not isinstance(item, Notice)]
    assert kinds.index(Degrade) == 0
    assert Kind.PRESSED not in [item.kind for item in out if isinstance(item, Notice)]
