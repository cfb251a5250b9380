"""Random scenarios: the core's promises at every step, and whether a plain scheduler dominates."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.core.decisions import Decision, Dispatch, Preempt, Reason, Reject
from scheduler.core.events import Event, Finished, PolicyChanged
from scheduler.core.invariants import BrokenInvariantError
from scheduler.simulation import fuzz
from scheduler.simulation.checked import Checked
from scheduler.simulation.fuzz import main, run, summary
from scheduler.simulation.random_scenarios import random_scenario
from scheduler.simulation.scenario_file import parse
from scheduler.simulation.scheduling import Cluster
from scheduler.simulation.trial import Trial, try_seed, try_text
from scheduler.simulation.workload import Workload
from scheduler.simulation.world import World

from .small import GENERATIVE, TALK, Document, changed

# Ten runs of seven schedulers take their time on a busy machine.
pytestmark = pytest.mark.timeout(600)

# Small ones of every kind: one has no requests at all, half of them lose a card.
SEEDS = (103, 116, 145, 155, 180, 182, 200, 212, 213, 325)


@pytest.fixture(scope="module")
def trials() -> dict[int, Trial]:
    return dict(zip(SEEDS, run(SEEDS), strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_invariants_hold_at_every_step(trials: dict[int, Trial], seed: int) -> None:
    assert not trials[seed].broken
    assert trials[seed].steps > trials[seed].requests


@pytest.mark.parametrize("seed", SEEDS)
def test_no_plain_scheduler_dominates(trials: dict[int, Trial], seed: int) -> None:
    assert trials[seed].dominated is None


def test_seeds_are_the_scenarios_that_they_were() -> None:
    """Or else a seed that somebody has named would be another scenario."""
    text = json.dumps([random_scenario(seed) for seed in range(1, 101)], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert digest == "d9a82c5fa1dfc8ff0e92a8babef45b41a880200e6d26952f0cb6f8b45f281ee2"


class Lying(Checked):
    """Tells the books something else than what the scheduler has decided."""

    change: Callable[[list[Decision]], list[Decision]]

    def stepped(self, event: Event, decisions: object) -> None:
        """See Fairlane."""
        assert isinstance(decisions, list)
        super().stepped(event, self.change(decisions))


def lies(change: Callable[[list[Decision]], list[Decision]]) -> str:
    """What is said of a run in which the decisions were changed so."""

    def make(cluster: Cluster) -> Checked:
        found = type("Told", (Lying,), {"change": staticmethod(change)})(cluster)
        assert isinstance(found, Checked)
        return found

    text = json.dumps(
        changed(GENERATIVE, {"arrivals.0.burst": [{"at_s": 1, "count": 30}], "duration_s": 10})
    )
    with pytest.raises(BrokenInvariantError) as caught:
        World(Workload(parse(text)), make).run()
    return str(caught.value)


def test_a_broken_promise_is_told_with_its_step() -> None:
    dropped = lies(lambda found: [one for one in found if not isinstance(one, Dispatch)])
    assert "step " in dropped
    assert "queued" in dropped or "running" in dropped
    twice = lies(lambda found: found + [one for one in found if isinstance(one, Dispatch)])
    assert "does not wait" in twice
    refused = lies(
        lambda found: [
            Reject(one.request, Reason.NO_CAPACITY, 0) if isinstance(one, Dispatch) else one
            for one in found
        ]
    )
    assert "is refused and kept" in refused
    stopped = lies(lambda found: [*found, Preempt("none", 1, "card-1", 1, "other", 0, 0, 0)])
    assert "is stopped and does not run" in stopped


class Meddling(Checked):
    """Changes the state behind the scheduler's back at its first end."""

    meddle: Callable[["Meddling"], None]

    def stepped(self, event: Event, decisions: object) -> None:
        """See Fairlane."""
        assert isinstance(decisions, list)
        if isinstance(event, Finished):
            self.meddle(self)
        super().stepped(event, decisions)


def more_kv(told: Meddling) -> None:
    next(iter(told.state.replicas.values())).kv_used += 1


