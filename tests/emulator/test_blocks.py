"""KV memory: whole blocks are found again, oldest first when memory is short."""

from dataclasses import replace

import pytest

from scheduler.emulator.blocks import (
    BLOCK_TOKENS,
    BlockPool,
    Change,
    Removed,
    Stored,
    blocks_for,
)
from scheduler.emulator.engine import Sequence

from .stepping import PLAIN, Bench

FAST = replace(PLAIN, prefill_tokens_per_s=1e6)


def test_blocks_are_counted_up() -> None:
    assert [blocks_for(tokens) for tokens in (0, 1, 16, 17, 32)] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("shared", "cached"), [(0, 0), (15, 0), (16, 16), (47, 32), (48, 48), (64, 48)]
)
def test_only_whole_blocks_of_a_beginning_are_found(shared: int, cached: int) -> None:
    bench = Bench(FAST)
    first = list(range(1000, 1064))
    bench.submit("a", prompt=first, tokens=1)
    bench.run()
    second = [*first[:shared], *range(9000, 9064 - shared)]
    again = bench.submit("b", prompt=second, tokens=1)
    bench.run()
    # The last token is always computed, so an equal prompt of four blocks finds three.
    assert again.cached == cached
    assert bench.engine.counters.prefix_hits == cached
    assert bench.engine.counters.prefix_queries == 128


def test_a_hit_shortens_the_prefill() -> None:
    bench = Bench()
    prompt = list(range(1000, 1170))
    first = bench.submit("a", prompt=prompt, tokens=1)
    bench.run()
    again = bench.submit("b", prompt=prompt, tokens=1)
    begun = bench.now
    bench.run()
    assert bench.times(first) == [170]
    # 160 of 170 tokens are there already.
    assert bench.times(again) == [round(begun * 1000 + 10, 6)]


def test_the_answer_is_found_by_who_continues_it() -> None:
    bench = Bench(FAST)
    one = bench.submit("a", prompt=40, tokens=60)
    bench.run(steps=50)
    bench.engine.abort(one)
    again = bench.submit("b", prompt=list(one.tokens), tokens=1)
    bench.run()
    # 40 + 50 tokens, of which the last has not been computed: five whole blocks.
    assert again.cached == 80


def test_sequences_share_the_blocks_of_a_common_beginning() -> None:
    bench = Bench(FAST)
    prompt = list(range(1000, 1160))
    bench.submit("a", prompt=prompt, tokens=20)
    bench.step()
    assert bench.engine.pool.used == 10
    bench.submit("b", prompt=prompt, tokens=20)
    bench.step()
    # The first answer has begun a block of its own; the second prompt needs none.
    assert bench.engine.pool.used == 11


def test_two_that_compute_the_same_at_once_keep_one_copy() -> None:
    bench = Bench(FAST)
    prompt = list(range(1000, 1160))
    bench.submit("a", prompt=prompt, tokens=20)
    bench.submit("b", prompt=prompt, tokens=20)
    bench.step()
    assert bench.engine.pool.used == 10
    bench.run()
    assert bench.engine.pool.used == 0


def test_memory_short_forgets_the_oldest_and_the_end_before_the_beginning() -> None:
    bench = Bench(replace(FAST, kv_tokens=10 * BLOCK_TOKENS))
    old, new = list(range(1000, 1064)), list(range(2000, 2064))
    bench.submit("old", prompt=old, tokens=1)
    bench.run()
    bench.submit("new", prompt=new, tokens=1)
    bench.run()
    assert bench.engine.pool.idle == 8
    # Five blocks: two that were free, then three of the oldest.
    bench.submit("other", prompt=75, tokens=1)
    bench.run()
    pool = bench.engine.pool
    assert len(pool.find_prefix(new, 4)) == 4
    assert len(pool.find_prefix(old, 4)) == 1


def test_forgetting_keeps_what_is_held() -> None:
    bench = Bench(FAST)
    prompt = list(range(1000, 1064))
    bench.submit("a", prompt=prompt, tokens=50)
    bench.step()
    bench.engine.pool.forget()
    assert len(bench.engine.pool.find_prefix(prompt, 4)) == 4
    bench.run()
    bench.engine.pool.forget()
    assert bench.engine.pool.find_prefix(prompt, 4) == []


def test_taking_too_much_changes_nothing() -> None:
    pool = BlockPool(4)
    held = pool.take([], 3)
    assert held is not None
    assert pool.take([], 2) is None
    assert not pool.grow(held, 5)
    assert (pool.used, held.blocks) == (3, 3)
    assert pool.grow(held, 4)
    assert pool.free == 0


def test_a_waiting_sequence_takes_no_memory() -> None:
    bench = Bench(replace(FAST, slots=1))
    bench.submit("a", tokens=5)
    waiting: Sequence = bench.submit("b", tokens=5)
    bench.step()
    assert waiting.holding is None


def test_prompts_of_different_salts_share_nothing() -> None:
    bench = Bench(FAST)
    prompt = list(range(1000, 1064))
    found = []
    for name, salt in (("a", ""), ("b", "x"), ("c", "x"), ("d", "y"), ("e", "")):
        sequence = Sequence(name, list(prompt), iter(range(5000, 5100)), 1, salt=salt)
        bench.engine.submit(sequence, bench.now)
        bench.run()
        found.append(sequence.cached)
    assert found == [0, 0, 48, 0, 48]


def test_changes_tell_what_can_be_found() -> None:
    """Whoever adds up what is stored and removed knows the pool, also when memory is short."""
    bench = Bench(replace(FAST, kv_tokens=24 * BLOCK_TOKENS))
    pool = bench.engine.pool
    known: dict[int, tuple[int, ...]] = {}
    removed = 0

    def note(change: Change) -> None:
        nonlocal removed
        assert isinstance(change, Stored | Removed)
        if isinstance(change, Removed):
            del known[change.key]
            removed += 1
            return
        assert not change.before or change.before in known
        assert len(change.tokens) == len(change.keys) * BLOCK_TOKENS
        for at, key in enumerate(change.keys):
            assert key not in known
            known[key] = tuple(change.tokens[at * BLOCK_TOKENS : (at + 1) * BLOCK_TOKENS])

    pool.on_change = note
    for turn in range(12):
        base = list(range(1000, 1040 + 20 * (turn % 3)))
        prompt = [*base, *range(2000 + 100 * turn, 2050 + 100 * turn)]
        bench.submit(f"s{turn}", prompt=prompt, tokens=30)
        bench.run()
        assert len(known) == pool.idle
        at = len(pool.find_prefix(prompt, len(prompt) // BLOCK_TOKENS))
        for index in range(at):
            block = tuple(prompt[index * BLOCK_TOKENS : (index + 1) * BLOCK_TOKENS])
            assert block in known.values()
    assert removed
    pool.on_change = lambda change: known.clear()
    pool.forget()
    assert not known
