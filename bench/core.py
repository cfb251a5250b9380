"""Section ``core``: how many events a second the scheduling core decides, and how it grows.

Through ``step``, with the decision log's recorder beside it as the actor has it. Every slot is
taken, a queue of a given length waits, and each arrival comes with one end, so that the length
stays. Time moves on by 25 us an event: as fast as 40,000 events a second would come.
"""

import gc
import os
import random
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, cast

from console.config.memory import settle
from metering.core.facts import BusinessFacts
from scheduler.core import events
from scheduler.core.decisions import Dispatch
from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import Ticket
from scheduler.decision_log import Recorder, Why
from scheduler.decision_log.writer import DecisionWriter

from .core_scale import measure_scale
from .core_stage import EVENT_NS, START, roomy
from .machine import BenchError, Cores
from .report import Json, Part, rounded, table
from .speed import machine_speed

BUSINESSES, REPLICAS, SLOTS = 20, 14, 8
PAIRS = 20_000
LENGTHS = (100, 1_000, 10_000, 100_000)
USUAL = 1_000
LEAST_EVENTS_S, MOST_FLAT, MOST_TICKET_BYTES = 40_000, 1.5, 2_048
if TYPE_CHECKING:
    from scheduler.calls import Call

LANES = ((0, 2), (3, 6), (7, 9))


@dataclass(slots=True)
class Asked:
    """As much of a call as the recorder looks at."""

    ticket: Ticket
    attempt: int = 1
    why: Why | None = None
    moved: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """Events per second by queue length."""

    events_per_s: dict[int, float]

    @property
    def flat_ratio(self) -> float:
        """How much longer an event takes with 100,000 waiting than with 100."""
        return self.events_per_s[LENGTHS[0]] / self.events_per_s[LENGTHS[-1]]


