"""Generative work on one card, in virtual time: no event per token.

Prefill is shared equally by the requests in it; decoding gives each request one token per
step, and a step grows with the requests on the card. Both are clocks that every request of
the phase reads alike, one in tokens per prefilling request and one in steps, so an end is a
mark on a clock and the next event of the card is the nearest mark.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil

from .kv_memory import Holding, KvMemory
from .scenario import Hardware

NEVER = 2**63 - 1
MILLISECOND = 1e6
# Marks this near (tokens, steps) have been reached: clocks are floats, events whole ns.
REACHED = 1e-6


@dataclass(slots=True)
class Job:
    """One attempt. ``context`` tokens precede the next, of which ``computed`` were so somewhere
    before, and ``steps`` are to come; ``blocks`` are those of all of it (see ``KvMemory``).
    From when it ``began`` (ns) it is ``holding`` memory, having ``found`` tokens there; of those
    to ``prefill`` it computes ``again`` some. ``mark`` is its beginning on the clock of its
    phase."""

    context: int
    computed: int
    steps: int
    blocks: Sequence[int]
    holding: Holding | None = None
    found: int = 0
    prefill: int = 0
    again: int = 0
    began: int = 0
    mark: float = 0.0
    decoding: bool = False


class Decoder:
    """The generative side of one card. Times are ns.

    Call ``advance`` before anything changes, ``retime`` after, and ``due`` at the time that
    ``retime`` returned.
    """

    def __init__(self, hardware: Hardware) -> None:
        self._rate = hardware.prefill_tokens_per_s / 1e9
        self._base = hardware.step_base_ms * MILLISECOND
        self._per_running = hardware.step_per_running_ms * MILLISECOND
        self.memory = KvMemory(hardware.kv_tokens)
        self.jobs: dict[int, Job] = {}
        self._waiting: deque[int] = deque()
        self._prefills: list[tuple[float, int]] = []
        self._decodes: list[tuple[float, int]] = []
        self._prefilling = self._decoding = 0
        self._prefilled = self._stepped = 0.0
        self._step = self._base
        self._at = 0

    def advance(self, now: int) -> None:
        """Run both clocks up to now."""
        passed = now - self._at
        self._at = now
        if self._prefilling:
            self._prefilled += passed * self._rate / self._prefilling
        if self._decoding:
            self._stepped += passed / self._step

    def retime(self, running: int) -> int:
        """The time of the next event with so many requests on the card; NEVER: none."""
        self._step = self._base + self._per_running * running
        self._drop_dead()
        found = NEVER
        if self._prefills:
            left = max(0.0, self._prefills[0][0] - self._prefilled)
            found = self._at + ceil(left * self._prefilling / self._rate)
        if self._decodes:
            left = max(0.0, self._decodes[0][0] - self._stepped)
            found = min(found, self._at + ceil(left * self._step))
        return found

    @property
    def kv_share(self) -> float | None:
        """The share of the KV cache that is reserved; None where it isn't limited."""
        return self.memory.used / self.memory.tokens if self.memory.tokens is not None else None

    def start(
        self, index: int, context: int, computed: int, output: int, blocks: Sequence[int] = ()
    ) -> None:
        """Take a request: ``context`` tokens precede its next one, of which ``computed``
        have been computed somewhere before, and ``output`` are still to come. ``blocks`` are
        those of context and output, if others may share them."""
        self.jobs[index] = Job(context, computed, output, blocks)
        self._waiting.append(index)
        self._admit()

    def stop(self, index: int) -> tuple[int, int]:
        """Take a request away. Returns the tokens it has produced in this attempt and those
        computed of it by now; they stay cached until others need the room."""
        job = self.jobs.pop(index)
        produced, computed = self._progress(job)
        if job.began:
            self._leave(index, job, computed, ended=False)
        else:
            self._waiting.remove(index)
        self._admit()
        return produced, computed

    def produced(self, index: int) -> int:
        """Output tokens of this attempt so far."""
        return self._progress(self.jobs[index])[0]

    def due(self) -> tuple[list[tuple[int, int, int]], list[int]]:
        """What has happened by now: (request, tokens found, wasted ns of its slot) for each that
        has begun to answer, and the requests that have ended, which are gone."""
        answering: list[tuple[int, int, int]] = []
        ended: list[int] = []
        while self._prefills and self._prefills[0][0] <= self._prefilled + REACHED:
            mark, index = heappop(self._prefills)
            job = self.jobs.get(index)
            if job is None or job.decoding or job.mark + job.prefill != mark:
                continue
            job.decoding, job.mark = True, self._stepped
            self._prefilling -= 1
            self._decoding += 1
            assert job.holding is not None
            self.memory.computed(job.holding, job.context)
            heappush(self._decodes, (self._stepped + job.steps, index))
            wasted = (self._at - job.began) * job.again // job.prefill
            answering.append((index, job.found, wasted))
        while self._decodes and self._decodes[0][0] <= self._stepped + REACHED:
            mark, index = heappop(self._decodes)
            job = self.jobs.get(index)
            if job is not None and job.decoding and job.mark + job.steps == mark:
                del self.jobs[index]
                # The last token of an answer is nobody's context.
                self._leave(index, job, job.context + job.steps - 1, ended=True)
                ended.append(index)
        self._admit()
        return answering, ended

    def clear(self) -> None:
        """Lose everything, caches too."""
        for held in (self.jobs, self._waiting, self._prefills, self._decodes, self.memory):
            held.clear()
        self._prefilling = self._decoding = 0

    def _progress(self, job: Job) -> tuple[int, int]:
        if job.decoding:
            produced = min(job.steps - 1, int(self._stepped - job.mark + REACHED))
            return produced, job.context + produced
        if job.began:
            return 0, job.found + min(job.prefill, int(self._prefilled - job.mark))
        return 0, 0

    def _admit(self) -> None:
        """Begin the prefill of those that wait for room, in their order."""
        while self._waiting:
            index = self._waiting[0]
            job = self.jobs[index]
            need = job.context + job.steps
            if not self.memory.fits(need, job.context, job.blocks):
                return
            self._waiting.popleft()
            job.holding, job.found = self.memory.take(index, need, job.context, job.blocks)
            job.prefill = job.context - job.found
            job.again = max(0, min(job.prefill, job.computed - job.found))
            if not self._prefilling and not self._decoding:
                # Clocks that nobody reads start again, which keeps them exact.
                self._prefilled = self._stepped = 0.0
                self._prefills.clear()
                self._decodes.clear()
            job.began, job.mark = max(1, self._at), self._prefilled
            self._prefilling += 1
            heappush(self._prefills, (job.mark + job.prefill, index))

    def _leave(self, index: int, job: Job, computed: int, *, ended: bool) -> None:
        assert job.holding is not None
        self.memory.leave(index, job.holding, computed, ended=ended)
        if job.decoding:
            self._decoding -= 1
        else:
            self._prefilling -= 1

    def _drop_dead(self) -> None:
        """Marks of stopped requests must not be taken for the next event."""
        for heap, decoding in ((self._prefills, False), (self._decodes, True)):
            while heap:
                mark, index = heap[0]
                job = self.jobs.get(index)
                if job is not None and job.decoding is decoding:
                    size = job.steps if decoding else job.prefill
                    if job.mark + size == mark:
                        break
                heappop(heap)
