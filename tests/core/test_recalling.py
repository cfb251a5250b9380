"""Estimates begin with what earlier requests were like, and today's count more."""

from scheduler.core import events
from scheduler.core.events import Recalled, Sample

from .scene import MS, SECOND, Scene, card


def chat(first: int, *, replica: str = "a", output: int = 101, cached: int = 0) -> Sample:
    """A chat of 1,000 tokens that took 10 ms a token after its first."""
    return Sample("shop", "m", replica, 1000, output, cached, first, first + (output - 1) * 10 * MS)


def test_a_first_request_is_foreseen_as_those_of_yesterday_went() -> None:
    scene = Scene(card("a", 4))
    scene.step(Recalled(tuple(chat(200 * MS) for _ in range(50))))
    scene.arrive("one", 0, prompt=1000, output=0)
    running = scene.state.requests["one"]
    assert 600 * MS <= running.estimate <= 1500 * MS


def test_what_waited_in_an_engine_is_no_measure_of_prompts() -> None:
    """Half of yesterday's calls had queued in the engine for seconds."""
    scene = Scene(card("a", 4))
    calls = [chat(200 * MS) if number % 2 else chat(9 * SECOND) for number in range(60)]
    scene.step(Recalled(tuple(calls)))
    assert scene.state.estimates.prefill("m", "a", 1000) < 300 * MS


def test_cached_tokens_took_no_time() -> None:
    scene = Scene(card("a", 4))
    scene.step(Recalled(tuple(chat(50 * MS, cached=750) for _ in range(20))))
    assert scene.state.estimates.prefill("m", "a", 1000) > 150 * MS


def test_cards_that_are_gone_tell_how_long_answers_are_and_nothing_else() -> None:
    scene = Scene(card("a", 4))
    scene.step(Recalled(tuple(chat(SECOND, replica="gone", output=40) for _ in range(20))))
    assert scene.state.estimates.output["shop", "m"].value == 40
    assert not scene.state.estimates.models
    assert not scene.state.estimates.kinds


def test_what_is_known_by_now_is_kept() -> None:
    scene = Scene(card("a", 4))
    for number in range(20):
        scene.arrive(f"r{number}", 1, prompt=100, output=0)
        scene.wait(20 * MS)
        scene.step(events.Progress(f"r{number}", 1, 1))
        scene.wait(100 * MS)
        scene.finish(f"r{number}", output=11)
    before = scene.state.estimates.prefill("m", "a", 1000)
    lengths = scene.state.estimates.output["shop", "m"].value
    scene.step(Recalled(tuple(chat(9 * SECOND) for _ in range(50))))
    assert scene.state.estimates.prefill("m", "a", 1000) == before
    assert scene.state.estimates.output["shop", "m"].value == lengths


def test_a_few_measurements_of_today_outweigh_yesterday() -> None:
    """The card was throttled yesterday, and is three times as fast now."""
    scene = Scene(card("a", 4))
    slow = Sample("shop", "m", "a", 0, 0, 0, 0, 3 * SECOND)
    scene.step(Recalled((slow,) * 200))
    for number in range(12):
        scene.arrive(f"r{number}", 1)
        scene.wait(SECOND)
        scene.finish(f"r{number}")
    scene.arrive("last", 1)
    assert scene.state.requests["last"].estimate < 1600 * MS
