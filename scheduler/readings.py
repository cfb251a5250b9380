"""An engine's own figures: read out of its metrics page, and averaged over a window."""

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from .engines import Names

# A DCGM exporter's gauges: percent, and MiB of the card's memory.
GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"
MEMORY_USED, MEMORY_FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
DCGM = (GPU_UTIL, MEMORY_USED, MEMORY_FREE)
# A number in a label; "None" stands there until the engine has found out.
NUMBER = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Reading:
    """Figures of one moment or means of several; None is unknown. ``gpu`` and ``memory`` are
    ratios 0-1, ``running`` and ``queue`` numbers of requests inside the engine, ``cache_tokens``
    what its KV memory can hold."""

    gpu: float | None = None
    memory: float | None = None
    running: float | None = None
    queue: float | None = None
    cache_tokens: float | None = None


Sample = tuple[Mapping[str, str], float]


def read(text: str, names: Names) -> Reading:
    """The figures in a page of Prometheus text. Raises ValueError for a page that is none.

    Of an engine's own figures and the card's memory the engine's counts: most of a card is
    taken at the start, and what of it is in use only the engine knows.
    """
    of_card = (*names.gpu, *names.memory, *names.cache_tokens, *names.cache_labels)
    samples = _samples(text, (*names.running, *names.queue, *of_card, *DCGM))
    found = {name: [value for _, value in each] for name, each in samples.items()}
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
        cache_tokens=_cache_tokens(samples, names),
    )


def _samples(text: str, wanted: tuple[str, ...]) -> dict[str, list[Sample]]:
    """Finite values by name, of all label sets: an engine may show one for each model or rank."""
    # Parsing is slow, and of a page's lines only a few are wanted.
    lines = [line for line in text.splitlines() if line.startswith(wanted)]
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            if sample.name in wanted and math.isfinite(sample.value):
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def _cache_tokens(found: dict[str, list[Sample]], names: Names) -> float | None:
    """What all ranks together can hold, each of which has its own requests; workers that share
    a rank's requests show the same figure."""
    ranks: dict[str, float] = {}
    for labels, tokens in _capacities(found, names):
        if tokens > 0:
            rank = labels.get("engine") or labels.get("dp_rank") or ""
            ranks[rank] = max(tokens, ranks.get(rank, 0.0))
    return sum(ranks.values()) if ranks else None


def _capacities(found: dict[str, list[Sample]], names: Names) -> Iterable[Sample]:
    for name in names.cache_tokens:
        yield from found.get(name, ())
    for name in names.cache_labels:
        for labels, _ in found.get(name, ()):
            whole = labels.get("kv_cache_size_tokens", "")
            blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
            if NUMBER.fullmatch(whole):
                yield labels, float(whole)
            elif NUMBER.fullmatch(blocks) and NUMBER.fullmatch(size):
                yield labels, float(blocks) * float(size)


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
        cache_tokens=second.cache_tokens if first.cache_tokens is None else first.cache_tokens,
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
        yield [reading.cache_tokens for reading in readings]


def _known_mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(known) if known else None
