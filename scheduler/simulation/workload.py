"""Every request of a run, fixed by seed and scenario before any scheduler sees one.

Columns of plain numbers instead of objects: two million requests fit into 80 MB.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from math import exp, log, log1p, sqrt
from random import Random

from scheduler.core.classify import classify

from .rates import arrival_times
from .scenario import SECOND, Arrivals, Scenario, Size

MILLISECOND = 1_000_000
COLUMNS = ("arrived", "stream", "business", "level", "factor", "prompt", "output")


class Workload:
    """Requests by index, in order of arrival.

    ``arrived`` is ns from the start; ``model``, ``business`` and ``stream`` are indexes;
    ``factor`` multiplies a fixed model's mean service time; ``prompt`` and ``output`` are
    tokens, 0 for fixed models. ``budgets[stream][level]`` is ns, 0 where none is due.
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

    def _draw_stream(self, index: int, stream: Arrivals) -> None:
        rng = _random(f"{self.seed}/{index}")
        until = self.scenario.duration_s
        self._draw(stream, rng, arrival_times(stream.rate, until, _gaps(stream.cv, rng)))
        for number, burst in enumerate(stream.bursts):
            if burst.at_s <= until:
                rng = _random(f"{self.seed}/{index}/{number}")
                self._draw(stream, rng, iter([burst.at_s] * burst.count))
        self.stream.extend([index] * (len(self.arrived) - len(self.stream)))

    def _draw(self, stream: Arrivals, rng: Random, times: Iterator[float]) -> None:
        who = [self.businesses.index(name) for name, _ in stream.shares]
        edges = list(accumulate(share for _, share in stream.shares))[:-1]
        classified = [self._classified(stream, name) for name, _ in stream.shares]
        least, most = stream.levels or (0, 0)
        draw, width = rng.random, most - least + 1
        factor = _lognormal(1.0, self.scenario.models[stream.model].cv, rng)
        prompt, output = _tokens(stream.prompt, rng), _tokens(stream.output, rng)
        for at in times:
            self.arrived.append(round(at * SECOND))
            place = 0
            if edges:
                mark = draw()
                for edge in edges:
                    place += mark >= edge
            self.business.append(who[place])
            drawn = least + int(width * draw()) if stream.levels else classified[place]
            self.level.append(drawn)
            self.factor.append(factor())
            self.prompt.append(prompt())
            self.output.append(min(output(), stream.max_tokens))

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


def _gaps(cv: float | None, rng: Random) -> Iterator[float]:
    """Gaps between arrivals with mean 1: exponential, or gamma with the given ``cv``."""
    draw = rng.random
    while cv is None:
        yield -log(1.0 - draw())
    shape = 1 / (cv * cv)
    while True:
        yield rng.gammavariate(shape, 1 / shape)


def _lognormal(mean: float, cv: float, rng: Random) -> Callable[[], float]:
    if not cv:
        return lambda: mean
    sigma = sqrt(log1p(cv * cv))
    mu, gauss = log(mean) - sigma * sigma / 2, rng.gauss
    return lambda: exp(mu + sigma * gauss(0.0, 1.0))


def _tokens(size: Size | None, rng: Random) -> Callable[[], int]:
    if size is None:
        return int
    draw = _lognormal(size.mean, size.cv, rng)
    return lambda: max(1, round(draw()))
