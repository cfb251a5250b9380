"""An engine's own figures: read out of its metrics page, and averaged over a window."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from .engines import Names

# A DCGM exporter's gauges: percent, and MiB of the card's memory.
GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"
MEMORY_USED, MEMORY_FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
DCGM = (GPU_UTIL, MEMORY_USED, MEMORY_FREE)


@dataclass(frozen=True, slots=True)
class Reading:
    """Figures of one moment or means of several; None is unknown. ``gpu`` and ``memory`` are
    ratios 0-1, ``running`` and ``queue`` numbers of requests inside the engine."""

    gpu: float | None = None
    memory: float | None = None
    running: float | None = None
    queue: float | None = None


def read(text: str, names: Names) -> Reading:
    """The figures in a page of Prometheus text. Raises ValueError for a page that is none.

    Of an engine's own figures and the card's memory the engine's counts: most of a card is
    taken at the start, and what of it is in use only the engine knows.
    """
    found = _samples(text, (*names.running, *names.queue, *names.memory, *names.gpu, *DCGM))
    gpu, memory = _first(found, names.gpu, _mean), _first(found, names.memory, _mean)
    if gpu is None and GPU_UTIL in found:
        gpu = _mean(found[GPU_UTIL]) / 100
    if memory is None and MEMORY_USED in found and MEMORY_FREE in found:
        used, free = sum(found[MEMORY_USED]), sum(found[MEMORY_FREE])
        memory = used / (used + free) if used + free > 0 else None
    return Reading(
        gpu=_ratio(gpu),
        memory=_ratio(memory),
        running=_first(found, names.running, sum),
        queue=_first(found, names.queue, sum),
    )


def _samples(text: str, wanted: tuple[str, ...]) -> dict[str, list[float]]:
    """Finite values by name, of all label sets: an engine may show one for each model or rank."""
    # Parsing is slow, and of a page's lines only a few are wanted.
    lines = [line for line in text.splitlines() if line.startswith(wanted)]
    found: dict[str, list[float]] = {}
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            if sample.name in wanted and math.isfinite(sample.value):
                found.setdefault(sample.name, []).append(sample.value)
    return found


def _first(
    found: dict[str, list[float]],
    names: tuple[str, ...],
    total: Callable[[list[float]], float],
) -> float | None:
    return next((total(found[name]) for name in names if name in found), None)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _ratio(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)


def merged(first: Reading, second: Reading) -> Reading:
    """What the first says, and of what it does not know what the second says."""
    return Reading(
        gpu=second.gpu if first.gpu is None else first.gpu,
        memory=second.memory if first.memory is None else first.memory,
        running=second.running if first.running is None else first.running,
        queue=second.queue if first.queue is None else first.queue,
    )


@dataclass(slots=True)
class Window:
    """Readings of the last seconds of one replica; times are the caller's, in seconds."""

    _held: deque[tuple[float, Reading]] = field(default_factory=deque)

    def add(self, reading: Reading, now: float) -> None:
        """One more."""
        self._held.append((now, reading))

    def mean(self, now: float, seconds: float) -> Reading:
        """The means of what is no older than ``seconds``; without any, all is unknown. What is
        old is not idle: nobody knows."""
        while self._held and self._held[0][0] < now - seconds:
            self._held.popleft()
        return Reading(*(_known_mean(values) for values in self._columns()))

    def _columns(self) -> Iterator[list[float | None]]:
        readings = [reading for _, reading in self._held]
        yield [reading.gpu for reading in readings]
        yield [reading.memory for reading in readings]
        yield [reading.running for reading in readings]
        yield [reading.queue for reading in readings]


def _known_mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None
