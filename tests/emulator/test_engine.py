"""Continuous batching: who runs, when tokens come, what memory they take."""

from dataclasses import replace
from itertools import chain, count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.emulator.blocks import BLOCK_TOKENS
from scheduler.emulator.engine import Engine, Sequence, ServiceModel
from scheduler.emulator.tokens import END_OF_TEXT

from .stepping import PLAIN, Bench


def test_a_sequence_alone_prefills_and_then_gets_a_token_a_step() -> None:
    bench = Bench()
    # 25 tokens at one a millisecond take three steps of 10 ms; the third gives a token.
    one = bench.submit("a", prompt=25, tokens=3)
    bench.run()
    assert bench.times(one) == [30, 40, 50]
    assert [output.finish for _, output in bench.log] == [None, None, "length"]


def test_prefills_share_the_rate() -> None:
    bench = Bench()
    one, two = bench.submit("a", prompt=30, tokens=1), bench.submit("b", prompt=50, tokens=1)
    bench.run()
    # 80 tokens of prefill in all: both halves together until 60, the longer one alone after.
    assert bench.times(one) == [60]
    assert bench.times(two) == [80]


def test_what_a_short_prefill_leaves_goes_to_the_others() -> None:
    bench = Bench()
    short, long = bench.submit("a", prompt=2, tokens=1), bench.submit("b", prompt=8, tokens=1)
    bench.run()
    assert bench.times(short) == bench.times(long) == [10]


def test_steps_grow_with_the_running_set() -> None:
    bench = Bench(replace(PLAIN, step_per_running_ms=2.0, prefill_tokens_per_s=1e6))
    sequences = [bench.submit(name, tokens=2) for name in "abcd"]
    bench.run()
    assert all(bench.times(sequence) == [18, 36] for sequence in sequences)


def test_a_running_answer_goes_on_while_another_prefills() -> None:
    bench = Bench()
    one = bench.submit("a", prompt=10, tokens=10)
    bench.run(steps=2)
    bench.submit("b", prompt=40, tokens=1)
    bench.run()
    assert bench.times(one) == [10 * step for step in range(1, 11)]


def test_no_more_run_than_there_are_slots_and_the_next_starts_at_once() -> None:
    bench = Bench()
    sequences = [bench.submit(str(index), tokens=3) for index in range(6)]
    bench.step()
    assert (len(bench.engine.running), len(bench.engine.waiting)) == (4, 2)
    bench.run()
    ended = bench.times(sequences[0])[-1]
    assert sequences[4].admitted == pytest.approx(ended / 1000)


def test_end_of_text_ends_before_the_budget() -> None:
    bench = Bench()
    bench.submit("a", tokens=50, answer=chain([7, 8], [END_OF_TEXT], count()))
    bench.run()
    assert [output.token for _, output in bench.log] == [7, 8, END_OF_TEXT]
    assert bench.log[-1][1].finish == "stop"


def test_a_prompt_without_an_answer_ends_with_its_prefill() -> None:
    bench = Bench()
    one = bench.submit("a", prompt=25, tokens=0)
    bench.run()
    assert bench.times(one) == [30]
    assert bench.log[0][1].token is None
    assert bench.engine.counters.generation_tokens == 0


def test_the_queue_goes_by_arrival_unless_told_otherwise() -> None:
    for by_priority, first in ((False, "late-low"), (True, "urgent")):
        bench = Bench(replace(PLAIN, slots=1, by_priority=by_priority))
        bench.submit("running", tokens=5)
        bench.step()
        bench.submit("late-low", priority=5)
        bench.submit("urgent", priority=-1)
        bench.run(steps=5)
        assert bench.engine.running[0].id == first


def test_priority_frees_no_slot() -> None:
    bench = Bench(replace(PLAIN, slots=1, by_priority=True))
    low = bench.submit("low", tokens=50, priority=9)
    bench.step()
    urgent = bench.submit("urgent", tokens=1, priority=0)
    bench.run()
    assert low.preempted == 0
    assert bench.times(urgent)[0] > bench.times(low)[-1]


def test_memory_short_preempts_the_youngest_which_then_ends_whole() -> None:
    # Room for ten blocks; two answers that grow to seven blocks each.
    bench = Bench(replace(PLAIN, kv_tokens=10 * BLOCK_TOKENS, prefill_tokens_per_s=1e6))
    old, young = bench.submit("a", prompt=16, tokens=90), bench.submit("b", prompt=16, tokens=90)
    bench.run()
    assert old.preempted == 0
    assert young.preempted >= 1
    assert bench.engine.counters.preemptions == young.preempted
    assert len(bench.times(old)) == len(bench.times(young)) == 90
    tokens = [output.token for _, output in bench.log if output.sequence is young]
    assert tokens == list(range(5000, 5090))


