"""Requests go where the beginning of their prompt was computed before, as far as it pays."""

from collections import Counter
from dataclasses import replace

from scheduler.core import events
from scheduler.core.decisions import Dispatch
from scheduler.core.invariants import check_counts, check_prefixes, check_rest
from scheduler.core.policy import Policy
from scheduler.core.prefixes import MOST_BLOCKS, MOST_SESSIONS, Prefixes
from scheduler.core.ticket import PREFIX_BLOCK, Resume, Ticket

from .scene import MS, SECOND, Scene, card
from .test_placement import PREFILL, measured

NAMES = "abcd"


def blocks(talk: int, tokens: int) -> tuple[int, ...]:
    """Of a conversation's prompt of so many tokens."""
    return tuple(1_000_000 * talk + number for number in range(tokens // PREFIX_BLOCK))


def fleet(kv: int = 400_000) -> Scene:
    return measured(Scene(*(card(name, 16, kv=kv) for name in NAMES)))


def turn(scene: Scene, name: str, talk: int, tokens: int, **more: object) -> str:
    """One turn of a conversation from its arrival to its end; where it ran."""
    scene.arrive(name, 1, prompt=tokens, output=50, blocks=blocks(talk, tokens), **more)  # type: ignore[arg-type]
    where = scene.where(name)
    scene.wait(PREFILL * (tokens - scene.state.requests[name].held))
    scene.see(name)
    scene.wait(500 * MS)
    scene.finish(name, output=50)
    return where


def test_a_conversation_stays_where_its_prompt_is() -> None:
    scene = fleet()
    homes: dict[int, set[str]] = {talk: set() for talk in range(8)}
    for number in range(6):
        for talk, found in homes.items():
            found.add(turn(scene, f"t{talk}-{number}", talk, 1000 + 400 * number))
    assert all(len(found) == 1 for found in homes.values())


def test_conversations_are_spread_all_the_same() -> None:
    scene = fleet()
    for talk in range(16):
        scene.arrive(f"t{talk}", 1, prompt=600, output=50, blocks=blocks(talk, 600))
        scene.wait(120 * MS)
        scene.see(f"t{talk}")
    found = Counter(d.replica for d in scene.log if isinstance(d, Dispatch))
    assert set(found.values()) == {4}


def test_but_not_where_it_would_wait_longer_than_that_is_worth() -> None:
    scene = fleet()
    home = turn(scene, "first", 1, 1000)
    # A prompt of half a minute is computed there.
    for number in range(4):
        scene.arrive(f"long{number}", 1, prompt=200_000, output=10)
    assert "long" in "".join(scene.on(home))
    scene.wait(MS)
    scene.cancel(next(name for name in scene.running if scene.where(name) != home))
    scene.arrive("again", 1, prompt=1200, output=50, blocks=blocks(1, 1200))
    assert scene.where("again") != home


def test_a_small_rest_passes_a_card_with_enough_to_prefill() -> None:
    """The card where all but a few tokens of the prompt are has 300 ms to compute."""
    scene = fleet()
    home = turn(scene, "first", 1, 20_000)
    for name in NAMES:
        scene.arrive(f"busy-{name}", 1, prompt=1900, output=10)
    scene.arrive("again", 1, prompt=20_100, output=50, blocks=blocks(1, 20_100))
    assert scene.where("again") == home


def test_what_the_engine_evicts_is_forgotten() -> None:
    scene = fleet()
    home = turn(scene, "first", 1, 2000)
    held = scene.state.prefixes
    assert held.tokens(home, blocks(1, 2000)) > 1900
    scene.step(events.CacheChanged(home, 1000))
    assert 900 <= held.tokens(home, blocks(1, 2000)) <= 1100
    scene.step(events.CacheChanged(home, None))
    assert held.tokens(home, blocks(1, 2000)) == 0


def test_a_process_that_begins_anew_holds_nothing() -> None:
    scene = fleet()
    home = turn(scene, "first", 1, 2000)
    scene.restart(home)
    assert scene.state.prefixes.tokens(home, blocks(1, 2000)) == 0
    scene.remove(home)
    assert not scene.state.prefixes.latest


def test_an_engine_that_finds_less_has_less_room_than_was_thought() -> None:
    scene = fleet()
    for number in range(30):
        turn(scene, f"fill{number}", 100 + number, 2000)
    home = turn(scene, "first", 1, 2000)
    before = scene.state.prefixes.caches[home].tokens
    for number in range(20):
        name = f"again{number}"
        scene.arrive(name, 1, prompt=2000, output=50, blocks=blocks(1, 2000))
        assert scene.where(name) == home
        scene.wait(SECOND)
        scene.see(name)
        attempt = scene.running.pop(name).attempt
        scene.step(events.Finished(name, attempt, 2000, 50, first=scene.now, cached=0))
    turn(scene, "other", 2, 2000)
    scene.step(events.Measured(home, None, None, None, 8_000))
    turn(scene, "last", 1, 2000)
    assert scene.state.prefixes.caches[home].tokens < before


def test_nothing_is_remembered_without_bound() -> None:
    """A million blocks that nobody has seen before, on replicas that come one after the other."""
    prefixes = Prefixes()
    for number in range(1_050):
        name = f"r{number // 150}"
        prefixes.note(name, blocks(number, 64_000), 100_000_000)
    for number in range(2 * MOST_SESSIONS):
        prefixes.ran(f"t{number}", "r0")
    check_prefixes(prefixes)
    assert MOST_BLOCKS // 2 < prefixes.count <= MOST_BLOCKS
    assert len(prefixes.latest) <= prefixes.count
    assert len(prefixes.sessions) == MOST_SESSIONS
    for number in range(7):
        prefixes.forget(f"r{number}")
    check_prefixes(prefixes)
    assert not prefixes.caches
    assert not prefixes.latest


def test_of_a_prompt_its_end_goes_first() -> None:
    prefixes = Prefixes()
    prefixes.note("r", blocks(1, 6_400), 0)
    prefixes.evict("r", 3_200)
    assert prefixes.tokens("r", blocks(1, 6_400)) == 3_200


def test_a_conversation_without_known_blocks_goes_where_it_was_among_equals() -> None:
    scene = Scene(*(card(name, 4) for name in NAMES))
    scene.arrive("first", session="s")
    home = scene.where("first")
    scene.finish("first")
    for number in range(10):
        scene.arrive(f"again{number}", session="s")
        assert scene.where(f"again{number}") == home
        scene.finish(f"again{number}")


def test_what_is_held_is_not_computed_again() -> None:
    scene = fleet()
    home = turn(scene, "first", 1, 6_000)
    scene.arrive("again", 1, prompt=6_400, output=50, blocks=blocks(1, 6_400))
    request = scene.state.requests["again"]
    assert scene.where("again") == home
    assert request.held >= 5_900
    assert request.prefill < 0.2 * scene.state.estimates.prefill("m", home, 6_400)


def test_a_lighter_model_has_no_part_of_it() -> None:
    """Blocks are of one model's prompts."""
    policy = replace(Policy(), admission=replace(Policy().admission, degrade=True))
    scene = Scene(card("a", 1, "m"), card("b", 4, "light"), policy=policy)
    scene.probe("a", ready=False)
    told = Ticket("q", "shop", "m", 1, 4, scene.now, 1000, 50, lighter=("light",))
    scene.step(events.Arrived(replace(told, blocks=blocks(1, 1000))))
    assert scene.where("q") == "b"
    assert not scene.state.prefixes.caches


def filled(slots: int = 2, kv: int = 400_000, output: int = 10) -> tuple[Scene, str, str]:
    """Two cards; the holder of a conversation of 20,000 tokens is full of work of so many tokens
    each, the other one is free. Both their names."""
    scene = measured(Scene(card("a", slots, kv=kv), card("b", slots, kv=kv)))
    home = turn(scene, "first", 1, 20_000)
    other = "b" if home == "a" else "a"
    for number in range(2 * slots):
        scene.arrive(f"fill{number}", 1, prompt=64, output=output)
        scene.see(f"fill{number}")
    for name in scene.on(other):
        scene.finish(name, output=10)
    assert len(scene.on(home)) == slots
    return scene, home, other


def test_a_request_waits_for_a_slot_where_its_prompt_is() -> None:
    scene, home, _ = filled()
    scene.arrive("again", 1, prompt=20_100, output=50, blocks=blocks(1, 20_100))
    assert "again" not in scene.running
    check_counts(scene.state)
    # Nobody waits behind it.
    scene.arrive("next", 1, prompt=64, output=10)
    assert scene.where("next") != home
    scene.finish(scene.on(home)[0], output=10)
    assert scene.where("again") == home
    check_counts(scene.state)


def test_but_no_longer_than_that_is_worth() -> None:
    scene, home, other = filled()
    scene.arrive("again", 1, prompt=20_100, output=50, blocks=blocks(1, 20_100))
    end = scene.state.requests["again"].delayed
    saved = scene.state.estimates.prefill("m", home, 20_000)
    assert scene.now < end <= scene.now + 8 * saved
    assert scene.state.wake <= end
    scene.wait(end - scene.now)
    scene.tick()
    assert scene.where("again") == other
    check_counts(scene.state)


def test_nobody_waits_who_would_miss_its_budget_by_it() -> None:
    scene, _, other = filled()
    told = {"prompt": 20_100, "output": 50, "blocks": blocks(1, 20_100)}
    scene.arrive("again", 1, budget=3 * SECOND, **told)  # type: ignore[arg-type]
    assert scene.where("again") == other


def test_a_little_is_not_waited_for() -> None:
    scene, _, other = filled(output=2_000)
    scene.arrive("again", 1, prompt=20_000, output=50, blocks=blocks(1, 64) + blocks(2, 19_936))
    assert scene.where("again") == other


def test_whose_holder_is_gone_waits_no_more() -> None:
    for what in ("restart", "remove", "drop"):
        scene, home, other = filled()
        scene.arrive("again", 1, prompt=20_100, output=50, blocks=blocks(1, 20_100))
        assert "again" not in scene.running
        if what == "restart":
            scene.restart(home)
        elif what == "remove":
            scene.remove(home)
        else:
            scene.probe(home, ready=False)
        assert scene.where("again") in {other, home}
        check_counts(scene.state)


def test_who_leaves_or_ends_while_it_waits_leaves_nothing() -> None:
    scene, home, other = filled()
    scene.arrive("again", 1, prompt=20_100, output=50, blocks=blocks(1, 20_100))
    scene.cancel("again")
    for name in (*scene.on(home), *scene.on(other)):
        scene.finish(name, output=10)
    check_counts(scene.state)
    check_rest(scene.state)


def test_a_more_urgent_one_takes_the_slot_that_was_waited_for() -> None:
    scene, home, other = filled()
    scene.arrive("again", 1, prompt=20_100, output=50, blocks=blocks(1, 20_100))
    for number in range(2):
        scene.arrive(f"more{number}", 1, prompt=64, output=10)
        scene.see(f"more{number}")
    assert len(scene.on(other)) == 2
    scene.arrive("urgent", 0, prompt=64, output=10)
    assert "urgent" not in scene.running
    scene.finish(scene.on(home)[0], output=10)
    assert scene.where("urgent") == home
    assert "again" not in scene.running


def test_what_runs_is_counted_once() -> None:
    """Ten requests with one prompt of 20,000 tokens in common fill a cache of 60,000 no more than
    one does, so what was there before stays."""
    scene = measured(Scene(card("a", 16, kv=60_000)))
    turn(scene, "first", 1, 20_000)
    turn(scene, "shared", 2, 20_000)
    for number in range(2):
        scene.arrive(f"s{number}", 1, prompt=20_000, output=50, blocks=blocks(2, 20_000))
        scene.wait(SECOND)
        scene.see(f"s{number}")
    assert len(scene.on("a")) == 2
    assert scene.state.prefixes.tokens("a", blocks(1, 20_000)) > 19_000
    check_counts(scene.state)


def test_answers_take_room_in_the_cache_too() -> None:
    scene = measured(Scene(card("a", 16, kv=30_000)))
    turn(scene, "first", 1, 10_000)
    scene.arrive("novel", 1, prompt=64, output=24_000)
    scene.wait(SECOND)
    scene.see("novel", tokens=24_000)
    scene.finish("novel", output=24_000)
    assert scene.state.prefixes.tokens("a", blocks(1, 10_000)) < 6_500
    check_counts(scene.state)


def test_what_was_being_computed_when_it_began_was_not_missing_for_want_of_room() -> None:
    """A burst with one prompt in common: nobody finds what the first of them is computing."""
    scene = measured(Scene(card("a", 16, kv=400_000)))
    for number in range(8):
        scene.arrive(f"s{number}", 0, prompt=640, output=50, blocks=blocks(1, 640))
    scene.wait(SECOND)
    assert len(scene.running) > 1
    for name in list(scene.running):
        scene.see(name)
        attempt = scene.running.pop(name).attempt
        scene.step(events.Finished(name, attempt, 640, 50, first=scene.now, cached=0))
    assert scene.state.prefixes.parts.get("a", 1.0) == 1.0


def test_what_goes_on_after_a_pause_finds_its_own_where_it_was() -> None:
    scene = fleet()
    paused = {"prompt": 20_000, "output": 400, "blocks": blocks(1, 20_000)}
    scene.arrive("paused", 2, resume=Resume.CONTINUE, **paused)  # type: ignore[arg-type]
    home = scene.where("paused")
    scene.wait(4 * SECOND)
    scene.see("paused", tokens=300)
    scene.stop("paused", produced=300)
    assert scene.where("paused") == home
    request, estimates = scene.state.requests["paused"], scene.state.estimates
    assert request.prefill < 0.1 * estimates.prefill("m", home, 20_000)


def test_the_next_in_line_may_pass_a_gate_that_the_one_before_it_could_not() -> None:
    """The head of the line, of another prompt, waits for both cards to have less to compute."""
    scene = measured(Scene(card("a", 2, kv=400_000), card("b", 2, kv=400_000)))
    home = turn(scene, "first", 1, 20_000)
    for number in range(2):
        scene.arrive(f"quick{number}", 1, prompt=64, output=10)
        scene.see(f"quick{number}")
    for number in range(2):
        scene.arrive(f"busy{number}", 1, prompt=1_900, output=10)
    scene.arrive("head", 1, prompt=2_000, output=50)
    scene.arrive("next", 1, prompt=20_100, output=50, blocks=blocks(1, 20_100))
    scene.finish(next(name for name in scene.on(home) if name.startswith("quick")), output=10)
    assert not {"head", "next"} & scene.running.keys()
    scene.cancel("head")
    assert scene.where("next") == home


def test_no_more_than_a_few_wait_for_one_replica() -> None:
    scene, _, other = filled(slots=4)
    for number in range(40):
        told = {"prompt": 20_100, "output": 50, "blocks": (*blocks(1, 20_000), number)}
        scene.arrive(f"again{number}", 1, **told)  # type: ignore[arg-type]
    waiting = sum(len(each) for each in scene.state.queues.delayed.values())
    assert waiting == 16
    assert any(name.startswith("again") for name in scene.on(other))
    check_counts(scene.state)
