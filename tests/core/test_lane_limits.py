"""What lanes may hold of a pool: P2's bound, lent slots, dedicated pools and overflow."""

from dataclasses import replace

from scheduler.core.decisions import Reason
from scheduler.core.fleet import PoolFacts
from scheduler.core.policy import Lending, Policy, Starvation
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, URGENT, Scene, card

BOTH = (card("u", 2, pool=URGENT), card("s", 2))


def bound(share: float, *, borrow: bool) -> Policy:
    queues = Policy().queues
    p2 = replace(queues.P2, max_occupy=share, borrow=borrow)
    return replace(Policy(), queues=replace(queues, P2=p2))


def lending(keep_free: int = 1) -> Policy:
    return replace(Policy(), lending=Lending(enabled=True, keep_free=keep_free))


def p0_rules(**fields: object) -> Policy:
    queues = Policy().queues
    return replace(Policy(), queues=replace(queues, P0=replace(queues.P0, **fields)))  # type: ignore[arg-type]


def flood(scene: Scene, lane: int, count: int, *, resume: Resume = Resume.NEVER) -> None:
    for number in range(count):
        scene.arrive(f"p{lane}-{number}", lane, resume=resume)


# P2's bound.


def test_p2_borrows_what_nobody_wants() -> None:
    scene = Scene(card("c", 10), policy=bound(0.3, borrow=True))
    flood(scene, 2, 20)
    assert len(scene.on("c")) == 10
    flood(scene, 1, 10)
    for number in range(10):
        scene.finish(f"p2-{number}")
    assert scene.on("c") == [f"p1-{number}" for number in range(10)]


def test_without_borrowing_the_bound_is_hard() -> None:
    scene = Scene(card("c", 10), policy=bound(0.3, borrow=False))
    flood(scene, 2, 20)
    assert len(scene.on("c")) == 3
    flood(scene, 1, 20)
    assert len(scene.on("c")) == 10
    for number in range(20):
        scene.finish(f"p1-{number}")
    assert len(scene.on("c")) == 3
    scene.finish("p2-0")
    assert scene.on("c") == ["p2-1", "p2-2", "p2-3"]


def test_the_bound_is_the_pools_and_not_the_replicas() -> None:
    scene = Scene(card("a", 5), card("b", 5), policy=bound(0.4, borrow=False))
    flood(scene, 2, 10)
    assert len(scene.running) == 4
    scene.probe("b", ready=False)
    for name in scene.on("b"):
        scene.finish(name)
    # Half of the slots are gone, and what runs on the other half is enough.
    assert len(scene.running) == 2


def test_room_under_the_bound_is_used_on_any_of_the_pools_replicas() -> None:
    """The end of P2 on one replica may let P2 start on another."""
    cards = card("a", 5, "a", "both"), card("b", 5, "b", "both")
    scene = Scene(*cards, policy=bound(0.2, borrow=False))
    scene.arrive("a1", 2, model="a")
    scene.arrive("a2", 2, model="a")
    scene.arrive("b1", 2, model="b")
    assert scene.waiting() == ["b1"]
    scene.finish("a1")
    assert scene.where("b1") == "b"


def test_replicas_that_serve_nothing_in_common_have_bounds_of_their_own() -> None:
    """Room on cards that it can't use is no room for P2."""
    scene = Scene(card("a", 20, "a"), card("b", 5, "b"), policy=bound(0.2, borrow=False))
    scene.arrive("b1", 2, model="b")
    scene.arrive("b2", 2, model="b")
    assert scene.waiting() == ["b2"]
    for number in range(5):
        scene.arrive(f"a{number}", 2, model="a")
    assert scene.waiting() == ["b2", "a4"]


def test_a_pool_too_small_for_the_share_lets_one_run() -> None:
    scene = Scene(card("c", 2), policy=bound(0.3, borrow=False))
    flood(scene, 2, 5)
    assert scene.on("c") == ["p2-0"]


def test_a_bound_lowered_by_policy_breaks_nothing_that_runs() -> None:
    scene = Scene(card("c", 10))
    flood(scene, 2, 20)
    scene.rules(bound(0.3, borrow=False))
    assert len(scene.on("c")) == 10
    for number in range(7):
        scene.finish(f"p2-{number}")
        assert len(scene.on("c")) == 9 - number
    scene.finish("p2-7")
    assert len(scene.on("c")) == 3


# Dedicated pools.


def test_p0_prefers_its_own_pool_and_overflows() -> None:
    scene = Scene(*BOTH)
    flood(scene, 0, 5)
    assert (scene.on("u"), scene.on("s")) == (["p0-0", "p0-1"], ["p0-2", "p0-3"])
    assert scene.waiting() == ["p0-4"]


def test_others_stay_out_of_a_dedicated_pool() -> None:
    scene = Scene(*BOTH)
    flood(scene, 2, 3)
    flood(scene, 1, 3)
    assert scene.on("u") == []
    assert len(scene.on("s")) == 2


def test_without_overflow_p0_stays_in_its_own_pool() -> None:
    scene = Scene(*BOTH, policy=p0_rules(overflow=False))
    flood(scene, 0, 5)
    assert (scene.on("u"), scene.on("s")) == (["p0-0", "p0-1"], [])
    assert scene.waiting() == ["p0-2", "p0-3", "p0-4"]
    scene.finish("p0-0")
    assert scene.on("u") == ["p0-1", "p0-2"]
    scene.rules(Policy())
    assert scene.on("s") == ["p0-3", "p0-4"]


