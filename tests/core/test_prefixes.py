"""Requests go where the beginning of their prompt was computed before, as far as it pays."""

from collections import Counter
from dataclasses import replace

from scheduler.core import events
from scheduler.core.decisions import Dispatch
from scheduler.core.policy import Policy
from scheduler.core.prefixes import MOST_BLOCKS, MOST_SESSIONS, Prefixes
from scheduler.core.ticket import PREFIX_BLOCK, Ticket

from .scene import MS, SECOND, Scene, card
from .test_placement import measured

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
    scene.wait(500 * MS)
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
    before = len(scene.state.prefixes.held[home])
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
    assert len(scene.state.prefixes.held[home]) < before


def test_nothing_is_remembered_without_bound() -> None:
    prefixes = Prefixes()
    for number in range(2_000):
        prefixes.note(f"r{number % 7}", f"s{number}", blocks(number, 64_000), 0)
    for number in range(2 * MOST_SESSIONS):
        prefixes.note("r0", f"t{number}", (), 0)
    held = sum(len(each) for each in prefixes.held.values())
    assert held <= MOST_BLOCKS
    assert len(prefixes.latest) <= held
    assert len(prefixes.sessions) == MOST_SESSIONS
    for number in range(7):
        prefixes.forget(f"r{number}")
    assert not prefixes.held
    assert not prefixes.latest


def test_of_a_prompt_its_end_goes_first() -> None:
    prefixes = Prefixes()
    prefixes.note("r", "", blocks(1, 6_400), 0)
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
    assert not scene.state.prefixes.held
