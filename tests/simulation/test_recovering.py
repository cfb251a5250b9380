"""A replica that comes back takes its share of the work, and no more than that at once."""

from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from scheduler.core.decisions import Decision, Dispatch
from scheduler.simulation.fairlane import Fairlane
from scheduler.simulation.scenario import SECOND, Fault, Scenario
from scheduler.simulation.scenario_file import load
from scheduler.simulation.scheduling import Cluster
from scheduler.simulation.workload import Workload
from scheduler.simulation.world import World

from .small import FIXED, scenario
from .test_slices import sliced

# A slice of thousands of requests a second takes its time on a busy machine.
pytestmark = pytest.mark.timeout(300)

UP_S = 9
# Shares of fewer starts than this are chance.
ENOUGH = 4.0
# It is the emptier one whenever it is one of the two that are drawn: twice its share, and chance.
MOST = 3.0


class Noting(Fairlane):
    """Counts by second the starts on each replica, and what would have been its share of each:
    that of its slots in the part of the placement set where the request was placed (its tier:
    P0's own cards come before those that it shares)."""

    def __init__(self, cluster: Cluster) -> None:
        self.got: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self.fair: defaultdict[int, defaultdict[str, float]] = defaultdict(
            lambda: defaultdict(float)
        )
        super().__init__(cluster)

    def _do(self, decision: Decision) -> None:
        if isinstance(decision, Dispatch):
            self._note(decision)
        super()._do(decision)

    def _note(self, decision: Dispatch) -> None:
        second, request = self.cluster.now // SECOND, self.state.requests[decision.request]
        self.got[second][decision.replica] += 1
        for tier in self.state.layout.sets.get((request.ticket.model, request.lane), ()):
            names = [replica.facts.name for replica in tier]
            if decision.replica in names:
                slots = sum(replica.facts.slots for replica in tier)
                for replica in tier:
                    part = replica.facts.slots / slots
                    self.fair[second][replica.facts.name] += part


def run(found: Scenario) -> Noting:
    schedulers: list[Noting] = []

    def make(cluster: Cluster) -> Noting:
        schedulers.append(Noting(cluster))
        return schedulers[0]

    World(Workload(found), make).run()
    return schedulers[0]


def check(noted: Noting, name: str, until: int) -> None:
    """In each second from its return it has no more than its due, and has some in the end."""
    for second in range(UP_S, until):
        fair, got = noted.fair[second][name], noted.got[second][name]
        assert got <= MOST * fair or fair < ENOUGH, (name, second, got, fair)
    last = range(until - 5, until)
    assert sum(noted.got[second][name] for second in last) > 0


@pytest.mark.parametrize("lost", ["a100-2", "orin-1"])
def test_no_card_of_the_loss_scenario_has_more_than_its_due(lost: str) -> None:
    found = replace(sliced(load("replica-loss"), 40), duration_s=15, faults=(Fault(lost, 6, UP_S),))
    check(run(found), lost, 15)


@pytest.mark.parametrize(
    ("slots", "service_ms", "load_qps"),
    [(4, 50, 60), (4, 50, 300), (4, 50, 450), (32, 3000, 30), (32, 3000, 45)],
)
def test_nor_has_one_of_six_alike(slots: int, service_ms: int, load_qps: int) -> None:
    hardware = {
        "slots": slots,
        "memory_gb": 80,
        "service_ms": {"detector": service_ms, "speech": service_ms},
    }
    names = [f"big-{number}" for number in range(1, 7)]
    found = scenario(
        FIXED,
        {
            "duration_s": 20,
            "cluster.hardware": {"big": hardware},
            "cluster.models.detector.cv": 0.3,
            "cluster.replicas": [
                {"name": name, "hardware": "big", "pool": "all"} for name in names
            ],
            "arrivals.0.rate_qps": [[0, load_qps], [20, load_qps]],
            "arrivals.0.latency_budget_ms": 30_000,
            "faults": [{"replica": "big-1", "down_at_s": 4, "up_at_s": UP_S}],
        },
    )
    check(run(found), "big-1", 20)