def test_a_pool_named_for_p0_is_the_one_it_prefers() -> None:
    other = PoolFacts("other", True, frozenset({0}))
    scene = Scene(
        card("u", 1, pool=URGENT),
        card("o", 1, pool=other),
        card("s", 1),
        policy=p0_rules(dedicated_pool="other"),
    )
    flood(scene, 0, 3)
    assert scene.where("p0-0") == "o"
    # Overflow goes to elastic pools; a dedicated pool that is not named is somebody else's.
    assert scene.where("p0-1") == "s"
    assert scene.waiting() == ["p0-2"]


def test_a_pool_named_for_a_shared_lane_is_the_only_one_it_uses() -> None:
    slow = PoolFacts("slow", False, frozenset({0, 1, 2}))
    queues = Policy().queues
    policy = replace(Policy(), queues=replace(queues, P2=replace(queues.P2, shared_pool="slow")))
    scene = Scene(card("a", 2), card("b", 1, pool=slow), policy=policy)
    flood(scene, 2, 3)
    flood(scene, 1, 1)
    assert scene.on("b") == ["p2-0"]
    assert scene.on("a") == ["p1-0"]
    assert scene.waiting() == ["p2-1", "p2-2"]


def test_a_lane_whose_pool_has_no_replica_for_the_model_is_refused() -> None:
    scene = Scene(
        card("u", 1, "n", pool=URGENT), card("s", 1, "m"), policy=p0_rules(overflow=False)
    )
    scene.arrive("a", 0, model="m")
    assert scene.refused["a"].reason is Reason.NO_CAPACITY


# Lent slots.


def test_idle_slots_of_a_dedicated_pool_are_lent_but_for_some() -> None:
    scene = Scene(card("u", 4, pool=URGENT), card("s", 1), policy=lending(keep_free=1))
    flood(scene, 2, 10)
    assert len(scene.on("s")) == 1
    assert len(scene.on("u")) == 3
    flood(scene, 1, 1)
    assert "p1-0" in scene.waiting()
    scene.arrive("urgent", 0)
    assert scene.where("urgent") == "u"


def test_slots_are_lent_as_soon_as_they_are_wanted() -> None:
    scene = Scene(card("u", 2, pool=URGENT), card("s", 1), policy=lending(keep_free=0))
    scene.arrive("a", 2)
    scene.arrive("b", 2)
    assert (scene.on("s"), scene.on("u")) == (["a"], ["b"])


def test_a_slot_freed_elsewhere_in_the_pool_lets_one_be_lent() -> None:
    scene = Scene(
        card("u1", 1, "n", "both", pool=URGENT),
        card("u2", 1, "m", "both", pool=URGENT),
        card("s", 1, "m", "n"),
        policy=lending(keep_free=1),
    )
    scene.arrive("urgent", 0, model="n")
    assert scene.where("urgent") == "u1"
    scene.arrive("a", 2)
    scene.arrive("b", 2)
    assert scene.waiting() == ["b"]
    scene.finish("urgent")
    assert scene.where("b") == "u2"


def test_without_lending_a_dedicated_slot_stays_idle() -> None:
    scene = Scene(*BOTH)
    flood(scene, 2, 10)
    assert scene.on("u") == []


def test_the_owner_takes_lent_slots_back_whatever_it_costs() -> None:
    """No gain would pay for this victim: almost done, and to be done again from the start."""
    scene = Scene(card("u", 1, pool=URGENT), card("s", 1), policy=lending(keep_free=0))
    scene.arrive("held", 1)
    scene.arrive("lent", 2, resume=Resume.RESTART)
    assert scene.where("lent") == "u"
    scene.wait(900 * MS)
    scene.arrive("urgent", 0)
    assert scene.stopped() == ["lent"]
    scene.wait(20 * MS)
    scene.stop("lent")
    assert scene.where("urgent") == "u"


def test_the_same_victim_in_a_shared_pool_is_left_alone() -> None:
    scene = Scene(card("s", 1))
    scene.arrive("low", 2, resume=Resume.RESTART)
    scene.wait(900 * MS)
    scene.arrive("urgent", 0)
    scene.wait(99 * MS)
    assert not scene.stopped()


def test_promoted_work_is_not_lent_to() -> None:
    """Overdue P2 gets its slots in the pools of its own lane."""
    queues = Policy().queues
    policy = replace(
        lending(keep_free=0),
        queues=replace(queues, P2=replace(queues.P2, max_wait_ms=100)),
        starvation=Starvation(1.0),
    )
    scene = Scene(card("u", 1, pool=URGENT), card("s", 1), policy=policy)
    scene.arrive("held-0", 0)
    scene.arrive("held-1", 0)
    scene.arrive("low", 2)
    scene.wait(SECOND)
    scene.finish(*scene.on("u"))
    assert scene.where("low") == "u"
    assert not scene.promoted()


def test_a_pools_use_is_recounted_when_a_replica_moves() -> None:
    scene = Scene(card("a", 2), card("b", 2))
    flood(scene, 2, 4)
    other = PoolFacts("other", False, frozenset({0, 1, 2}))
    scene.add(card("b", 2, pool=other)[0], other)
    uses = [replica.use for replica in scene.state.replicas.values()]
    assert [use.slots for use in uses] == [2, 2]
    assert [use.running[2] for use in uses] == [2, 2]
    scene.finish(*list(scene.running))
    assert [use.running for use in uses] == [[0, 0, 0], [0, 0, 0]]


def test_a_pool_at_its_bound_leaves_another_to_be_used() -> None:
    other = PoolFacts("other", False, frozenset({0, 1, 2}))
    scene = Scene(card("a", 10), card("b", 10, pool=other), policy=bound(0.2, borrow=False))
    flood(scene, 2, 6)
    assert (len(scene.on("a")), len(scene.on("b"))) == (2, 2)
    assert len(scene.waiting()) == 2