def too_many_slots(told: Meddling) -> None:
    replica = next(iter(told.state.replicas.values()))
    replica.facts = replace(replica.facts, slots=1)


def fewer_queued(told: Meddling) -> None:
    told.state.lane_queued[0] -= 1


def more_running(told: Meddling) -> None:
    told.state.tenants["shop"].running += 1


def a_free_slot(told: Meddling) -> None:
    replica = next(iter(told.state.replicas.values()))
    replica.facts = replace(replica.facts, slots=9)


@pytest.mark.parametrize(
    ("meddle", "said"),
    [
        (more_kv, "counts"),
        (too_many_slots, "in its slots"),
        (fewer_queued, "queued"),
        (more_running, "running of"),
        (a_free_slot, "waits for card-1"),
    ],
)
def test_a_state_that_is_wrong_is_found(meddle: Callable[[Meddling], None], said: str) -> None:
    def make(cluster: Cluster) -> Checked:
        found = type("Told", (Meddling,), {"meddle": staticmethod(meddle)})(cluster)
        assert isinstance(found, Checked)
        return found

    burst = {"arrivals.0.burst": [{"at_s": 1, "count": 30}], "arrivals.0.level": "uniform 0-0"}
    text = json.dumps(changed(GENERATIVE, {**burst, "duration_s": 10}))
    match = rf"step \d+ at 1\.\d+ s, Finished: .*{said}"
    with pytest.raises(BrokenInvariantError, match=match):
        World(Workload(parse(text)), make).run()


@pytest.mark.parametrize("base", [GENERATIVE, TALK])
def test_any_scenario_can_be_tried(base: Document) -> None:
    burst: Document = {"arrivals.0.burst": [{"at_s": 0, "count": 5}]} if base is GENERATIVE else {}
    trial = try_text(json.dumps(changed(base, burst)))
    assert not trial.broken
    assert trial.requests > 0
    assert trial.ahead is None


def test_the_command_keeps_what_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--out", str(tmp_path), "--processes", "1"]
    with monkeypatch.context() as patched:
        begin = Checked.__init__

        def first_come(self: Checked, cluster: Cluster) -> None:
            begin(self, cluster)
            self._step(PolicyChanged(replace(self.state.policy, mode="fifo")))

        # One that serves whoever came first is beaten.
        patched.setattr(Checked, "__init__", first_come)
        assert main(["--seed", "116", "--count", "1", *arguments]) == 1
        told = capsys.readouterr().out.splitlines()
        assert told[0].startswith("random-116: long, 1.2 of what is possible, 2 businesses; 1,219 ")
        kept = tmp_path / "random-116.json"
        assert f"  make fuzz SCENARIO={kept}" in told
        assert main(["--scenario", str(kept)]) == 1
        assert capsys.readouterr().out.splitlines() == told[:2]
    assert main(["--seed", "155", "--count", "1", *arguments]) == 0
    assert "0 with a broken invariant, 0 dominated" in capsys.readouterr().out


def test_a_crash_is_a_counterexample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(seed: int) -> Trial:
        return replace(try_seed(155), broken=f"KeyError: {seed}")

    monkeypatch.setattr(fuzz, "try_seed", broken)
    arguments = ["--seed", "7", "--count", "2", "--out", str(tmp_path), "--processes", "1"]
    assert main(arguments) == 1
    told = capsys.readouterr().out
    assert "BROKEN: KeyError: 7" in told
    assert "2 scenarios: 2 with a broken invariant, 0 dominated" in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["random-7.json", "random-8.json"]


def test_what_is_no_scenario_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.json"
    path.write_text("{}", encoding="utf-8")
    assert main(["--scenario", str(path)]) == 2
    assert "is missing" in capsys.readouterr().err


def test_the_summary_is_of_those_that_have_p0() -> None:
    blank = Trial("a", "b", 1, 1)
    told = summary([replace(blank, ahead=0.02), replace(blank, ahead=-0.01), blank])
    assert "3 scenarios: 0 with a broken invariant, 0 dominated" in told
    assert any("+0.50 points" in line for line in told)
    assert not any("P0 in budget" in line for line in summary([blank]))
