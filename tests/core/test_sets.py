"""Placement sets: which cards are for which work, found from measured times and demand."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from scheduler.core.demand import renew_layout
from scheduler.core.policy import Placement, Policy
from scheduler.core.ticket import Ticket

from .clockwork import Clockwork
from .scene import MS, SECOND, START, Scene, card
from .teaching import (
    LANES,
    PEAK,
    SERVICE,
    cluster,
    kind,
    kinds,
    known_cluster,
    placement_set,
    teach,
)

EDGE = {"orin", "ascend"}
HOLDERS = {model: {name for name, held in SERVICE.items() if model in held} for model in PEAK}


@pytest.mark.parametrize("load", [0.01, 0.1, 0.3])
def test_with_room_to_spare_work_may_go_anywhere(load: float) -> None:
    scene = known_cluster(load)
    for model in PEAK:
        for lane in range(3):
            assert kinds(placement_set(scene, model, lane)) == HOLDERS[model]


@pytest.mark.parametrize("load", [0.7, 0.9, 1.0, 1.3, 3.0])
def test_near_the_peak_each_card_does_what_others_do_worse(load: float) -> None:
    """Speech and summaries cost six to thirty image slots on the edge cards."""
    scene = known_cluster(load)
    for lane in range(3):
        assert kinds(placement_set(scene, "detector", lane)) == EDGE
        assert kinds(placement_set(scene, "speech", lane)) == {"a100"}
        assert kinds(placement_set(scene, "summary", lane)) == {"a100"}


@pytest.mark.parametrize("load", [0.02, 0.5, 0.8, 1.0, 2.0])
def test_every_flow_has_a_set_of_replicas_that_take_it(load: float) -> None:
    scene = known_cluster(load)
    for model in PEAK:
        for lane in range(3):
            found = placement_set(scene, model, lane)
            assert found
            replicas = scene.state.replicas
            assert all(replicas[name].takes(model, lane, (0, 4, 8)[lane]) for name in found)
            tiers = scene.state.layout.spills[model, lane]
            spill = {replica.facts.name for tier in tiers for replica in tier}
            assert not spill & found


def test_only_p0_uses_the_pool_that_is_kept_for_it() -> None:
    for load in (0.1, 0.9):
        scene = known_cluster(load)
        assert "a100-1" in placement_set(scene, "speech", 0)
        for lane in (1, 2):
            for model in PEAK:
                assert "a100-1" not in placement_set(scene, model, lane)


def test_p0_tries_its_own_pool_first_at_rest() -> None:
    scene = known_cluster(0.1)
    scene.arrive("a", 0, model="speech")
    assert scene.where("a") == "a100-1"


def test_sets_follow_when_cards_go_and_when_they_come_back() -> None:
    scene = known_cluster(0.9)
    edge = [name for name in scene.state.replicas if kind(name) in EDGE]
    for name in edge:
        scene.probe(name, ready=False)
    assert kinds(placement_set(scene, "detector", 1)) == {"a100"}
    for name in edge:
        scene.probe(name, ready=True)
    assert kinds(placement_set(scene, "detector", 1)) == EDGE

    rest = [name for name in scene.state.replicas if kind(name) == "a100"]
    for name in rest:
        scene.remove(name)
    assert kinds(placement_set(scene, "speech", 1)) <= EDGE
    assert placement_set(scene, "speech", 1)
    assert kinds(placement_set(scene, "summary", 1)) == {"ascend"}


def test_a_card_that_drains_is_in_no_set() -> None:
    scene = known_cluster(0.1)
    facts = scene.state.replicas["orin-1"].facts
    scene.add(replace(facts, draining=True))
    assert all("orin-1" not in placement_set(scene, model, 1) for model in PEAK)


def test_a_card_that_has_become_slow_leaves_the_sets_of_a_busy_fleet() -> None:
    scene = known_cluster(0.9)
    service = {
        (model, name): float(SERVICE[kind(name)][model]) * (8 if name == "orin-1" else 1)
        for name, replica in scene.state.replicas.items()
        for model in replica.facts.models
    }
    demand = {
        (model, lane): 0.8 * rate * share
        for model, rate in PEAK.items()
        for lane, share in enumerate(LANES)
    }
    teach(scene, service, demand)
    assert "orin-1" not in placement_set(scene, "speech", 1)
    assert "orin-2" in placement_set(scene, "detector", 1)


def test_without_slot_prices_cost_counts_for_nothing() -> None:
    scene = known_cluster(0.9)
    scene.rules(replace(Policy(), placement=replace(Placement(), slot_price=0.0)))
    scene.rules(replace(Policy(), placement=replace(Placement(), slot_price=0.0), tick_ms=30))
    for lane in range(3):
        assert kinds(placement_set(scene, "detector", lane)) >= EDGE


def test_a_slot_of_its_set_is_what_higher_work_could_use() -> None:
    """Strict mode: while a P0 of another set waits, P2 of this set runs; a slot of P0's own
    set goes to nobody else."""
    scene = known_cluster(1.0)
    free = 3 * 16 + 16
    for number in range(free):
        scene.arrive(f"full-{number}", 0, model="summary")
    scene.arrive("p0", 0, model="summary")
    assert scene.waiting() == ["p0"]
    scene.arrive("p2", 2, model="detector")
    assert kind(scene.where("p2")) in EDGE
    scene.arrive("p2-summary", 2, model="summary")
    scene.finish("full-20")
    assert kind(scene.where("p0")) == "a100"
    assert "p2-summary" in scene.waiting()


def test_work_spills_to_dearer_cards_only_when_its_set_is_full() -> None:
    scene = known_cluster(0.7)
    slots = 6 * 4 + 4 * 8
    for number in range(slots):
        scene.arrive(f"d-{number}", 1, model="detector")
    assert kinds({found.replica for found in scene.running.values()}) == EDGE
    scene.arrive("more", 1, model="detector")
    assert scene.where("more") in {"a100-2", "a100-3", "a100-4"}


def test_who_wants_the_card_most_goes_before_who_would_spill() -> None:
    scene = known_cluster(0.7)
    for number in range(3 * 16):
        scene.arrive(f"s-{number}", 1, model="speech")
    for number in range(6 * 4 + 4 * 8):
        scene.arrive(f"d-{number}", 1, model="detector")
    scene.wait(MS)
    scene.arrive("spill", 0, model="detector")
    assert scene.where("spill") == "a100-1"
    for _ in range(15):
        scene.arrive(lane=0, model="detector")
    scene.arrive("waits", 0, model="detector")
    scene.arrive("speech", 2, model="speech")
    assert {"waits", "speech"} <= set(scene.waiting())
    scene.finish(next(name for name in scene.running if name.startswith("s-")))
    assert "speech" in scene.running
    assert "waits" in scene.waiting()


# Exploring.


def test_a_card_never_measured_is_in_every_set_until_it_is() -> None:
    scene = known_cluster(1.0)
    scene.add(*card("new-1", 4, *PEAK))
    for model in PEAK:
        assert "new-1" in placement_set(scene, model, 1)


def test_unexplored_pairs_get_explored() -> None:
    scene = known_cluster(1.0)
    scene.add(*card("orin-7", 4, *SERVICE["orin"]))
    clock = Clockwork(scene, lambda ticket, name: SERVICE[kind(name)][ticket.model] * MS)
    clock.run(mixed(1.0, SECOND), START + SECOND)
    estimates = scene.state.estimates
    assert estimates.explored("detector", "orin-7")
    assert estimates.explored("speech", "orin-7")
    renew_layout(scene.state)
    assert "orin-7" in placement_set(scene, "detector", 1)
    assert "orin-7" not in placement_set(scene, "speech", 1)


def test_a_replaced_replica_is_measured_anew() -> None:
    scene = known_cluster(1.0)
    assert scene.state.estimates.explored("detector", "orin-1")
    assert "orin-1" in scene.state.estimates.replicas
    scene.restart("orin-1")
    # As its kind is, as far as anybody knows.
    assert "orin-1" not in scene.state.estimates.replicas
    assert scene.state.estimates.explored("detector", "orin-1")


def mixed(load: float, ns: int, slower: int = 1, seed: int = 5) -> Iterator[Ticket]:
    """The peak's mix at random moments, ``slower`` times as far apart."""
    random, at, number = Random(seed), float(START), 0
    gap = slower * SECOND / (load * sum(PEAK.values()))
    while (at := at + random.expovariate(1 / gap)) < START + ns:
        number += 1
        model = random.choices(list(PEAK), list(PEAK.values()))[0]
        lane = random.choices(range(3), LANES)[0]
        yield Ticket(f"n{number}", f"b{number % 3}", model, lane, (1, 4, 8)[lane], int(at))