def test_by_priority_the_least_urgent_is_preempted() -> None:
    model = replace(PLAIN, kv_tokens=10 * BLOCK_TOKENS, by_priority=True, prefill_tokens_per_s=1e6)
    bench = Bench(model)
    low = bench.submit("low", prompt=16, tokens=90, priority=9)
    high = bench.submit("high", prompt=16, tokens=90, priority=0)
    bench.run()
    assert high.preempted == 0
    assert low.preempted >= 1


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_an_abort_frees_its_slot_and_memory_for_the_next_step(steps: int) -> None:
    bench = Bench(replace(PLAIN, slots=1))
    one, two = bench.submit("a", prompt=25, tokens=50), bench.submit("b", tokens=1)
    bench.run(steps=steps)
    assert bench.engine.abort(one)
    assert not bench.engine.abort(one)
    assert bench.engine.pool.used == 0
    given = len(bench.times(one))
    bench.run()
    assert len(bench.times(one)) == given
    assert bench.times(two)
    assert bench.engine.counters.finished["abort"] == 1


def test_an_abort_within_a_step_gives_nothing_more() -> None:
    bench = Bench()
    one, two = bench.submit("a"), bench.submit("b", tokens=1)
    ends = bench.engine.begin_step(0.0)
    assert ends is not None
    bench.engine.abort(one)
    assert [output.sequence for output in bench.engine.end_step(0.02)] == [two]


def test_one_that_can_never_fit_is_refused() -> None:
    bench = Bench()
    with pytest.raises(ValueError, match="KV memory"):
        bench.submit("a", prompt=1600, tokens=1)


def test_a_faster_card_is_faster_all_over() -> None:
    bench = Bench(PLAIN.sped_up(10))
    one = bench.submit("a", prompt=25, tokens=3)
    bench.run()
    assert bench.times(one) == [3, 4, 5]


def test_jitter_is_repeatable() -> None:
    runs = []
    for _ in range(2):
        bench = Bench(replace(PLAIN, jitter=0.3, seed=7))
        one = bench.submit("a", tokens=20)
        bench.run()
        runs.append(bench.times(one))
    assert runs[0] == runs[1]
    gaps = [later - earlier for earlier, later in pairwise(runs[0])]
    assert len(set(gaps)) > 5
    assert all(7 <= gap <= 13 for gap in gaps)


def test_utilisation_is_the_share_of_the_last_second_with_a_step() -> None:
    bench = Bench()
    bench.submit("a", tokens=30)
    bench.run()
    assert bench.now == pytest.approx(0.3)
    assert bench.engine.counters.utilisation(1.0) == pytest.approx(0.3)
    assert bench.engine.counters.utilisation(1.2) == pytest.approx(0.1)
    assert bench.engine.counters.utilisation(5.0) == 0.0


Load = st.lists(
    st.tuples(
        st.integers(0, 6),  # steps before it arrives
        st.integers(1, 120),  # prompt tokens
        st.integers(0, 60),  # answer tokens
        st.integers(0, 3),  # which prompt family it shares its beginning with
        st.integers(-1, 2),  # priority
        st.integers(0, 40) | st.none(),  # steps until it is aborted
    ),
    max_size=14,
)


@settings(max_examples=150, deadline=None)
@given(Load, st.booleans(), st.integers(12, 30))
def test_limits_hold_and_everything_ends(
    load: list[tuple[int, int, int, int, int, int | None]], urgent: bool, blocks: int
) -> None:
    model = ServiceModel(
        slots=3,
        kv_tokens=blocks * BLOCK_TOKENS,
        prefill_tokens_per_s=5000.0,
        by_priority=urgent,
    )
    engine = Engine(model)
    alive: dict[Sequence, int] = {}
    ended: set[Sequence] = set()
    now = 0.0
    for wait, prompt, tokens, family, priority, leaves in load:
        for _ in range(wait):
            now = advance(engine, now, alive, ended)
        ids = [family * 1000 + at for at in range(prompt)]
        sequence = Sequence("s", ids, count(7000 + len(ended)), tokens, priority)
        engine.submit(sequence, now)
        alive[sequence] = 10_000 if leaves is None else leaves
    for _ in range(5000):
        if not alive:
            break
        now = advance(engine, now, alive, ended)
    assert not alive
    assert not engine.running
    assert not engine.waiting
    assert engine.pool.used == 0
    assert engine.pool.idle <= engine.pool.capacity


def advance(engine: Engine, now: float, alive: dict[Sequence, int], ended: set[Sequence]) -> float:
    """One step with its aborts; checks what holds at any moment."""
    for sequence in [one for one, left in alive.items() if left == 0]:
        engine.abort(sequence)
        ended.add(sequence)
        del alive[sequence]
    ends = engine.begin_step(now)
    assert len(engine.running) <= engine.model.slots
    assert 0 <= engine.pool.used <= engine.pool.used + engine.pool.idle <= engine.pool.capacity
    for sequence in engine.running:
        assert sequence.holding is not None
        assert sequence.holding.blocks * BLOCK_TOKENS >= len(sequence.tokens)
    if ends is None:
        return now + 0.01
    for output in engine.end_step(ends):
        assert output.sequence not in ended
        if output.finish:
            assert output.sequence.generated == output.sequence.max_tokens
            ended.add(output.sequence)
            del alive[output.sequence]
    for sequence in alive:
        alive[sequence] -= 1
    return ends