class World:
    """A full fleet and a queue before it. The same seed makes the same events."""

    def __init__(self, waiting: int, *, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._now = START
        self._count = 0
        self._running: list[tuple[str, int]] = []
        self._asked: dict[str, Asked] = {}
        # Not started: its thread is another core's matter, and room there is for all rows.
        self.log = DecisionWriter(most_held=sys.maxsize)
        self._recorder = Recorder(self.log, lambda replica, outcome: None)
        self.state = State()
        for event in self._facts():
            self._tell(event)
        for ticket in self.tickets(REPLICAS * SLOTS + waiting):
            self._tell(events.Arrived(ticket))
        self.check(waiting)

    def tickets(self, count: int) -> Iterator[Ticket]:
        """Tickets of all businesses, 30 : 40 : 30 by lane."""
        for _ in range(count):
            lane = self._random.choices((0, 1, 2), (3, 4, 3))[0]
            self._count += 1
            yield Ticket(
                id=f"01987a3c-5f00-7000-8000-{self._count:012x}",
                business=f"business-{self._random.randrange(BUSINESSES)}",
                model="chat",
                lane=lane,
                level=self._random.randint(*LANES[lane]),
                arrived=self._now,
                prompt=300,
                output=300,
            )

    def run(self, pairs: int) -> float:
        """Arrivals and ends in turn; returns events per second of CPU time."""
        arrivals = [events.Arrived(replace(ticket, arrived=0)) for ticket in self.tickets(pairs)]
        ends = [self._random.random() for _ in range(pairs)]
        started = time.process_time()
        for arrival, end in zip(arrivals, ends, strict=True):
            # A ticket's arrival is the clock's reading at that moment.
            object.__setattr__(arrival.ticket, "arrived", self._now)
            self._tell(arrival)
            running = self._running
            at = int(end * len(running))
            running[at], running[-1] = running[-1], running[at]
            name, attempt = running.pop()
            self._recorder.closed(cast("Call", self._asked.pop(name)), self._now)
            self._tell(events.Finished(name, attempt))
        return 2 * pairs / (time.process_time() - started)

    def check(self, waiting: int) -> None:
        """The state must be the one we mean to measure. Raises BenchError."""
        queued = len(self.state.requests) - len(self._running)
        if len(self._running) != REPLICAS * SLOTS or queued != waiting:
            raise BenchError(f"core: {len(self._running)} running and {queued} queued")

    def _tell(self, event: events.Event) -> None:
        self._now += EVENT_NS
        if isinstance(event, events.Arrived):
            self._asked[event.ticket.id] = Asked(event.ticket)
        for decision in step(self.state, event, self._now):
            if isinstance(decision, Dispatch):
                call = cast("Call", self._asked[decision.request])
                self._recorder.dispatched(call, decision, self._now)
                self._running.append((decision.request, decision.attempt))

    def _facts(self) -> Iterator[events.Event]:
        # Else what waits for long would turn P2 away, and the length would not stay.
        yield events.PolicyChanged(roomy(Policy(), 2 * max(LENGTHS)))
        for number in range(BUSINESSES):
            name = f"business-{number}"
            yield events.QuotaChanged(name, BusinessFacts(name, ceiling=0))
        pool = PoolFacts("gpu", False, frozenset({0, 1, 2}))
        for number in range(REPLICAS):
            facts = ReplicaFacts(
                f"card-{number}", "http://127.0.0.1:1", "vllm", "gpu", SLOTS, models={"chat": "m"}
            )
            yield events.ReplicaChanged(facts, pool, ready=True, generation=1)


def ticket_bytes(waiting: int = LENGTHS[-1]) -> float:
    """Bytes that one more waiting request takes, its ticket and texts included."""
    gc.collect()
    tracemalloc.start()
    try:
        before = World(0)
        empty = tracemalloc.get_traced_memory()[0]
        full = World(waiting)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - 2 * empty
    finally:
        tracemalloc.stop()
    del before, full
    return taken / waiting


def measure(rounds: int, cores: Cores) -> Part:
    """Run the section, print its table and return its part of bench.json."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cores.gateway})
    try:
        found, speeds = [], []
        for number in range(rounds):
            speeds.append(machine_speed())
            found.append(_round(number, rounds))
        sys.stderr.write("\r" + " " * 50 + "\r")
        size = ticket_bytes()
        rate = median(each.events_per_s[USUAL] for each in found)
        flat = median(each.flat_ratio for each in found)
        speed = median(speeds)
        _show(found, rate, flat, size, speed)
        steps = measure_scale(rounds, speed)
    finally:
        os.sched_setaffinity(0, allowed)
    return {
        "core": rounded(
            {
                "events_per_s": rate,
                "events_per_s_at_reference": rate / speed,
                "machine_speed": speed,
                "flat_ratio_100k": flat,
                "rounds": [
                    {str(length): value for length, value in each.events_per_s.items()}
                    for each in found
                ],
            }
        ),
        "core_steps": rounded(steps, places=5),
        "memory": rounded({"queued_ticket_bytes": size}),
    }


def _round(number: int, rounds: int) -> Round:
    speeds = {}
    for length in LENGTHS:
        sys.stderr.write(f"\rbench: core round {number + 1} of {rounds}, {length} queued ")
        world = World(length)
        world.run(PAIRS // 10)
        # As a process that serves has it.
        settle()
        speeds[length] = world.run(PAIRS)
        world.check(length)
        gc.unfreeze()
    return Round(speeds)


def _show(found: list[Round], rate: float, flat: float, size: float, speed: float) -> None:
    print(
        f"\nScheduling core: {BUSINESSES} businesses, {REPLICAS} replicas of {SLOTS} slots,"
        f" arrivals : ends = 1 : 1, medians of {len(found)} rounds"
    )
    rows: list[list[Json]] = []
    for length in LENGTHS:
        each_s = median(each.events_per_s[length] for each in found)
        rows.append([f"{length:,}", each_s, 1e6 / each_s])
    print(table(["queued", "events/s", "us/event"], rows))
    print(
        f"{rate:,.0f} events/s with {USUAL:,} queued (wanted: {LEAST_EVENTS_S:,} or more), on a"
        f" machine of {speed:.2f} times the reference's speed, so {rate / speed:,.0f} there;"
        f" {flat:.2f} times slower with 100,000 than with 100 (wanted: {MOST_FLAT} or less),"
        f" {size:,.0f} bytes a queued ticket (wanted: {MOST_TICKET_BYTES:,} or less)"
    )
