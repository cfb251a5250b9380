"""``placement.mode: score``: the emptiest by weights, drawn of the best."""

from collections import Counter
from dataclasses import replace

import pytest

from scheduler.core.decisions import Dispatch
from scheduler.core.policy import Placement, Policy, ReplicaWeights
from scheduler.core.scoring import STALE, idleness
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, Scene, card
from .teaching import teach


def placing(**fields: object) -> Policy:
    fields = {"mode": "score", **fields}
    return replace(Policy(), placement=replace(Placement(), **fields))  # type: ignore[arg-type]


ONE = placing(top_k=1)
CARDS = ("a", "b", "c", "d", "e")


def fleet(policy: Policy = ONE, slots: int = 4, seed: int = 1, names: str = "ab") -> Scene:
    return Scene(*(card(name, slots) for name in names), policy=policy, seed=seed)


def scored(scene: Scene, name: str) -> float:
    weights = ReplicaWeights()
    replica = scene.state.replicas[name]
    return idleness(replica, scene.now, (weights.gpu, weights.memory, weights.queue))


# Load.


def test_the_emptiest_takes_the_next() -> None:
    scene = fleet(names="abc")
    for _ in range(9):
        scene.arrive()
    assert [len(scene.on(name)) for name in "abc"] == [3, 3, 3]


@pytest.mark.parametrize(
    "reading", [(0.9, None, None), (None, 0.9, None), (None, None, 4), (0.9, 0.9, 4)]
)
def test_a_replica_that_is_busy_by_its_own_figures_comes_last(
    reading: tuple[float | None, float | None, int | None],
) -> None:
    scene = fleet()
    scene.measure("a", *reading)
    scene.measure("b", 0.0, 0.0, 0)
    scene.arrive("r")
    assert scene.where("r") == "b"


def test_the_score_is_the_weighted_sum_of_what_is_free() -> None:
    scene = fleet()
    scene.measure("a", 0.5, 0.25, 2)
    assert scored(scene, "a") == pytest.approx(0.4 * 0.5 + 0.2 * 0.75 + 0.4 * 0.5)
    # What it does not say may be as busy as it may be idle.
    scene.measure("a", None, None, None)
    assert scored(scene, "a") == pytest.approx(0.4 * 0.5 + 0.2 * 0.5 + 0.4)


def test_our_own_count_stands_where_figures_lag_behind_it() -> None:
    scene = fleet(names="a")
    for _ in range(3):
        scene.arrive()
    scene.measure("a", 0.0, 0.0, 0)
    assert scored(scene, "a") == pytest.approx(0.25)


def test_old_figures_are_unknown_and_not_idle() -> None:
    scene = fleet()
    scene.measure("a", 1.0, 1.0, 0)
    assert scored(scene, "a") == pytest.approx(0.4)
    scene.wait(STALE)
    assert scored(scene, "a") == pytest.approx(0.4)
    scene.wait(1)
    # Neither what it said once, nor nothing.
    assert scored(scene, "a") == pytest.approx(0.6 * 0.5 + 0.4)
    scene.measure("b", 0.1, 0.1, 0)
    scene.arrive("r")
    assert scene.where("r") == "b"
    scene.measure("b", 0.9, 0.9, 0)
    scene.arrive("s")
    assert scene.where("s") == "a"


def test_a_replica_just_picked_is_picked_less() -> None:
    scene = fleet(policy=placing(top_k=1, band=0.0), slots=8)
    scene.measure("a", 0.1, 0.0, 0)
    scene.measure("b", 0.2, 0.0, 0)
    for _ in range(6):
        scene.arrive()
    assert abs(len(scene.on("a")) - len(scene.on("b"))) <= 2


def test_a_clearly_slower_replica_is_a_risk() -> None:
    scene = fleet(slots=8)
    teach(scene, {("m", "a"): 300.0, ("m", "b"): 100.0}, {("m", 1): 1.0})
    scene.rules(replace(ONE, placement=replace(ONE.placement, slot_price=0.0)))
    for _ in range(3):
        scene.arrive()
    assert scene.on("b") == ["r1", "r2", "r3"]


# Affinity.


def test_a_session_stays_where_it_was() -> None:
    scene = fleet(names="abcde")
    scene.arrive("first", session="s")
    home = scene.where("first")
    scene.finish("first")
    for number in range(10):
        scene.arrive(f"again-{number}", session="s")
        assert scene.where(f"again-{number}") == home
        scene.finish(f"again-{number}")


