"""What the scheduler finds of replicas and businesses, held against what is true of them."""

import os
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from scheduler.core.decisions import Kind, Reason

from .scene import MS, SECOND, Scene, card
from .trials import BAD, Flow, Trial

LONG = os.environ.get("FAIRLANE_LONG_TESTS") == "1"
SECONDS = 60
# What a replica that is broken may fail of others' attempts before it is found out, if the model
# is well on another; and if not: until a second business has come.
MOST_FAILED, MOST_FAILED_ALL = 20, 100


@dataclass(frozen=True)
class World:
    """Replicas that all hold the models, which are ``broken`` on some of them from ``breaks`` (s)
    on, and a business that fails by its own doing from ``turns`` (s) on. Attempts that go well
    take ``took`` ms, others ``broke`` ms."""

    replicas: tuple[str, ...]
    models: tuple[str, ...]
    flows: tuple[Flow, ...]
    broken: frozenset[tuple[str, str]]
    breaks: float
    turns: float
    took: int
    broke: int
    seed: int

    def fails(self, flow: Flow, replica: str, at: float) -> bool:
        """The truth."""
        if flow.business == BAD and at >= self.turns:
            return True
        return (replica, flow.model) in self.broken and at >= self.breaks

    def well(self, model: str) -> list[str]:
        """Replicas that serve the model throughout."""
        return [name for name in self.replicas if (name, model) not in self.broken]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Two or three innocent businesses use every model, one at fault may use the first. Where a
    model is well somewhere, it is broken on two replicas at most: a request is tried thrice."""
    replicas = tuple(f"r{number}" for number in range(draw(st.integers(1, 4))))
    models = ("x", "y")[: draw(st.integers(1, 2))]
    businesses = [f"b{number}" for number in range(draw(st.integers(2, 3)))]
    rates = st.sampled_from([1.0, 3.0, 6.0])
    flows = [Flow(name, model, draw(rates)) for name in businesses for model in models]
    if draw(st.booleans()):
        flows.append(Flow(BAD, "x", draw(st.sampled_from([1.0, 5.0, 20.0, 50.0]))))
    broken = {
        (name, model)
        for model in models
        for name in draw(st.sets(st.sampled_from(replicas), max_size=2))
    }
    return World(
        replicas,
        models,
        tuple(flows),
        frozenset(broken),
        breaks=draw(st.sampled_from([5.0, 15.0])),
        turns=draw(st.sampled_from([5.0, 10.0, 15.0])),
        took=draw(st.sampled_from([20, 200, 2000])),
        broke=draw(st.sampled_from([2, 20, 200])),
        seed=draw(st.integers(1, 10_000)),
    )


def run(world: World) -> Trial:
    """A minute of it."""
    scene = Scene(*(card(name, 160, *world.models) for name in world.replicas))
    trial = Trial(scene, world.fails, world.took * MS, world.broke * MS)
    return trial.run(list(world.flows), SECONDS, world.seed)


@given(worlds())
@settings(
    max_examples=300 if LONG else 25,
    deadline=None,
    derandomize=not LONG,
    phases=tuple(Phase) if LONG else (Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
def test_verdicts_are_true(world: World) -> None:
    """No replica is left alone that is well, none is used for long that is broken; no innocent
    business is suspended or loses a request, and one at fault is found out."""
    trial = run(world)
    assert trial.broken() <= world.broken
    assert {business for business, _ in trial.suspended()} <= {BAD}
    for name, model in world.broken:
        most = MOST_FAILED if world.well(model) else MOST_FAILED_ALL
        failed = trial.failed_at(name, model)
        assert trial.opened_after.get((name, model), failed) <= most
    for business in {flow.business for flow in world.flows} - {BAD}:
        if all(world.well(model) for model in world.models):
            assert trial.lost(business) == 0
    if any(flow.business == BAD for flow in world.flows) and world.well("x"):
        assert (BAD, "x") in trial.suspended()


@pytest.mark.parametrize("seed", range(10))
def test_where_chance_fails_one_in_a_hundred_nobody_is_condemned_for_it(seed: int) -> None:
    chance = Random(seed)
    scene = Scene(*(card(f"r{number}", 16, "x", "y") for number in range(3)))
    flows = [Flow(f"b{number}", model, 3) for number in range(4) for model in "xy"]
    trial = Trial(scene, lambda _flow, _place, _at: chance.random() < 0.01, took=300 * MS)
    trial.run(flows, 120, seed)
    assert not trial.notices
    assert not scene.refused


def test_a_business_of_which_half_the_requests_fail_is_suspended_and_no_replica_is() -> None:
    """Whichever they are, they fail on whichever replica they are tried."""
    scene = Scene(*(card(f"r{number}", 16) for number in range(3)))
    poison: dict[str, bool] = {}
    chance = Random(3)

    def fails(flow: Flow, _place: str, _at: float) -> bool:
        name = scene.started[-1]
        return flow.business == BAD and poison.setdefault(name, chance.random() < 0.6)

    flows = [Flow(BAD, "m", 10), Flow("good", "m", 10)]
    trial = Trial(scene, fails).run(flows, 120)
    assert trial.suspended() == {(BAD, "m")}
    assert not trial.broken()
    assert trial.lost("good") == 0


def test_a_business_at_fault_among_many_replicas_is_found_out_by_those_that_others_use() -> None:
    """Others are served by two of eight replicas; it fails on all of them."""
    cards = [card(f"r{number}", 8, levels=(3, 6) if number < 2 else (5, 5)) for number in range(8)]
    scene = Scene(*cards)
    trial = Trial(scene, lambda flow, _place, _at: flow.business == BAD)
    trial.run([Flow(BAD, "m", 5), Flow("good", "m", 5)], 60)
    assert trial.suspended() == {(BAD, "m")}
    assert trial.lost("good") == 0


def test_a_business_alone_that_fails_everywhere_condemns_no_replica_for_the_next() -> None:
    """Whatever is made of it while it is alone, whoever comes is served."""
    for seed in range(5):
        scene = Scene(*(card(f"r{number}", 16) for number in range(3)))
        trial = Trial(scene, lambda flow, _place, at: flow.business == BAD and at > 5.0)
        trial.run([Flow(BAD, "m", 20)], 20, seed)
        later = Trial(scene, lambda flow, _place, _at: flow.business == BAD)
        later.run([Flow(BAD, "m", 20), Flow("next", "m", 2)], 60, seed)
        assert later.lost("next") == 0
        assert {name for name, _ in later.suspended()} <= {BAD}


def test_all_replicas_of_the_only_business_fail_and_it_is_told_when_to_come_again() -> None:
    scene = Scene(*(card(f"r{number}", 16) for number in range(3)))
    trial = Trial(scene, lambda _flow, _place, at: 5.0 < at < 40.0)
    trial.run([Flow("only", "m", 10)], 120)
    assert {name for name, _ in trial.broken()} == {"r0", "r1", "r2"}
    assert not trial.suspended()
    assert trial.ended["only", Reason.NO_CAPACITY] > trial.ended["only", Reason.UPSTREAM_ERROR]
    mended = {notice.name for _, notice in trial.notices if notice.kind is Kind.MENDED}
    assert mended == {"r0", "r1", "r2"}
    assert all(refusal.retry_after <= 30 * SECOND for refusal in scene.refused.values())
