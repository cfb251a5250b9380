"""One generation call on its way through the engine: sequences in, events or a body out."""

import asyncio
from collections.abc import Callable
from collections.abc import Sequence as Items
from functools import partial

from .answers import continue_answer
from .decoding import Answer, Piece
from .driver import Driver
from .engine import Output, Sequence
from .requests import Sampling
from .shapes import Shape
from .usage import UsageReport


class Call:
    """``n`` answers to each prompt. ``done`` resolves when all have ended.

    With ``emit`` set before ``start``, events go there as they come up.
    """

    def __init__(
        self,
        driver: Driver,
        shape: Shape,
        report: UsageReport,
        sampling: Sampling,
        prompts: Items[list[int]],
        budgets: Items[int],
        echo: str = "",
    ) -> None:
        self.driver = driver
        self.shape = shape
        self.report = report
        self.emit: Callable[[bytes], None] | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answers: list[Answer] = []
        self.prompts: list[list[int]] = []
        self.sequences: list[Sequence] = []
        self._echo = echo
        self._choices = sampling.choices
        self._left = len(prompts) * sampling.choices
        report.prompt = sum(map(len, prompts))
        for prompt, budget in zip(prompts, budgets, strict=True):
            for _ in range(sampling.choices):
                self._add(sampling, prompt, budget)

    @property
    def generated(self) -> int:
        """Tokens so far, over all answers."""
        return self.report.completion

    def start(self) -> None:
        """Hand the sequences to the engine."""
        for index, sequence in enumerate(self.sequences):
            self.driver.submit(sequence, partial(self._take, index))

    def abort(self) -> None:
        """Stop what is still running."""
        for sequence in self.sequences:
            self.driver.abort(sequence)

    def whole(self) -> bytes:
        """The plain answer, once done."""
        for answer in self.answers:
            answer.text = self._echo + answer.text
        return self.shape.whole(self.answers, self.prompts, self.report)

    def _add(self, sampling: Sampling, prompt: list[int], budget: int) -> None:
        tokens = continue_answer(
            prompt,
            ignore_eos=sampling.ignore_eos,
            min_tokens=sampling.min_tokens,
            length=sampling.answer_tokens,
        )
        self.prompts.append(prompt)
        self.answers.append(
            Answer(
                stops=sampling.stops,
                stop_ids=frozenset(sampling.stop_token_ids or ()),
                keep_stop=sampling.include_stop_str_in_output,
            )
        )
        self.sequences.append(
            Sequence(
                self.shape.id,
                list(prompt),
                tokens,
                budget,
                sampling.priority,
                sampling.cache_salt or "",
            )
        )

    def _take(self, index: int, output: Output) -> None:
        assert output.token is not None
        answer = self.answers[index]
        first = not answer.ids
        piece = answer.feed(output.token, output.finish)
        self.report.completion += 1
        if first and index % self._choices == 0:
            self.report.cached += output.sequence.cached
        if piece.finish is not None and output.finish is None:
            self.driver.abort(output.sequence, outcome="stop")
        if self.emit is not None:
            self._emit(index, piece, first=first)
        if piece.finish is not None:
            self._left -= 1
            if not self._left:
                self._close()

    def _emit(self, index: int, piece: Piece, *, first: bool) -> None:
        assert self.emit is not None
        events = b""
        if first:
            events = self.shape.opening(index, self.prompts[index], self.report)
            if self._echo:
                piece = Piece(self._echo + piece.text, piece.ids, piece.finish, piece.stop_reason)
        self.emit(events + self.shape.chunk(index, piece, self.report))

    def _close(self) -> None:
        if self.emit is not None:
            self.emit(self.shape.closing(self.report))
        if not self.done.done():
            self.done.set_result(None)
