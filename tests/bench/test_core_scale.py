"""The situations that the core is timed in are those that are named; no time is tested."""

import pytest

from bench.core_scale import Sizes, measure_scale, situations
from bench.core_stage import SECOND, Stage
from bench.machine import BenchError
from bench.speed import machine_speed
from scheduler.core.ticket import Resume

SMALL = Sizes(
    preempting_cards=3,
    one_model_cards=6,
    many_cards=6,
    many_models=3,
    waiting_businesses=9,
    waiting_cards=10,
    layout_cards=6,
    layout_models=2,
    reviewed_businesses=5,
    times=3,
)


def test_every_situation_comes_about_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    figures = measure_scale(2, 0.5, SMALL)
    shown = capsys.readouterr().out
    for situation in situations(SMALL):
        assert f"{situation.name}: " in shown
    for found in figures.values():
        assert isinstance(found, dict)
        assert found["ms"] == 2 * found["ms_at_reference"] > 0


def test_a_request_that_is_refused_ends_the_measurement() -> None:
    stage = Stage(room=1)
    stage.fleet(1, 1)
    stage.businesses(1)
    stage.arrive(stage.ticket(1))
    stage.arrive(stage.ticket(1))
    with pytest.raises(BenchError, match="queue_full"):
        stage.arrive(stage.ticket(1))


def test_a_stage_tells_who_was_stopped() -> None:
    stage = Stage()
    stage.fleet(1, 1)
    stage.businesses(1)
    low = stage.ticket(2, prompt=200, output=4_000, resume=Resume.CONTINUE)
    stage.arrive(low)
    stage.wait(SECOND)
    stopped = stage.arrive(stage.ticket(0, prompt=50, output=50)).stopped()
    assert stopped is not None
    assert stopped.request == low.id


def test_a_machine_has_a_speed() -> None:
    assert machine_speed() > 0
