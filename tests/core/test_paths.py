"""Hot replicas serve their models, cold ones where those fail, are slow, or are not there."""

from dataclasses import replace

import pytest

from scheduler.core.decisions import Kind, Notice
from scheduler.core.events import Fault
from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, URGENT, Scene, card

RULES = Policy().paths
PROBE = int(RULES.probe_s * SECOND)


def reserve(
    name: str, slots: int = 4, *models: str, **more: object
) -> tuple[ReplicaFacts, PoolFacts]:
    """A cold replica."""
    facts, pool = card(name, slots, *models, **more)  # type: ignore[arg-type]
    return replace(facts, hot=False), pool


def stage(policy: Policy | None = None, slots: int = 4) -> Scene:
    """Two hot replicas and a cold one. Breakers of replicas stay shut: these are other tests'."""
    return Scene(*trio(slots), policy=patient(policy or Policy()))


def trio(slots: int) -> tuple[tuple[ReplicaFacts, PoolFacts], ...]:
    return card("h1", slots), card("h2", slots), reserve("c", slots)


def patient(rules: Policy) -> Policy:
    return replace(rules, failover=replace(rules.failover, fail_threshold=1000))


def switches(scene: Scene) -> list[tuple[Kind, str, str]]:
    return [
        (item.kind, item.name, item.cause)
        for item in scene.log
        if isinstance(item, Notice) and item.kind in {Kind.PATH_COLD, Kind.PATH_HOT}
    ]


def fail(scene: Scene, count: int, lane: int = 1) -> None:
    """So many attempts fail on a hot replica, of two businesses."""
    for number in range(count):
        name = f"bad-{number}-{scene.now}"
        scene.arrive(name, lane, business=("north", "south")[number % 2])
        assert scene.where(name) in {"h1", "h2"}
        scene.finish_badly(name)


def serve(scene: Scene, count: int, ns: int = SECOND) -> set[str]:
    """So many requests, one after the other, each for so long; where they ran."""
    where = set()
    for number in range(count):
        name = f"good-{number}-{scene.now}"
        scene.arrive(name)
        where.add(scene.where(name))
        scene.wait(ns)
        scene.finish(name)
    return where


def test_cold_replicas_get_nothing_while_the_hot_ones_serve() -> None:
    """Full is no reason: who comes then waits, whatever its lane and budget."""
    scene = stage()
    for number in range(8):
        scene.arrive(f"r{number}", number % 3)
    assert len(scene.on("h1") + scene.on("h2")) == 8
    scene.arrive("urgent", 0, budget=10 * MS)
    scene.arrive("usual", 1)
    scene.arrive("low", 2)
    scene.wait(20 * SECOND)
    assert scene.waiting() == ["urgent", "usual", "low"]
    assert not switches(scene)


def test_where_no_hot_replica_is_ready_the_cold_ones_serve_and_only_then() -> None:
    scene = stage()
    scene.probe("h1", ready=False)
    assert serve(scene, 5) == {"h2"}
    scene.arrive("long")
    scene.probe("h2", ready=False)
    assert switches(scene) == [(Kind.PATH_COLD, "m", "no hot replica is ready")]
    scene.arrive("now", 0)
    assert scene.where("now") == "c"
    scene.probe("h1", ready=True)
    assert switches(scene)[1:] == [(Kind.PATH_HOT, "m", "a hot replica is ready")]
    assert serve(scene, 5) == {"h1"}


def test_who_waits_goes_to_a_cold_one_as_soon_as_the_last_hot_one_goes() -> None:
    scene = stage(slots=1)
    for name in ("a", "b", "waits"):
        scene.arrive(name)
    assert scene.waiting() == ["waits"]
    scene.probe("h1", ready=False)
    assert scene.waiting() == ["waits"]
    scene.probe("h2", ready=False)
    assert scene.where("waits") == "c"


