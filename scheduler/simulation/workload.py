"""Every request of a run, fixed by seed and scenario before any scheduler sees one.

Columns of plain numbers instead of objects: two million requests fit into 80 MB.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from math import log
from random import Random

from scheduler.core.classify import classify
from scheduler.core.ticket import PREFIX_BLOCK

from .dialogues import lognormal, tokens, turns
from .rates import arrival_times
from .scenario import SECOND, Arrivals, Conversations, Scenario

MILLISECOND = 1_000_000
COLUMNS = (
    *("arrived", "stream", "business", "level", "factor", "prompt", "output", "conversation"),
)
# Bits of a block's name that count it from the beginning.
PLACE_BITS = 24


class Workload:
    """Requests by index, in order of arrival.

    ``arrived`` is ns from the start; ``model``, ``business`` and ``stream`` are indexes;
    ``factor`` multiplies a fixed model's mean service time; ``prompt`` and ``output`` are
    tokens, 0 for fixed models. ``conversation`` is a number of its own for each one, -1 for
    requests that stand alone. ``budgets[stream][level]`` is ns, 0 where none is due.
    """

    def __init__(self, scenario: Scenario, seed: int | None = None) -> None:
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self.models = list(scenario.models)
        self.businesses = list(scenario.tenants)
        self.budgets = [
            [round(budget * MILLISECOND) if budget else 0 for budget in stream.budgets]
            for stream in scenario.arrivals
        ]
        self.arrived = array("q")
        self.stream = array("H")
        self.business = array("H")
        self.level = array("B")
        self.factor = array("d")
        self.prompt = array("i")
        self.output = array("i")
        self.conversation = array("i")
        self.conversations = 0
        for index, stream in enumerate(scenario.arrivals):
            self._draw_stream(index, stream)
        # Each stream is in order already, which sorting makes use of.
        order = sorted(range(len(self.arrived)), key=self.arrived.__getitem__)
        for name in COLUMNS:
            column: array[int] = getattr(self, name)
            setattr(self, name, array(column.typecode, map(column.__getitem__, order)))
        models = [self.models.index(stream.model) for stream in scenario.arrivals]
        self.model = array("H", map(models.__getitem__, self.stream))
        lanes = [scenario.policy.lane_of(level) for level in range(10)]
        self.lane = array("B", map(lanes.__getitem__, self.level))

    def __len__(self) -> int:
        return len(self.arrived)

    def budget(self, index: int) -> int:
        """The time (ns) from arrival in which the request is due; 0: none."""
        return self.budgets[self.stream[index]][self.level[index]]

    def blocks(self, index: int, count: int) -> tuple[int, ...]:
        """Names of the whole blocks that the first ``count`` tokens of the request's prompt and
        answer have (see ``Ticket.blocks``): those of the system prompt are its stream's, the
        others its conversation's. None of a request that stands alone, which is like no other."""
        conversation = self.conversation[index]
        if conversation < 0:
            return ()
        stream = self.stream[index]
        talk = self.scenario.arrivals[stream].conversations
        assert talk is not None
        whole = count // PREFIX_BLOCK
        common = min(whole, talk.system_tokens // PREFIX_BLOCK)
        ours = stream << PLACE_BITS
        own = len(self.scenario.arrivals) + conversation << PLACE_BITS
        return (*range(ours, ours + common), *range(own + common, own + whole))

    def _draw_stream(self, index: int, stream: Arrivals) -> None:
        if stream.conversations is not None:
            self._converse(index, stream, stream.conversations)
        rng = _random(f"{self.seed}/{index}")
        until = self.scenario.duration_s
        self._draw(stream, rng, arrival_times(stream.rate, until, _gaps(stream.cv, rng)))
        for number, burst in enumerate(stream.bursts):
            if burst.at_s <= until:
                rng = _random(f"{self.seed}/{index}/{number}")
                self._draw(stream, rng, iter([burst.at_s] * burst.count))
        self.stream.extend([index] * (len(self.arrived) - len(self.stream)))

    def _draw(self, stream: Arrivals, rng: Random, times: Iterator[float]) -> None:
        place = _places(stream, rng)
        who, level = self._parties(stream, rng)
        factor = lognormal(1.0, self.scenario.models[stream.model].cv, rng)
        prompt, output = tokens(stream.prompt, rng), tokens(stream.output, rng)
        for at in times:
            self.arrived.append(round(at * SECOND))
            party = place()
            self.business.append(who[party])
            self.level.append(level(party))
            self.factor.append(factor())
            self.prompt.append(prompt())
            self.output.append(min(output(), stream.max_tokens))
            self.conversation.append(-1)

    def _converse(self, index: int, stream: Arrivals, talk: Conversations) -> None:
        for number in range(talk.count):
            rng = _random(f"{self.seed}/{index}/conversation {number}")
            party = _places(stream, rng)()
            who, level = self._parties(stream, rng)
            for at, prompt, output in turns(stream, talk, rng, self.scenario.duration_s):
                self.arrived.append(round(at * SECOND))
                self.business.append(who[party])
                self.level.append(level(party))
                self.factor.append(1.0)
                self.prompt.append(prompt)
                self.output.append(output)
                self.conversation.append(self.conversations)
            self.conversations += 1

    def _parties(self, stream: Arrivals, rng: Random) -> tuple[list[int], Callable[[int], int]]:
        """The businesses of a stream, and draws of the level of a request of one of them."""
        who = [self.businesses.index(name) for name, _ in stream.shares]
        if stream.levels is None:
            return who, [self._classified(stream, name) for name, _ in stream.shares].__getitem__
        least, most = stream.levels
        draw, width = rng.random, most - least + 1
        return who, lambda _: least + int(width * draw())

    def _classified(self, stream: Arrivals, name: str) -> int:
        """The level that the production classifier gives the stream's requests."""
        facts = self.scenario.tenants[name].facts
        profile = replace(
            facts,
            realtime=stream.realtime or facts.realtime,
            offline=stream.offline or facts.offline,
        )
        model = self.scenario.models[stream.model].facts
        return classify(profile, model, self.scenario.policy, ceiling=facts.ceiling).level


def _random(seed: str) -> Random:
    return Random(seed)  # noqa: S311 - it has to repeat, not to be secret


def _places(stream: Arrivals, rng: Random) -> Callable[[], int]:
    """Draws of one of a stream's businesses by their shares."""
    edges = list(accumulate(share for _, share in stream.shares))[:-1]
    draw = rng.random

    def place() -> int:
        mark = draw()
        return sum(mark >= edge for edge in edges)

    return place if edges else int


def _gaps(cv: float | None, rng: Random) -> Iterator[float]:
    """Gaps between arrivals with mean 1: exponential, or gamma with the given ``cv``."""
    draw = rng.random
    while cv is None:
        yield -log(1.0 - draw())
    shape = 1 / (cv * cv)
    while True:
        yield rng.gammavariate(shape, 1 / shape)