def test_it_is_found_from_nothing_but_what_is_measured() -> None:
    """Everything ten times slower and rarer than on the shared cluster, from a cold start."""
    scene = cluster()
    clock = Clockwork(scene, lambda ticket, name: 10 * SERVICE[kind(name)][ticket.model] * MS)
    clock.run(mixed(0.9, 24 * SECOND, slower=10), START + 24 * SECOND)
    late: Counter[tuple[str, str]] = Counter()
    for account in clock.accounts.values():
        if account.started is not None and account.started > START + 16 * SECOND:
            late[account.ticket.model, kind(account.replica)] += 1

    def share(model: str, wanted: set[str]) -> float:
        total = sum(count for (name, _), count in late.items() if name == model)
        return sum(late[model, name] for name in wanted) / total

    assert share("summary", {"a100"}) > 0.95
    assert share("speech", {"a100"}) > 0.85
    assert share("detector", EDGE) > 0.85


def test_the_only_card_that_holds_a_model_is_left_to_it() -> None:
    """Two models, one of which can go elsewhere, no faster: it does."""
    scene = Scene(card("both", 4, "a", "b"), card("a-only", 4, "a"))
    service = {("a", "both"): 100.0, ("b", "both"): 100.0, ("a", "a-only"): 100.0}
    teach(scene, service, {("a", 1): 35.0, ("b", 1): 30.0})
    assert placement_set(scene, "b", 1) == {"both"}
    assert placement_set(scene, "a", 1) == {"a-only"}


