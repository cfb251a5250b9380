"""The virtual clock: fixed service times, faults, quotas, and where a run ends."""

import pytest

from scheduler.simulation.records import Records
from scheduler.simulation.scenario import SECOND
from scheduler.simulation.scheduling import Cluster, Outcome
from scheduler.simulation.workload import Workload
from scheduler.simulation.world import REFUSED_NS, STOP_NS, World

from .small import FIXED, Scripted, bursts, scenario

NONE: dict[str, object] = {"arrivals.0.rate_qps": []}


def run(changes: dict[str, object], *replicas: int) -> tuple[Scripted, Records]:
    schedulers: list[Scripted] = []

    def make(cluster: Cluster) -> Scripted:
        schedulers.append(Scripted(cluster, replicas or (0,)))
        return schedulers[0]

    records = World(Workload(scenario(FIXED, {**NONE, **changes})), make).run()
    return schedulers[0], records


def test_fixed_work_takes_its_time_at_any_load() -> None:
    scheduler, records = run({"arrivals.0.burst": bursts(1, 1.01, 1.02)}, 0, 0, 1)
    assert scheduler.told == [
        ("finished", 0, round(1.1 * SECOND)),
        ("finished", 1, round(1.11 * SECOND)),
        ("finished", 2, round(1.22 * SECOND)),
    ]
    assert list(records.outcome) == [Outcome.DONE] * 3
    # 100 + 100 + 200 ms of slots, all in the second second.
    assert records.busy[:3] == [0, 0, round(0.4 * SECOND)]
    assert records.ready[:3] == [0, 3 * SECOND, 6 * SECOND]


def test_a_fault_loses_what_runs_and_refuses_what_comes() -> None:
    fault = {"replica": "big-1", "down_at_s": 2, "up_at_s": 5}
    scheduler, records = run({"arrivals.0.burst": bursts(1.95, 3.5, 5), "faults": [fault]})
    assert scheduler.told == [
        ("lost", 0, 2 * SECOND),
        ("down", 0, 3 * SECOND),
        ("lost", 1, round(3.5 * SECOND) + REFUSED_NS),
        ("finished", 2, round(5.1 * SECOND)),
        ("up", 0, 6 * SECOND),
    ]
    assert list(records.outcome) == [Outcome.FAILED, Outcome.FAILED, Outcome.DONE]
    assert records.wasted == [(2 * SECOND, round(0.05 * SECOND))]
    # Two of three slots are away for three seconds.
    assert [records.ready[second] // SECOND for second in (2, 3, 5, 6)] == [6, 7, 9, 12]


def test_quotas_are_exact() -> None:
    changes: dict[str, object] = {
        "businesses.0.quota": {"requests_per_s": 2, "burst": 3},
        "arrivals.0.burst": [{"at_s": 1, "count": 5}, *bursts(1.499999, 1.5, 1.5, 2.0)],
        "cluster.hardware.big.slots": 9,
    }
    _, records = run(changes)
    quota, done = Outcome.QUOTA, Outcome.DONE
    expected = [done, done, done, quota, quota, quota, done, quota, done]
    assert list(records.outcome) == expected


def test_a_stopped_request_of_a_fixed_model_has_run_for_nothing() -> None:
    class Stopping(Scripted):
        """Stops the first request 20 ms after its start and starts it again at once."""

        def arrived(self, request: int) -> None:
            super().arrived(request)
            if request == 1:
                self.cluster.stop(0)

        def stopped(self, request: int, replica: int, produced: int) -> None:
            super().stopped(request, replica, produced)
            self.cluster.start(request, replica)

    found = scenario(FIXED, {**NONE, "arrivals.0.burst": bursts(1, 1.02)})
    schedulers: list[Stopping] = []

    def make(cluster: Cluster) -> Stopping:
        schedulers.append(Stopping(cluster))
        return schedulers[0]

    records = World(Workload(found), make).run()
    stopped = round(1.02 * SECOND) + STOP_NS
    assert schedulers[0].told == [
        ("stopped 0", 0, stopped),
        ("finished", 1, round(1.12 * SECOND)),
        ("finished", 0, stopped + round(0.1 * SECOND)),
    ]
    assert records.wasted == [(stopped, stopped - SECOND)]


class Idle(Scripted):
    """Starts nothing."""

    def arrived(self, request: int) -> None:
        """See Scheduler."""


def test_a_run_ends_ten_minutes_after_its_last_arrival() -> None:
    workload = Workload(scenario(FIXED, {**NONE, "arrivals.0.burst": bursts(1)}))
    world = World(workload, Idle)
    records = world.run()
    assert world.now == 610 * SECOND
    assert list(records.outcome) == [Outcome.UNFINISHED]


def test_a_run_lasts_its_time_with_or_without_requests() -> None:
    world = World(Workload(scenario(FIXED, NONE)), Idle)
    assert not world.run().outcome
    assert world.now == 10 * SECOND


def test_a_refusal_gives_the_quota_back() -> None:
    class Refusing(Scripted):
        def arrived(self, request: int) -> None:
            self.cluster.refuse(request, Outcome.REFUSED)

    changes = {
        **NONE,
        "businesses.0.quota": {"requests_per_s": 1, "burst": 1},
        "arrivals.0.burst": [{"at_s": 1, "count": 5}],
    }
    records = World(Workload(scenario(FIXED, changes)), Refusing).run()
    assert list(records.outcome) == [Outcome.REFUSED] * 5


@pytest.mark.parametrize("seed", [1, 2])
def test_a_run_repeats_exactly(seed: int) -> None:
    def once() -> Records:
        return World(Workload(scenario(FIXED), seed), Scripted).run()

    first, again = once(), once()
    assert first.ended == again.ended
    assert first.busy == again.busy
