"""Health probes: questions to the path where an engine says how it is."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from .fetching import Fetcher, NoAnswerError, ShortageError
from .messages import Verdict

# Waited for in turns, so that a time in which this process stood still counts as one of them.
TURN_S, TURNS = 0.25, 6
# An answer that comes late is one: the question before the last one may still be answered.
AT_ONCE = 2

_Question = asyncio.Task[tuple[int, bytes]]
# Number, verdict, when its question was sent in the loop's time, and why.
Tell = Callable[[int, Verdict, float, str], None]


@dataclass(eq=False, slots=True)
class Round:
    """One replica's open questions and when they were sent, the last one last."""

    url: str
    asked: dict[_Question, float] = field(default_factory=dict)
    turns: int = 0
    timer: asyncio.TimerHandle | None = None


class Asking:
    """A replica is asked until it answers, and again after each ``TURNS * TURN_S`` seconds of
    silence, over another connection. ``tell`` hears of every verdict, ``over`` that an answer
    came, and ``fault`` what this machine could not do. Lives on one event loop."""

    def __init__(
        self,
        fetcher: Fetcher,
        tell: Tell,
        over: Callable[[int], None],
        fault: Callable[[str], None],
    ) -> None:
        self._fetcher = fetcher
        self._tell, self._over, self._fault = tell, over, fault
        self._rounds: dict[int, Round] = {}
        self._questions: set[_Question] = set()
        self._loop = asyncio.get_running_loop()

    def begin(self, number: int, url: str) -> None:
        """Ask a replica; whatever it was asked before counts no more."""
        self.stop(number)
        one = self._rounds[number] = Round(url)
        self._ask(number, one)

    def stop(self, number: int) -> None:
        """Ask it no more."""
        one = self._rounds.pop(number, None)
        if one is not None:
            self._leave(one)

    async def close(self) -> None:
        """Ask nobody any more."""
        for number in list(self._rounds):
            self.stop(number)
        await asyncio.gather(*self._questions, return_exceptions=True)

    def _ask(self, number: int, one: Round) -> None:
        question = asyncio.create_task(self._fetcher.get(one.url))
        self._questions.add(question)
        one.asked[question], one.turns = self._loop.time(), 0
        question.add_done_callback(partial(self._answered, number, one))
        one.timer = self._loop.call_later(TURN_S, self._wait, number, one)

    def _wait(self, number: int, one: Round) -> None:
        one.turns += 1
        if one.turns < TURNS:
            one.timer = self._loop.call_later(TURN_S, self._wait, number, one)
            return
        self._tell(number, Verdict.SILENT, list(one.asked.values())[-1], "no answer in time")
        while len(one.asked) >= AT_ONCE:
            oldest = next(iter(one.asked))
            del one.asked[oldest]
            oldest.cancel()
        self._ask(number, one)

    def _answered(self, number: int, one: Round, question: _Question) -> None:
        self._questions.discard(question)
        failure = None if question.cancelled() else question.exception()
        asked = one.asked.pop(question, None)
        if asked is None:
            return  # given up before
        del self._rounds[number]
        self._leave(one)
        if failure is None:
            # A server that wants a key, or knows no such path, is up all the same.
            status, _ = question.result()
            well = status < 300 or 400 <= status < 500
            self._tell(
                number, Verdict.WELL if well else Verdict.UNWELL, asked, f"it answered {status}"
            )
        elif isinstance(failure, NoAnswerError):
            verdict = Verdict.GONE if failure.refused else Verdict.UNWELL
            self._tell(number, verdict, asked, str(failure))
        elif isinstance(failure, ShortageError):
            self._fault(f"{one.url} could not be asked: {failure}")
        else:
            self._fault(f"{one.url} could not be asked: {failure!r}")
            self._tell(number, Verdict.UNWELL, asked, repr(failure))
        self._over(number)

    @staticmethod
    def _leave(one: Round) -> None:
        if one.timer is not None:
            one.timer.cancel()
        for question in list(one.asked):
            del one.asked[question]
            question.cancel()