def on_completion() -> Policy:
    """Budgets of P1 are measured to the end."""
    queues = Policy().queues
    return replace(Policy(), queues=replace(queues, P1=replace(queues.P1, budget_on="completion")))


def test_a_request_that_would_miss_its_budget_takes_a_slot_outside_its_set() -> None:
    scene = Scene(card("fast", 1, "x"), card("kept", 2, "x", "y"), policy=on_completion())
    service = {("x", "fast"): 1000.0, ("x", "kept"): 1500.0, ("y", "kept"): 1000.0}
    teach(scene, service, {("x", 1): 0.8, ("y", 1): 1.95})
    assert placement_set(scene, "x", 1) == {"fast"}
    assert not scene.state.layout.spills["x", 1]
    scene.arrive("held", model="x")
    scene.arrive("pressed", model="x", budget=1600 * MS)
    scene.arrive("patient", model="x", budget=10 * SECOND)
    assert scene.where("held") == "fast"
    assert scene.where("pressed") == "kept"
    assert scene.waiting() == ["patient"]


def test_it_is_given_the_slot_when_the_time_comes_though_nothing_else_happens() -> None:
    scene = Scene(card("fast", 1, "x"), card("kept", 2, "x", "y"), policy=on_completion())
    service = {("x", "fast"): 1000.0, ("x", "kept"): 1500.0, ("y", "kept"): 1000.0}
    teach(scene, service, {("x", 1): 0.8, ("y", 1): 1.95})
    scene.arrive("held", model="x")
    # It takes 1.25 s wherever it may come to run, and the set's one slot comes free in a second.
    scene.arrive("pressed", model="x", budget=2500 * MS)
    assert scene.waiting() == ["pressed"]
    scene.wait(240 * MS)
    assert scene.waiting() == ["pressed"]
    scene.wait(20 * MS)
    assert scene.where("pressed") == "kept"
