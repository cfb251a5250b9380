"""Continuous batching as vLLM does it, without the arithmetic. Pure: time is an argument.

One step at a time: ``begin_step(now)`` admits what fits and says when the step ends,
``end_step(now)`` gives its tokens. Within a step every sequence past its prefill gets one
token, and the sequences in prefill share the prefill rate.
"""

import random
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from .blocks import BLOCK_TOKENS, BlockPool, Holding, blocks_for
from .counters import Counters
from .tokens import END_OF_TEXT

Finish = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """How big and how fast the card is.

    ``slots`` sequences at once; ``kv_tokens`` tokens of prompt and output held at once;
    prefill at ``prefill_tokens_per_s``, shared; a step takes ``step_base_ms`` +
    ``step_per_running_ms`` x running, times 1 +- ``jitter``.
    """

    slots: int = 8
    kv_tokens: int = 200_000
    prefill_tokens_per_s: float = 9000.0
    step_base_ms: float = 11.0
    step_per_running_ms: float = 0.55
    jitter: float = 0.0
    seed: int = 0
    by_priority: bool = False

    def sped_up(self, factor: float) -> "ServiceModel":
        """The same card ``factor`` times as fast."""
        return replace(
            self,
            prefill_tokens_per_s=self.prefill_tokens_per_s * factor,
            step_base_ms=self.step_base_ms / factor,
            step_per_running_ms=self.step_per_running_ms / factor,
        )


