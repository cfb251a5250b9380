"""The most that a cluster could complete per second, whoever schedules: a linear programme.

Each kind of card splits its slot time (and prefill) among the models it holds, an idle one
among all that it could; the mix of
models is that of the scenario's busiest minute. Maximise the total rate.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .rates import peak_minute, planned
from .scenario import Arrivals, Hardware, ReplicaSpec, Scenario

TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Solution:
    """The largest value, the point that has it, and the price of each bound: by how much
    the value rises with one more unit of it."""

    value: float
    point: tuple[float, ...]
    prices: tuple[float, ...]


def maximise(
    gains: Sequence[float], rows: Sequence[Sequence[float]], bounds: Sequence[float]
) -> Solution:
    """Maximise gains·x over x >= 0 where rows·x <= bounds, all bounds being at least 0.

    The simplex method with Bland's rule, which never cycles. Raises ValueError when the
    value has no limit.
    """
    size, count = len(gains), len(rows)
    table = [
        [*map(float, row), *(float(place == index) for place in range(count)), float(bound)]
        for index, (row, bound) in enumerate(zip(rows, bounds, strict=True))
    ]
    goal = [*(-float(gain) for gain in gains), *([0.0] * count), 0.0]
    basis = list(range(size, size + count))
    while True:
        enter = next((place for place, cost in enumerate(goal[:-1]) if cost < -TINY), -1)
        if enter < 0:
            break
        ratios = [
            (line[-1] / line[enter], basis[index], index)
            for index, line in enumerate(table)
            if line[enter] > TINY
        ]
        if not ratios:
            raise ValueError("the linear programme has no limit")
        leave = min(ratios)[2]
        basis[leave] = enter
        pivot = table[leave][enter]
        table[leave] = [value / pivot for value in table[leave]]
        for line in (*table, goal):
            if line is not table[leave] and line[enter]:
                factor = line[enter]
                for place, value in enumerate(table[leave]):
                    line[place] -= factor * value
    point = [0.0] * size
    for index, place in enumerate(basis):
        if place < size:
            point[place] = table[index][-1]
    return Solution(goal[-1], tuple(point), tuple(goal[size:-1]))


def slot_ms(hardware: Hardware, stream: Arrivals) -> float:
    """Mean slot time (ms) of a request of the stream on a full card; a lower bound for
    generative work, whose prefill is shared."""
    if stream.prompt is None or stream.output is None or stream.model in hardware.service_ms:
        return hardware.service_ms[stream.model]
    step = hardware.step_base_ms + hardware.step_per_running_ms * hardware.slots
    return stream.output.mean * step + stream.prompt.mean / hardware.prefill_tokens_per_s * 1e3


def could_serve(scenario: Scenario) -> list[ReplicaSpec]:
    """All cards, the idle ones with every model that they could be started for."""
    cards, fixed = scenario.cards(), len(scenario.replicas)
    models = scenario.models.values()
    spare = (replace(spec, models=tuple(spec.hardware.able(models))) for spec in cards[fixed:])
    return [*cards[:fixed], *spare]


def least_slot_ms(scenario: Scenario, stream: Arrivals) -> float:
    """The same on the card that serves it fastest; 0: none does."""
    times = (
        slot_ms(spec.hardware, stream)
        for spec in could_serve(scenario)
        if stream.model in spec.models
    )
    return min(times, default=0.0)


def busiest_minute(scenario: Scenario, begin: float, end: float) -> tuple[float, float]:
    """The minute between two moments (s) in which most work, not most requests, is offered."""
    streams = [(stream, least_slot_ms(scenario, stream)) for stream in scenario.arrivals]
    return peak_minute(streams, begin, end)


def throughput_bound(scenario: Scenario) -> float:
    """Requests per second that the whole cluster can complete at most, for the mix of its
    busiest minute; requests that no card could serve are no part of the mix."""
    begin, end = busiest_minute(scenario, 0.0, scenario.duration_s)
    kinds = Counter((spec.hardware.name, spec.models) for spec in could_serve(scenario))
    served = {model for _, models in kinds for model in models}
    mix = [
        planned(stream, begin, end) if stream.model in served else 0.0
        for stream in scenario.arrivals
    ]
    total = sum(mix)
    hardware = {spec.hardware.name: spec.hardware for spec in scenario.replicas}
    places = [
        (stream, kind)
        for stream, share in enumerate(mix)
        if share
        for kind in kinds
        if scenario.arrivals[stream].model in kind[1]
    ]
    if not total:
        return 0.0
    rows: list[list[float]] = []
    bounds: list[float] = []
    for index, share in enumerate(mix):
        if share:
            rows.append([share / total, *(-float(stream == index) for stream, _ in places)])
            bounds.append(0.0)
    for kind, cards in kinds.items():
        card = hardware[kind[0]]
        used = [(scenario.arrivals[stream], place == kind) for stream, place in places]
        rows.append([0.0, *(slot_ms(card, s) / 1e3 if here else 0.0 for s, here in used)])
        bounds.append(float(card.slots * cards))
        if card.prefill_tokens_per_s:
            rows.append([0.0, *(s.prompt.mean if here and s.prompt else 0.0 for s, here in used)])
            bounds.append(card.prefill_tokens_per_s * cards)
    return maximise([1.0, *([0.0] * len(places))], rows, bounds).value
