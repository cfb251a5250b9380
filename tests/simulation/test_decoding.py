"""Generative work in virtual time, against times worked out by hand."""

from functools import partial

import pytest

from scheduler.simulation.decoding import Decoder
from scheduler.simulation.scenario import SECOND, Scenario
from scheduler.simulation.scheduling import Cluster
from scheduler.simulation.workload import Workload
from scheduler.simulation.world import STOP_NS, World

from .small import GENERATIVE, Scripted, bursts, scenario

# One request alone: 100 prompt tokens at 1000 per s, then 10 steps of 10 + 5·1 ms.
ALONE_S = 0.1 + 10 * 0.015


def told_by(found: Scenario) -> list[tuple[str, int, int]]:
    told: list[tuple[str, int, int]] = []

    def make(cluster: Cluster) -> Scripted:
        scheduler = Scripted(cluster)
        scheduler.told = told
        return scheduler

    World(Workload(found), make).run()
    return told


def ends(told: list[tuple[str, int, int]]) -> list[float]:
    return [at / SECOND for what, _, at in told if what == "finished"]


def test_one_request_alone() -> None:
    told = told_by(scenario(GENERATIVE, {"arrivals.0.burst": bursts(1)}))
    assert ends(told) == pytest.approx([1 + ALONE_S], abs=1e-6)


def test_two_at_once_share_the_prefill_and_lengthen_the_steps() -> None:
    told = told_by(scenario(GENERATIVE, {"arrivals.0.burst": [{"at_s": 1, "count": 2}]}))
    assert ends(told) == pytest.approx([1 + 0.2 + 10 * 0.020] * 2, abs=1e-6)


def test_one_that_comes_during_the_other_s_decoding() -> None:
    told = told_by(scenario(GENERATIVE, {"arrivals.0.burst": bursts(1, 1.145)}))
    # The first has made 3 steps of 15 ms, then needs 7 of 20 ms beside the second, whose
    # prefill it does not slow down. The second, 100 ms later, has 2 steps beside it
    # (until 1.285), then 8 alone.
    assert ends(told) == pytest.approx([1.285, 1.285 + 8 * 0.015], abs=1e-6)


def test_the_cache_bounds_what_runs() -> None:
    changes = {"arrivals.0.burst": bursts(1, 1), "cluster.hardware.card.kv_tokens": 200}
    told = told_by(scenario(GENERATIVE, changes))
    # 110 tokens each do not fit twice: the second waits inside, holding its slot.
    first = 1 + 0.1 + 10 * 0.020
    assert ends(told) == pytest.approx([first, first + ALONE_S], abs=1e-6)


def test_progress_is_told_at_first_and_then_once_a_second() -> None:
    changes = {
        "arrivals.0.burst": bursts(1),
        "arrivals.0.output_tokens.lognormal_mean": 200,
        "arrivals.0.max_tokens": 200,
    }
    told = told_by(scenario(GENERATIVE, changes))
    assert [(what, round(at / SECOND, 3)) for what, _, at in told] == [
        ("progressed 1", 1.1),
        ("progressed 66", 2.1),
        ("progressed 133", 3.1),
        ("finished", 4.1),
    ]


class Pausing(Scripted):
    """Stops its first request when the second comes, and goes on with it 1 s later."""

    def __init__(self, cluster: Cluster, back_on: int) -> None:
        super().__init__(cluster)
        self._back_on = back_on

    def arrived(self, request: int) -> None:
        if request == 0:
            super().arrived(request)
        else:
            self.cluster.stop(0)
            self.cluster.wake_at(self.cluster.now + SECOND)

    def woken(self) -> None:
        self.cluster.start(0, self._back_on)
        self.cluster.start(1, self._back_on)


@pytest.mark.parametrize("back_on", [0, 1])
def test_a_paused_request_goes_on_from_its_tokens(back_on: int) -> None:
    second = {"name": "card-2", "hardware": "card", "pool": "all"}
    first = {"name": "card-1", "hardware": "card", "pool": "all"}
    changes = {
        "arrivals.0.burst": bursts(1, 1.160),
        "arrivals.0.prompt_tokens.lognormal_mean": 1000,
        "cluster.replicas": [first, second],
        "cluster.hardware.card.prefill_tokens_per_s": 10_000,
        "cluster.hardware.card.kv_tokens": 5000,
    }
    schedulers: list[Pausing] = []

    def make(cluster: Cluster) -> Pausing:
        schedulers.append(Pausing(cluster, back_on))
        return schedulers[0]

    world = World(Workload(scenario(GENERATIVE, changes)), make)
    records = world.run()
    # Prefill until 1.1, then 4 steps of 15 ms and a third of one until it has stopped.
    assert schedulers[0].told[1] == ("stopped 4", 0, round(1.160 * SECOND) + STOP_NS)
    assert list(records.preempted) == [round(1.160 * SECOND)]
    # On the card that still holds them, one token is computed again, elsewhere all 1004.
    # The other request's prefill of 1000 tokens shares the card's prefill at first.
    again = 1 if back_on == 0 else 1004
    prefilled = 2.160 + 2 * again / 10_000
    if back_on:
        # The other one is done at 2000 tokens in all, these 4 tokens later alone.
        prefilled = 2.160 + 2000 / 10_000 + 4 / 10_000
    told = {what: at / SECOND for what, request, at in schedulers[0].told if request == 0}
    assert told["finished"] == pytest.approx(prefilled + 6 * 0.020, abs=1e-6)
    wasted = sum(ns for _, ns in records.wasted)
    assert wasted == pytest.approx((prefilled - 2.160) * SECOND, abs=10)


def test_a_lost_card_forgets_what_it_held() -> None:
    decoder = Decoder(scenario(GENERATIVE).replicas[0].hardware)
    start = partial(decoder.start, context=100, computed=0, output=10)
    start(1)
    decoder.advance(SECOND // 20)
    assert decoder.stop(1) == (0, 50)
    decoder.start(1, 100, 50, 10)
    assert decoder.jobs[1].prefill == 50
    decoder.advance(SECOND // 10)
    decoder.stop(1)
    decoder.clear()
    decoder.start(1, 100, 100, 10)
    assert (decoder.jobs[1].prefill, decoder.jobs[1].again) == (100, 100)


def test_the_cache_of_stopped_requests_gives_way() -> None:
    decoder = Decoder(scenario(GENERATIVE).replicas[0].hardware)
    for request in (1, 2):
        decoder.start(request, 900, 0, 10)
    decoder.advance(2 * SECOND)
    decoder.due()
    for request in (1, 2):
        decoder.stop(request)
    # 1800 of 2000 tokens are cached. A request of 1200 evicts both, the older first.
    decoder.start(3, 1150, 0, 50)
    decoder.stop(3)
    decoder.start(1, 900, 900, 10)
    assert decoder.jobs[1].prefill == 900