@dataclass(slots=True, eq=False)
class Sequence:
    """One answer in the making: ``tokens`` is the prompt and, behind it, the answer so far.

    ``max_tokens`` 0 is a prompt without an answer (embedding). ``cached`` are the prompt's
    tokens found in the prefix cache; ``to_prefill`` those still to be computed. Only sequences
    of the same ``salt`` find each other's.
    """

    id: str
    tokens: list[int]
    answer: Iterator[int]
    max_tokens: int
    priority: int = 0
    salt: str = ""
    arrived: float = 0.0
    order: int = 0
    prompt_tokens: int = field(init=False)
    cached: int = 0
    holding: Holding | None = None
    to_prefill: float = 0.0
    admitted: float | None = None
    first_token: float | None = None
    preempted: int = 0

    def __post_init__(self) -> None:
        self.prompt_tokens = len(self.tokens)

    @property
    def generated(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - self.prompt_tokens


@dataclass(frozen=True, slots=True)
class Output:
    """What one step gave one sequence; ``token`` is None only for a prompt without an answer."""

    sequence: Sequence
    token: int | None
    finish: Finish | None


class Engine:
    """The waiting queue, the running set and the KV memory."""

    def __init__(self, model: ServiceModel) -> None:
        self.model = model
        self.pool = BlockPool(model.kv_tokens // BLOCK_TOKENS)
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.counters = Counters()
        self._random = random.Random(model.seed)  # noqa: S311 - jitter, no secret
        self._orders = 0
        self._step_began = 0.0

    def fits(self, tokens: int) -> bool:
        """Whether a sequence of that length can run at all."""
        return blocks_for(tokens) <= self.pool.capacity

    def submit(self, sequence: Sequence, now: float) -> None:
        """Queue it. Its prompt and answer must fit the memory of an empty engine."""
        if not self.fits(sequence.prompt_tokens + sequence.max_tokens):
            raise ValueError("the sequence is longer than the KV memory")
        sequence.arrived = now
        self._orders += 1
        sequence.order = self._orders
        insort(self.waiting, sequence, key=self._rank)

    def abort(self, sequence: Sequence, outcome: str = "abort") -> bool:
        """Forget it, whatever it is doing; False when it is already gone."""
        for queue in (self.running, self.waiting):
            if sequence in queue:
                queue.remove(sequence)
                self._release(sequence)
                self.counters.finished[outcome] += 1
                return True
        return False

    def begin_step(self, now: float) -> float | None:
        """Admit, and say when the step ends; None with nothing to run."""
        if self._make_decodes_fit():
            self._admit(now)
        if not self.running:
            return None
        self._step_began = now
        duration = self.model.step_base_ms + self.model.step_per_running_ms * len(self.running)
        if self.model.jitter:
            duration *= 1 + self.model.jitter * self._random.uniform(-1, 1)
        return now + duration / 1000

    def end_step(self, now: float) -> list[Output]:
        """The tokens of the step that began last."""
        took = now - self._step_began
        self.counters.busy(now, took)
        decoding = [sequence for sequence in self.running if not sequence.to_prefill]
        self.counters.step.add(took, len(decoding))
        ready = decoding + self._prefill(took)
        outputs = [self._advance(sequence, now) for sequence in ready]
        if any(output.finish for output in outputs):
            self.running = [sequence for sequence in self.running if sequence.holding]
        return outputs

    def _rank(self, sequence: Sequence) -> tuple[int, int]:
        return (sequence.priority if self.model.by_priority else 0, sequence.order)

    def _make_decodes_fit(self) -> bool:
        """A block for each token to come; False when that took a preemption."""
        roomy = True
        for sequence in list(self.running):
            while sequence.holding is not None and not self.pool.grow(
                sequence.holding, blocks_for(len(sequence.tokens))
            ):
                self._preempt(self._victim())
                roomy = False
        return roomy

    def _victim(self) -> Sequence:
        return max(self.running, key=self._rank)

    def _preempt(self, victim: Sequence) -> None:
        self.running.remove(victim)
        self._release(victim)
        victim.preempted += 1
        self.counters.preemptions += 1
        insort(self.waiting, victim, key=self._rank)

    def _admit(self, now: float) -> None:
        while self.waiting and len(self.running) < self.model.slots:
            sequence = self.waiting[0]
            tokens = sequence.tokens
            # The last token is always computed: its result is the next token.
            root = hash(sequence.salt) if sequence.salt else 0
            prefix = self.pool.find_prefix(tokens, (len(tokens) - 1) // BLOCK_TOKENS, root)
            holding = self.pool.take(prefix, blocks_for(len(tokens)), root)
            if holding is None:
                return
            del self.waiting[0]
            cached = len(prefix) * BLOCK_TOKENS
            sequence.holding = holding
            sequence.to_prefill = float(len(tokens) - cached)
            self.counters.prefix_queries += len(tokens)
            self.counters.prefix_hits += cached
            if sequence.admitted is None:
                sequence.admitted = now
                sequence.cached = cached
                self.counters.queue_time.add(now - sequence.arrived)
            self.running.append(sequence)

    def _prefill(self, took: float) -> list[Sequence]:
        """Share the step's prefill; gives the sequences whose prompt is now computed."""
        pending = [sequence for sequence in self.running if sequence.to_prefill]
        budget = took * self.model.prefill_tokens_per_s
        pending.sort(key=lambda sequence: (sequence.to_prefill, sequence.order))
        done: list[Sequence] = []
        for index, sequence in enumerate(pending):
            given = min(sequence.to_prefill, budget / (len(pending) - index))
            budget -= given
            # A rounding remainder of a token is no work left.
            if sequence.to_prefill - given < 1e-6:
                sequence.to_prefill = 0.0
                done.append(sequence)
            else:
                sequence.to_prefill -= given
        return done

    def _advance(self, sequence: Sequence, now: float) -> Output:
        assert sequence.holding is not None
        self.pool.share(sequence.holding, sequence.tokens, len(sequence.tokens))
        finish: Finish | None = None
        token: int | None = None
        if sequence.first_token is None:
            sequence.first_token = now
            self.counters.prompt_tokens += sequence.prompt_tokens
            self.counters.first_token.add(now - sequence.arrived)
        if sequence.max_tokens:
            token = next(sequence.answer)
            sequence.tokens.append(token)
            self.counters.generation_tokens += 1
            if token == END_OF_TEXT:
                finish = "stop"
            elif sequence.generated >= sequence.max_tokens:
                finish = "length"
        else:
            finish = "stop"
        if finish is not None:
            self._release(sequence)
            self.counters.finished[finish] += 1
            self.counters.whole.add(now - sequence.arrived)
        return Output(sequence, token, finish)

    def _release(self, sequence: Sequence) -> None:
        if sequence.holding is not None:
            self.pool.release(sequence.holding)
            sequence.holding = None
            sequence.to_prefill = 0.0