def test_failures_in_a_row_leave_the_hot_path_and_a_probe_brings_it_back() -> None:
    scene = stage()
    fail(scene, RULES.failures - 1)
    serve(scene, 1)
    fail(scene, RULES.failures - 1)
    assert not switches(scene)
    fail(scene, 1)
    assert switches(scene) == [(Kind.PATH_COLD, "m", f"{RULES.failures} failures in a row")]
    notice = next(item for item in scene.log if isinstance(item, Notice))
    assert notice.value == scene.now + PROBE
    assert serve(scene, PROBE // SECOND - 1) == {"c"}
    scene.wait(4 * SECOND)
    # One tries it, the others do not.
    for name in ("one", "two", "three"):
        scene.arrive(name)
    assert sorted(scene.where(name) for name in ("one", "two", "three"))[:2] == ["c", "c"]
    (probe,) = scene.on("h1") + scene.on("h2")
    scene.finish(probe)
    assert switches(scene)[1:] == [(Kind.PATH_HOT, "m", "1 requests that tried it have gone well")]
    scene.arrive("after")
    assert scene.where("after") in {"h1", "h2"}


def test_a_probe_that_fails_leaves_it_for_as_long_again() -> None:
    scene = stage()
    fail(scene, RULES.failures)
    scene.wait(PROBE + 3 * SECOND)
    scene.arrive("probe")
    assert scene.where("probe") in {"h1", "h2"}
    scene.finish_badly("probe")
    assert serve(scene, PROBE // SECOND - 3) == {"c"}
    scene.wait(5 * SECOND)
    scene.arrive("again")
    assert scene.where("again") in {"h1", "h2"}
    assert len(switches(scene)) == 1


def test_a_probe_whose_caller_leaves_is_followed_by_another() -> None:
    scene = stage()
    fail(scene, RULES.failures)
    scene.wait(PROBE + 3 * SECOND)
    scene.arrive("probe")
    scene.cancel("probe")
    assert serve(scene, 3) == {"c"}
    scene.wait(PROBE)
    scene.arrive("next")
    assert scene.where("next") in {"h1", "h2"}


def test_one_business_alone_cannot_switch_for_the_others() -> None:
    scene = stage()
    serve(scene, 1)
    for number in range(3 * RULES.failures):
        scene.arrive(f"bad-{number}", business="clumsy")
        scene.finish_badly(f"bad-{number}")
    assert not switches(scene)


def test_whoever_uses_other_models_elsewhere_has_no_say() -> None:
    scene = Scene(*trio(4), card("aside", 4, "other"), policy=patient(Policy()))
    scene.arrive("n", business="neighbour", model="other")
    scene.finish("n")
    for number in range(RULES.failures):
        scene.arrive(f"bad-{number}")
        scene.finish_badly(f"bad-{number}")
    assert [switch[0] for switch in switches(scene)] == [Kind.PATH_COLD]


def test_what_ended_badly_before_the_switch_is_no_probe() -> None:
    scene = stage()
    scene.arrive("old")
    fail(scene, RULES.failures)
    scene.finish("old")
    assert len(switches(scene)) == 1
    assert serve(scene, 3) == {"c"}


def test_latency_leaves_the_hot_path_and_a_quick_probe_brings_it_back() -> None:
    scene = stage()
    serve(scene, 20)
    serve(scene, 8, int(RULES.latency_factor + 2) * SECOND)
    (switch,) = switches(scene)
    assert switch[:2] == (Kind.PATH_COLD, "m")
    assert switch[2].endswith("times as long as usual")
    assert serve(scene, 1) == {"c"}
    scene.wait(PROBE + 3 * SECOND)
    serve(scene, 1)
    assert switches(scene)[-1][0] is Kind.PATH_HOT


def test_slow_hot_replicas_are_better_than_slower_cold_ones() -> None:
    scene = stage()
    for name in ("h1", "h2"):
        scene.probe(name, ready=False)
    serve(scene, 5, 60 * SECOND)
    for name in ("h1", "h2"):
        scene.probe(name, ready=True)
    before = len(switches(scene))
    serve(scene, 20)
    serve(scene, 40, int(RULES.latency_factor + 2) * SECOND)
    assert len(switches(scene)) == before


def test_what_stays_slow_is_usual_in_the_end() -> None:
    """No estimate of long ago keeps a path out for good."""
    scene = stage()
    slow = int(RULES.latency_factor + 2) * SECOND
    serve(scene, 20)
    for _ in range(60):
        scene.wait(PROBE)
        serve(scene, 1, slow)
    assert switches(scene)[-1][0] is Kind.PATH_HOT


def test_where_no_cold_one_is_ready_the_hot_path_is_not_left() -> None:
    scene = stage()
    scene.probe("c", ready=False)
    fail(scene, 3 * RULES.failures)
    assert not switches(scene)


def test_a_left_path_is_used_when_the_cold_ones_go() -> None:
    scene = stage()
    fail(scene, RULES.failures)
    assert serve(scene, 1) == {"c"}
    scene.probe("c", ready=False)
    assert serve(scene, 1) <= {"h1", "h2"}


def test_where_all_hot_breakers_are_open_the_cold_ones_help_until_one_is_closed() -> None:
    policy = Policy()
    paths = replace(policy.paths, failures=1000)
    scene = Scene(card("h", 4), reserve("c"), policy=replace(policy, paths=paths))
    for number in range(policy.failover.fail_threshold):
        scene.arrive(f"bad-{number}", business=("north", "south")[number % 2])
        scene.finish_badly(f"bad-{number}")
    assert serve(scene, 2) == {"c"}
    assert switches(scene) == [(Kind.PATH_COLD, "m", "no hot replica is ready")]
    scene.wait(int(policy.failover.open_s * SECOND))
    scene.arrive("probe")
    scene.arrive("other")
    assert (scene.where("probe"), scene.where("other")) == ("h", "c")
    scene.finish("probe")
    assert switches(scene)[-1] == (Kind.PATH_HOT, "m", "a hot replica is ready")
    assert serve(scene, 2) == {"h"}


def test_lanes_and_levels_that_no_hot_replica_takes_are_the_cold_ones() -> None:
    scene = Scene(card("h", 4, levels=(0, 5)), reserve("c"), card("u", 1, "other", pool=URGENT))
    scene.arrive("lowest", 2, level=9)
    assert scene.where("lowest") == "c"
    other = Scene(card("p1", 1, pool=PoolFacts("slow", False, frozenset({1, 2}))), reserve("c"))
    other.arrive("urgent", 0)
    assert other.where("urgent") == "c"
    other.arrive("usual", 1)
    assert other.where("usual") == "p1"


def test_no_low_work_on_a_resting_replica_is_stopped_for_p0() -> None:
    scene = stage(slots=1)
    for name in ("h1", "h2"):
        scene.probe(name, ready=False)
    scene.arrive("low", 2, prompt=100, output=3000, resume=Resume.CONTINUE)
    assert scene.where("low") == "c"
    for name in ("h1", "h2"):
        scene.probe(name, ready=True)
    for name in ("a", "b", "urgent"):
        scene.arrive(name, 0)
    scene.wait(SECOND)
    assert not scene.stopped()
    assert scene.waiting() == ["urgent"]


@pytest.mark.parametrize("mode", ["strict", "weighted", "fifo"])
def test_it_holds_in_every_mode(mode: str) -> None:
    scene = stage(replace(Policy(), mode=mode))
    for number in range(9):
        scene.arrive(f"r{number}")
    assert scene.waiting() == ["r8"]
    assert not scene.on("c")


def test_a_model_without_hot_replicas_is_served_by_its_cold_ones() -> None:
    scene = Scene(card("h", 1, "other"), reserve("c", 1))
    scene.arrive("one")
    assert scene.where("one") == "c"
    assert not scene.state.paths


def test_a_request_that_every_hot_replica_has_failed_goes_to_a_cold_one() -> None:
    """It alone: the others stay where they are."""
    scene = stage()
    serve(scene, 50)
    scene.arrive("unlucky")
    first = scene.where("unlucky")
    scene.fail("unlucky")
    assert scene.where("unlucky") in {"h1", "h2"} - {first}
    scene.fail("unlucky")
    assert scene.where("unlucky") == "c"
    assert serve(scene, 3) <= {"h1", "h2"}
    assert not switches(scene)


def test_a_refused_request_s_replica_leaves_its_work_to_others_at_once() -> None:
    """The request goes with its replica, and who waits goes where it may from now on."""
    scene = Scene(card("h", 1), reserve("c", 1, levels=(3, 9)))
    scene.arrive("urgent", 0)
    scene.arrive("waits", 1)
    assert scene.waiting() == ["waits"]
    scene.fail("urgent", Fault.UNREACHABLE)
    assert "urgent" in scene.refused
    assert scene.where("waits") == "c"


def test_a_probe_that_is_due_takes_who_waits_at_the_next_event_of_anybody() -> None:
    scene = Scene(*trio(1), card("aside", 1, "other"), policy=patient(Policy()))
    fail(scene, RULES.failures)
    scene.arrive("long")
    scene.arrive("waits")
    assert (scene.where("long"), scene.waiting()) == ("c", ["waits"])
    scene.now += PROBE
    scene.arrive("another", model="other")
    assert scene.where("waits") in {"h1", "h2"}


def test_what_takes_no_time_is_never_slow() -> None:
    scene = stage()
    serve(scene, 20, ns=0)
    serve(scene, 20, ns=MS)
    assert not switches(scene)
