"""Which replica a request goes to: where it is expected to be done soonest."""

from collections import Counter
from dataclasses import replace

import pytest

from scheduler.core import events
from scheduler.core.decisions import Dispatch
from scheduler.core.estimates import Estimates
from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, Scene, card
from .teaching import known_cluster

# What these cards take, in ns: a token of a prompt, a step alone, and more for each other.
PREFILL, STEP, SLOPE = 160_000, 10 * MS, MS


def measured(scene: Scene, model: str = "m", *, slower: dict[str, float] | None = None) -> Scene:
    """A scene that knows how fast its cards are; ``slower``: so many times, by name."""
    estimates: Estimates = scene.state.estimates
    for name in scene.state.replicas:
        times = (slower or {}).get(name, 1.0)
        for number in range(1, 65):
            tokens, running = 100.0 * number, 1.0 + number % 16
            estimates.prefilled(model, name, tokens, times * PREFILL * tokens, scene.now)
            step = times * (STEP + SLOPE * running)
            estimates.decoded(model, name, 16, running, step, scene.now)
    for _ in range(32):
        estimates.answered("shop", model, 100)
    scene.step(events.Tick())
    return scene


def five(slots: int = 32) -> Scene:
    return measured(Scene(*(card(name, slots, kv=400_000) for name in "abcde")))


# Where it is done soonest.


def test_requests_of_one_kind_are_spread_evenly_over_equal_cards() -> None:
    scene = five()
    for number in range(50):
        scene.arrive(f"r{number}", 1, prompt=200, output=100)
        scene.wait(100 * MS)
        scene.see(f"r{number}")
    found = Counter(d.replica for d in scene.log if isinstance(d, Dispatch))
    assert set(found.values()) == {10}


def test_a_long_prompt_goes_where_least_is_to_be_computed_not_where_fewest_run() -> None:
    """Four cards have one request each, with a prompt that takes long; the fifth has three that
    write already."""
    scene = five()
    for number in range(3):
        scene.arrive(f"writes-{number}", 1, prompt=10, output=100)
    writing = {scene.where(f"writes-{number}") for number in range(3)}
    for name in list(scene.running):
        scene.see(name)
    for number in range(2):
        scene.arrive(f"long-{number}", 1, prompt=6000, output=10)
    reading = {scene.where(f"long-{number}") for number in range(2)}
    assert not reading & writing
    # Every card has one request; those that write will be done with a step or two.
    scene.arrive("urgent", 0, prompt=6000, output=10)
    assert scene.where("urgent") in writing


def test_a_short_answer_shares_a_card_rather_than_wait_for_a_prompt() -> None:
    scene = measured(Scene(card("a", 8), card("b", 8)))
    scene.arrive("long", 1, prompt=30_000, output=10)
    busy = scene.where("long")
    for number in range(4):
        scene.arrive(f"r{number}", 1, prompt=10, output=10)
        assert scene.where(f"r{number}") != busy


