"""KV memory with prefixes: cases by hand, and against a plain model of the same rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.core.ticket import PREFIX_BLOCK
from scheduler.simulation.kv_memory import Holding, KvMemory


def run(memory: KvMemory, request: int, context: int, more: int, blocks: Sequence[int]) -> int:
    """A request from beginning to end; the tokens of its context that it found."""
    assert memory.fits(context + more, context, blocks)
    holding, found = memory.take(request, context + more, context, blocks)
    memory.computed(holding, context)
    memory.leave(request, holding, context + more - 1, ended=True)
    return found


def test_what_has_ended_is_found_by_who_begins_alike() -> None:
    memory = KvMemory(10_000)
    assert run(memory, 1, 640, 200, range(13)) == 0
    assert memory.used == 0
    # 839 tokens were computed: 13 blocks, of which the next has ten in common.
    assert run(memory, 2, 1000, 10, [*range(10), 50, 51, 52, 53, 54]) == 640
    # Its answers are found too, by whoever goes on from them.
    assert run(memory, 3, 1000, 10, range(15)) == 13 * PREFIX_BLOCK


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    memory = KvMemory(10_000)
    run(memory, 1, 640, 100, range(11))
    assert run(memory, 2, 640, 100, range(11)) == 9 * PREFIX_BLOCK
    assert run(memory, 3, 641, 100, range(11)) == 640
    assert run(memory, 4, 1, 1, []) == 0


def test_the_oldest_goes_first_and_of_it_the_end() -> None:
    memory = KvMemory(20 * PREFIX_BLOCK)
    first, second = range(8), range(100, 108)
    run(memory, 1, 511, 2, first)
    run(memory, 2, 511, 2, second)
    # Both are whole. Six blocks' room are asked for by somebody who shares nothing, four are free.
    run(memory, 3, 6 * PREFIX_BLOCK, 1, [])
    assert run(memory, 4, 512, 1, first) == 5 * PREFIX_BLOCK
    memory = KvMemory(20 * PREFIX_BLOCK)
    run(memory, 1, 511, 2, first)
    run(memory, 2, 511, 2, second)
    # The first is used again, and is the newer one from then on.
    run(memory, 3, 511, 2, first)
    run(memory, 4, 6 * PREFIX_BLOCK, 1, [])
    assert run(memory, 5, 512, 1, first) == 7 * PREFIX_BLOCK
    assert run(memory, 6, 512, 1, second) < 7 * PREFIX_BLOCK


def test_what_nobody_can_find_again_takes_its_turn_too() -> None:
    memory = KvMemory(20 * PREFIX_BLOCK)
    run(memory, 1, 511, 2, range(8))
    for request in (2, 3, 4, 5):
        run(memory, request, 6 * PREFIX_BLOCK, 1, [])
    assert run(memory, 6, 512, 1, range(8)) == 0


def test_those_that_run_hold_in_common_once() -> None:
    memory = KvMemory(20 * PREFIX_BLOCK)
    holding, _ = memory.take(1, 640, 600, range(10))
    # Not computed yet: who comes now computes it too, and has a copy of its own until then.
    other, found = memory.take(2, 640, 600, [*range(8), 20, 21])
    assert found == 0
    assert memory.used == 1280
    memory.computed(holding, 600)
    assert memory.used == 1280
    memory.computed(other, 600)
    assert memory.used == 1280 - 8 * PREFIX_BLOCK
    blocks = [*range(8), 30, 31]
    # Twelve blocks are in use, eight of which would do for this one too.
    assert memory.fits(16 * PREFIX_BLOCK, 640, blocks)
    assert not memory.fits(16 * PREFIX_BLOCK + 1, 640, blocks)
    # As part of an answer they are nobody's yet.
    assert not memory.fits(16 * PREFIX_BLOCK, 7 * PREFIX_BLOCK + 64, blocks)
    memory.leave(1, holding, 639, ended=True)
    assert memory.used == 640
    memory.leave(2, other, 639, ended=True)
    assert memory.used == 0


def test_what_is_lost_is_lost() -> None:
    memory = KvMemory(10_000)
    run(memory, 1, 640, 200, range(13))
    memory.clear()
    assert run(memory, 2, 640, 200, range(13)) == 0


def test_a_pause_is_found_by_who_made_it_alone() -> None:
    memory = KvMemory(1000)
    holding, _ = memory.take(1, 500, 300, [])
    memory.leave(1, holding, 350, ended=False)
    assert memory.take(2, 500, 300, [])[1] == 0
    assert memory.take(1, 500, 350, [])[1] == 349


def test_what_is_left_of_a_pause_gives_way_from_its_end() -> None:
    memory = KvMemory(1000)
    holding, _ = memory.take(1, 500, 300, [])
    memory.leave(1, holding, 350, ended=False)
    run(memory, 2, 700, 100, [])
    # 800 of 1000 were needed.
    assert memory.take(1, 500, 350, [])[1] == 200


@dataclass
class Run:
    """A running request of the plain model. ``known``: tokens that others may find by now."""

    request: int
    blocks: list[int]
    context: int
    need: int
    found: int
    known: int
    holding: Holding


class Plain(RuleBasedStateMachine):
    """The same rules, said without counts: every token of memory is somebody's or nobody's."""

    size = 30 * PREFIX_BLOCK

    @initialize()
    def begin(self) -> None:
        self.memory = KvMemory(self.size)
        self.running: list[Run] = []
        # Blocks that nobody holds, the oldest first; below 0 single tokens of a request.
        self.left: list[tuple[int, int]] = []
        self.number = 0
        self.paused: dict[int, int] = {}

    def shared(self, run: Run) -> list[int]:
        """Blocks of a running request that others may find."""
        return run.blocks[: run.known // PREFIX_BLOCK]

    def held(self) -> set[int]:
        return {block for run in self.running for block in self.shared(run)}

    def used(self) -> int:
        own = sum(run.need - PREFIX_BLOCK * len(self.shared(run)) for run in self.running)
        return own + PREFIX_BLOCK * len(self.held())

    def found(self, blocks: list[int], context: int) -> int:
        there = self.held() | {block for block, _ in self.left}
        count = 0
        while (count + 1) * PREFIX_BLOCK < context and blocks[count : count + 1]:
            if blocks[count] not in there:
                break
            count += 1
        return count

    def evict(self) -> None:
        held = self.held()
        self.left = [entry for entry in self.left if entry[0] not in held]
        while self.used() + sum(tokens for _, tokens in self.left) > self.size:
            self.left.pop(0)

    def content(self, root: int, way: int, tokens: int) -> list[int]:
        """Blocks of a text: all of one ``root`` begin with the same four, then ways part."""
        count = tokens // PREFIX_BLOCK
        return [1000 * root + (k if k < 4 else 100 * way + k) for k in range(count)]

    @rule(
        root=st.integers(0, 2),
        way=st.integers(0, 2),
        context=st.integers(1, 800),
        more=st.integers(1, 300),
    )
    def start(self, root: int, way: int, context: int, more: int) -> None:
        need = context + more
        blocks = self.content(root, way, need) if root else []
        prefix = PREFIX_BLOCK * self.prefix(blocks[: (context - 1) // PREFIX_BLOCK])
        fits = self.used() + need - prefix <= self.size
        assert self.memory.fits(need, context, blocks) == fits
        if not fits:
            return
        self.number += 1
        found = self.found(blocks, context)
        holding, told = self.memory.take(self.number, need, context, blocks)
        assert told == found * PREFIX_BLOCK
        known = found * PREFIX_BLOCK
        self.running.append(Run(self.number, blocks, context, need, known, known, holding))
        self.evict()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def prefilled(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self.running))
        run.known = max(run.known, run.context)
        self.memory.computed(run.holding, run.context)
        self.evict()

    @precondition(lambda self: self.running)
    @rule(data=st.data(), share=st.floats(0, 1), ended=st.booleans())
    def leave(self, data: st.DataObject, share: float, ended: bool) -> None:
        run = data.draw(st.sampled_from(self.running))
        computed = run.known + round(share * (run.need - 1 - run.known))
        run.known = computed
        blocks = self.shared(run)
        self.running.remove(run)
        self.memory.leave(run.request, run.holding, computed, ended=ended)
        held = self.held()
        self.left = [entry for entry in self.left if entry[0] not in blocks]
        self.left += [(block, PREFIX_BLOCK) for block in reversed(blocks) if block not in held]
        if not run.blocks:
            self.left += [(-run.request, 1)] * computed
            if not ended:
                self.paused[run.request] = run.context + max(0, computed - run.context)
        self.evict()

    @precondition(lambda self: self.paused)
    @rule(data=st.data(), more=st.integers(1, 100))
    def go_on(self, data: st.DataObject, more: int) -> None:
        """One that was paused and shares nothing finds what is left of itself."""
        request = data.draw(st.sampled_from(sorted(self.paused)))
        context = self.paused[request]
        if self.used() + context + more > self.size:
            return
        del self.paused[request]
        mine = [entry for entry in self.left if entry[0] == -request]
        self.left = [entry for entry in self.left if entry[0] != -request]
        holding, told = self.memory.take(request, context + more, context, [])
        assert told == min(len(mine), context - 1)
        run = Run(request, [], context, context + more, told, told, holding)
        self.running.append(run)
        self.evict()

    @invariant()
    def counts_are_a_recount(self) -> None:
        if hasattr(self, "memory"):
            assert self.memory.used == self.used() <= self.size
            for root, way in product((1, 2), range(3)):
                blocks = self.content(root, way, 900)
                prefix = PREFIX_BLOCK * self.prefix(blocks)
                fits = self.used() + self.size - prefix <= self.size
                assert self.memory.fits(self.size, 2000, blocks) == fits

    def prefix(self, blocks: list[int]) -> int:
        held, count = self.held(), 0
        while blocks[count : count + 1] and blocks[count] in held:
            count += 1
        return count


TestPlain = Plain.TestCase
TestPlain.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