def test_but_not_on_a_replica_that_is_much_busier() -> None:
    scene = fleet(slots=4)
    scene.arrive("first", session="s")
    home = scene.where("first")
    scene.measure(home, 1.0, 1.0, 4)
    scene.arrive("again", session="s")
    assert scene.where("again") != home
    for name in "ab":
        scene.measure(name, 0.0, 0.0, 0)
    scene.finish("first", "again")
    scene.arrive("third", session="s")
    # It has a new home now.
    assert scene.where("third") != home


def test_without_affinity_in_the_policy_a_session_is_like_any_other() -> None:
    scene = fleet(policy=placing(top_k=1, affinity=0.0))
    scene.arrive("first", session="s")
    scene.arrive("second", session="s")
    assert scene.where("first") != scene.where("second")


def test_sessions_are_forgotten_in_time() -> None:
    scene = fleet()
    for number in range(10_050):
        scene.arrive("r", session=f"s{number}")
        scene.finish("r")
    assert len(scene.state.prefixes.sessions) == 10_000
    assert "s0" not in scene.state.prefixes.sessions


def test_a_paused_request_prefers_the_replica_that_holds_its_prefix() -> None:
    scene = fleet(names="abcde", slots=2)
    scene.arrive("r", 2, prompt=100, output=500, resume=Resume.CONTINUE)
    home = scene.where("r")
    scene.stop("r", 50)
    assert scene.where("r") == home


# The seeded draw.


def picks(seed: int, count: int = 60, **fields: object) -> list[str]:
    scene = fleet(placing(**fields), slots=4, seed=seed, names="abcde")
    for _ in range(count):
        scene.arrive("r")
        scene.finish("r")
    return [d.replica for d in scene.log if isinstance(d, Dispatch)]


def test_the_draw_is_the_seeds_alone() -> None:
    assert picks(7) == picks(7)
    assert picks(7) != picks(8)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_one_of_the_best_k_is_drawn(k: int) -> None:
    # All of it within one moment, and nobody has had too much.
    found = Counter(picks(3, count=300, top_k=k, most_share=100.0))
    assert len(found) == k
    assert min(found.values()) > 200 / k / 2


@pytest.mark.parametrize("most", [1.0, 1.5])
def test_a_replica_picked_often_is_damped(most: float) -> None:
    scene = fleet(placing(top_k=1, most_share=most), names="abcde", slots=10)
    # The others are busy by their own figures; it looks the emptiest to each in turn.
    for name in "bcde":
        scene.measure(name, 0.9, 0.9, 0)
    for number in range(40):
        scene.arrive(f"r{number}")
        scene.finish(f"r{number}")
        scene.wait(10 * MS)
    shares = Counter(d.replica for d in scene.log if isinstance(d, Dispatch))
    assert 40 / 5 * 0.9 <= shares["a"] <= max(4, 40 / 5 * most + 1)
    # A second later it is its turn again.
    scene.wait(SECOND)
    scene.arrive("later")
    assert scene.where("later") == "a"


def test_a_replica_picked_often_is_used_where_no_other_has_room() -> None:
    scene = fleet(placing(top_k=1), names="ab", slots=2)
    for name in ("b1", "b2"):
        scene.arrive(name)
    for name in list(scene.running):
        if scene.where(name) == "a":
            scene.finish(name)
            scene.arrive("filler")
    for number in range(20):
        scene.arrive(f"r{number}")
        assert f"r{number}" in scene.running
        scene.finish(f"r{number}")


def test_a_session_stays_at_home_however_often_it_comes() -> None:
    scene = fleet(placing(), names="abc", slots=10)
    for number in range(30):
        scene.arrive(f"r{number}", session="talk")
        scene.finish(f"r{number}")
    found = {d.replica for d in scene.log if isinstance(d, Dispatch)}
    assert len(found) == 1


def test_only_scores_within_the_band_take_part() -> None:
    scene = fleet(placing(top_k=5, band=0.05), names="abc")
    scene.measure("a", 0.0, 0.0, 0)
    scene.measure("b", 0.1, 0.0, 0)
    scene.measure("c", 0.2, 0.0, 0)
    found = set()
    for _ in range(60):
        scene.arrive("r")
        found.add(scene.where("r"))
        scene.finish("r")
    assert found == {"a", "b"}


def test_one_dispatch_in_a_hundred_tells_its_candidates() -> None:
    scene = fleet(names="abc")
    for _ in range(300):
        scene.arrive("r")
        scene.finish("r")
    told = [d for d in scene.log if isinstance(d, Dispatch) and d.scores]
    assert len(told) == 3
    for found in told:
        assert {name for name, _ in found.scores} == {"a", "b", "c"}
        assert [score for _, score in found.scores] == sorted(
            (score for _, score in found.scores), reverse=True
        )