def test_prefill_and_steps_are_learned_apart() -> None:
    """Long prompts with answers of a word, and long answers to a word, at no constant ratio."""
    scene = Scene(card("a", 4))
    for number in range(40):
        prompt, output = (4000, 2) if number % 2 else (10, 200)
        name = f"r{number}"
        scene.arrive(name, 1, prompt=prompt, output=output)
        scene.wait(prompt * MS // 4)
        scene.see(name)
        scene.wait((output - 1) * 8 * MS)
        scene.step(events.Finished(name, 1, prompt, output, first=scene.now))
        del scene.running[name]
    estimates = scene.state.estimates
    assert estimates.prefill("m", "a", 4000) == pytest.approx(SECOND, rel=0.05)
    assert estimates.prefill("m", "a", 1000) == pytest.approx(SECOND / 4, rel=0.1)
    speed = estimates.speed("m", "a")
    assert speed is not None
    assert speed.step.at(1.0) == pytest.approx(8 * MS, rel=0.05)


def test_a_card_that_has_shown_to_be_slower_than_its_kind_has_less_to_do() -> None:
    names = "abcd"
    scene = measured(Scene(*(card(name, 32) for name in names)), slower={"d": 3.0})
    for number in range(40):
        scene.arrive(f"r{number}", 1, prompt=100, output=100)
        scene.see(f"r{number}")
    assert len(scene.on("d")) <= 8
    assert min(len(scene.on(name)) for name in "abc") >= 10


def test_luck_in_measuring_makes_no_card_better_than_its_equals() -> None:
    scene = measured(Scene(*(card(name, 32) for name in "ab")), slower={"b": 1.1})
    for number in range(20):
        scene.arrive(f"r{number}", 1, prompt=100, output=100)
        scene.see(f"r{number}")
    assert [len(scene.on(name)) for name in "ab"] == [10, 10]


def test_chance_decides_among_equals_and_nobody_else() -> None:
    def first(seed: int) -> str:
        scene = measured(Scene(*(card(name, 8) for name in "abcde"), seed=seed))
        scene.arrive("r", 1, prompt=100, output=100)
        return scene.where("r")

    assert len({first(seed) for seed in range(30)}) == 5
    assert len({first(3) for _ in range(5)}) == 1


# The gate.


def test_a_card_with_enough_to_prefill_takes_no_more_and_who_is_urgent_comes_first() -> None:
    scene = measured(Scene(card("a", 16)))
    scene.arrive("first", 1, prompt=5000, output=10)
    scene.arrive("second", 1, prompt=5000, output=10)
    assert scene.waiting() == ["second"]
    scene.arrive("urgent", 0, prompt=5000, output=10)
    # What is being computed for lower lanes keeps nobody urgent out.
    assert "urgent" in scene.running
    scene.arrive("next", 0, prompt=5000, output=10)
    assert scene.waiting() == ["second", "next"]
    scene.wait(800 * MS)
    scene.see("first")
    scene.see("urgent")
    assert "next" in scene.running
    assert scene.waiting() == ["second"]


def test_a_short_prompt_of_p1_slips_in_beside_a_long_one_of_p0() -> None:
    """It has the card to half for a moment, in place of waiting for all of the other's."""
    scene = measured(Scene(card("a", 16)))
    scene.arrive("urgent", 0, prompt=5000, output=10)
    # By the lanes' weights, 8 to 3, it may take three elevenths of what is to be computed for P0.
    scene.arrive("longer", 1, prompt=1500, output=10)
    assert scene.waiting() == ["longer"]
    scene.arrive("short", 1, prompt=1200, output=10, business="bank")
    assert "short" in scene.running
    # What is computed for P1 already nobody of P1 slips past.
    scene.arrive("shorter", 1, prompt=100, output=10, business="club")
    assert scene.waiting() == ["longer", "shorter"]
    scene.see("short")
    assert "shorter" in scene.running


def test_nothing_slips_into_the_last_slots_that_p0_waits_for() -> None:
    """It would keep them for as long as its answer takes, when the card could take P0 again."""
    scene = measured(Scene(card("a", 3)))
    scene.arrive("urgent", 0, prompt=5000, output=10)
    scene.arrive("next", 0, prompt=5000, output=10)
    scene.arrive("short", 1, prompt=200, output=10)
    assert "short" in scene.running
    scene.see("short")
    scene.arrive("another", 1, prompt=200, output=10)
    assert scene.waiting() == ["next", "another"]
    scene.see("urgent")
    assert "next" in scene.running


def test_the_lanes_weights_say_what_may_slip_in() -> None:
    queues = Policy().queues
    heavy = replace(Policy(), queues=replace(queues, P0=replace(queues.P0, weight=1000.0)))
    scene = measured(Scene(card("a", 16), policy=heavy))
    scene.arrive("urgent", 0, prompt=5000, output=10)
    scene.arrive("short", 1, prompt=100, output=10)
    assert scene.waiting() == ["short"]


def test_nothing_slips_in_where_prompts_wait_for_each_other() -> None:
    """There it would only wait behind the other's."""
    scene = measured(Scene(card("a", 16)))
    scene.state.estimates.waited("a", 1.0)
    scene.arrive("urgent", 0, prompt=5000, output=10)
    scene.arrive("short", 1, prompt=200, output=10)
    scene.arrive("low", 2, prompt=200, output=10)
    assert scene.waiting() == ["short", "low"]


def test_evaluations_slip_in_nowhere() -> None:
    scene = measured(Scene(card("a", 16)))
    scene.arrive("urgent", 0, prompt=5000, output=10)
    scene.arrive("low", 2, prompt=200, output=10)
    assert scene.waiting() == ["low"]


def test_first_tokens_that_nobody_tells_close_no_card_for_good() -> None:
    scene = measured(Scene(card("a", 16)))
    scene.arrive("silent", 1, prompt=5000, output=10)
    scene.arrive("next", 1, prompt=5000, output=10)
    assert scene.waiting() == ["next"]
    scene.wait(5 * SECOND)
    assert not scene.waiting()


def test_what_was_never_measured_closes_nothing() -> None:
    scene = Scene(card("a", 16))
    for number in range(16):
        scene.arrive(f"r{number}", 1, prompt=50_000, output=10)
    assert len(scene.on("a")) == 16


# Large fleets.


def test_of_hundreds_of_equal_cards_none_is_left_out() -> None:
    scene = measured(Scene(*(card(f"c{number:03}", 4) for number in range(200))))
    for number in range(800):
        scene.arrive(f"r{number}", 1, prompt=50, output=100)
        scene.see(f"r{number}")
        scene.wait(MS)
    loads = Counter(d.replica for d in scene.log if isinstance(d, Dispatch))
    assert set(loads.values()) == {4}


def test_one_dispatch_in_a_hundred_tells_its_candidates() -> None:
    scene = measured(Scene(*(card(name, 4) for name in "abc")))
    for _ in range(300):
        scene.arrive("r", 1, prompt=50, output=10)
        scene.wait(200 * MS)
        scene.finish("r", output=10)
    told = [d for d in scene.log if isinstance(d, Dispatch) and d.scores]
    assert len(told) == 3
    for found in told:
        assert {name for name, _ in found.scores} == {"a", "b", "c"}
        assert [took for _, took in found.scores] == sorted(took for _, took in found.scores)


def test_a_paused_request_goes_on_where_it_was_if_that_is_as_good() -> None:
    scene = Scene(*(card(name, 2) for name in "abcde"))
    scene.arrive("r", 2, prompt=100, output=500, resume=Resume.CONTINUE)
    home = scene.where("r")
    scene.stop("r", 50)
    assert scene.where("r") == home


# Filters.


def test_a_request_goes_only_where_it_is_let_in() -> None:
    scene = Scene(
        card("other", 8, "n"),
        card("deep", 8, "m", levels=(7, 9)),
        card("down", 8, "m"),
        card("draining", 8, "m"),
        card("right", 2, "m"),
    )
    scene.probe("down", ready=False)
    scene.add(replace(scene.state.replicas["draining"].facts, draining=True))
    for name in ("a", "b", "c"):
        scene.arrive(name)
    assert scene.on("right") == ["a", "b"]
    assert scene.waiting() == ["c"]
    scene.arrive("low", 2)
    assert scene.where("low") == "deep"


def test_a_replica_that_comes_takes_who_waits() -> None:
    scene = Scene(card("a", 1))
    for name in ("one", "two", "three"):
        scene.arrive(name)
    scene.add(*card("b", 1))
    assert scene.on("b") == ["two"]
    scene.probe("b", ready=False)
    scene.finish("two")
    assert scene.on("b") == []
    scene.probe("b", ready=True)
    assert scene.on("b") == ["three"]


def test_dispatch_follows_the_event_that_made_it_possible() -> None:
    """No tick is needed for any of it, nor one asked for while all run."""
    scene = known_cluster(0.3)
    for number in range(50):
        out = scene.arrive(f"n{number}", number % 3, model="detector")
        assert [d.request for d in out if isinstance(d, Dispatch)] == [f"n{number}"]
    assert scene.state.wake == 0
    scene.wait(10 * SECOND)
    assert scene.state.lane_queued == [0, 0, 0]
    assert scene.now % MS == 0
