"""What single steps of the scheduling core cost where there is much of something: cards, models,
businesses, work that could be stopped. Through ``step`` alone, each situation made by events."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median

from console.config.memory import settle
from scheduler.core.ticket import Resume, Ticket

from .core_stage import MS, SECOND, Stage, Step
from .machine import BenchError
from .report import Json, table

SLOTS = 16
KV_TOKENS = 400_000
OWNERS = 20
LOOKS = 10


@dataclass(frozen=True, slots=True)
class Situation:
    """``build`` makes the stage and gives what measures a round of it: mean CPU time (ns) by
    step. ``wanted`` is the most that each may take (ms), where it has been said."""

    name: str
    build: Callable[[], Callable[[], dict[str, float]]]
    wanted: float | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much there is of everything; smaller in tests."""

    preempting_cards: int = 600
    one_model_cards: int = 1_000
    many_cards: int = 200
    many_models: int = 20
    waiting_businesses: int = 5_000
    waiting_cards: int = 200
    layout_cards: int = 1_000
    layout_models: int = 50
    reviewed_businesses: int = 5_000
    times: int = 50


def situations(sizes: Sizes) -> list[Situation]:
    """All that are measured."""
    one, many, models = sizes.one_model_cards, sizes.many_cards, sizes.many_models
    times = sizes.times
    return [
        Situation(
            f"P0 that stops work on {sizes.preempting_cards:,} full cards",
            lambda: preempting(sizes.preempting_cards, times),
            1.0,
        ),
        Situation(
            f"on {one:,} cards of one model",
            lambda: arriving(one, 1, None, times),
            0.1,
        ),
        Situation(
            f"on {one:,} cards of one model, KV bound",
            lambda: arriving(one, 1, KV_TOKENS, times),
            0.1,
        ),
        Situation(
            f"on {many:,} cards of {models} models, KV bound",
            lambda: arriving(many, models, KV_TOKENS, times),
            0.1,
        ),
        Situation(
            f"P0 of {sizes.waiting_businesses:,} businesses waits",
            lambda: waiting(sizes.waiting_businesses, sizes.waiting_cards, times),
            0.2,
        ),
        Situation(
            f"a new layout of {sizes.layout_cards:,} cards, {sizes.layout_models} models",
            lambda: laying_out(sizes.layout_cards, sizes.layout_models),
        ),
        Situation(
            f"a review of {sizes.reviewed_businesses:,} businesses",
            lambda: reviewing(sizes.reviewed_businesses),
        ),
    ]


def measure_scale(rounds: int, speed: float, sizes: Sizes | None = None) -> dict[str, Json]:
    """Measure all situations, print their table and return it as JSON. ``speed`` is the
    machine's, 1 being that of the reference."""
    found: dict[str, Json] = {}
    rows: list[list[Json]] = []
    for situation in situations(sizes or Sizes()):
        sys.stderr.write(f"\rbench: core, {situation.name:<60}")
        with settled(situation.build) as one_round:
            results = [one_round() for _ in range(rounds)]
        for step in results[0]:
            ms = median(each[step] for each in results) / MS
            name = f"{situation.name}: {step}"
            rows.append([name, f"{ms:.4f}", f"{ms * speed:.4f}", situation.wanted or "-"])
            found[name] = {"ms": ms, "ms_at_reference": ms * speed}
    sys.stderr.write("\r" + " " * 70 + "\r")
    print(f"\nSteps of the core, ms of CPU, medians of {rounds} rounds")
    print(table(["step", "here", "at reference speed", "wanted, at most"], rows))
    return found


@contextmanager
def settled(
    build: Callable[[], Callable[[], dict[str, float]]],
) -> Iterator[Callable[[], dict[str, float]]]:
    """What is built, with the garbage collector as a process that serves has it."""
    try:
        one_round = build()
        settle()
        yield one_round
    finally:
        gc.unfreeze()
        gc.collect()


def preempting(cards: int, times: int) -> Callable[[], dict[str, float]]:
    """Every slot has P2 that would run for more than a minute. A P0 comes, something is told to
    stop, stops, and the P0 has its slot."""
    stage = Stage()
    _full_slots(stage)
    stage.fleet(cards, SLOTS, kv_tokens=KV_TOKENS)
    stage.businesses(2 * OWNERS)
    # What such work takes is learned from work.
    _fill(stage, cards * SLOTS)
    stage.wait(80 * SECOND)
    stage.finish_all(stage.running, lambda: stage.random.randint(3_500, 4_500), 100 * MS)
    for _ in range(10 * OWNERS):
        stage.arrive(_urgent(stage))
    while stage.running:
        stage.wait(SECOND)
        stage.finish_all(stage.running, lambda: 50, 20 * MS)
    _fill(stage, cards * SLOTS)
    stage.wait(5 * SECOND)
    if len(stage.running) != cards * SLOTS:
        raise BenchError(f"core: {len(stage.running)} of {cards * SLOTS} slots are taken")

    def one_round() -> dict[str, float]:
        came = stopped = done = spare = 0
        while done < times:
            stage.wait(25 * MS)
            urgent = _urgent(stage)
            step = stage.arrive(urgent)
            if urgent.id in stage.running:
                # A slot that the one before has left went to nobody: this one keeps it taken.
                spare += 1
                if spare > times:
                    raise BenchError("core: the slots of full cards come free")
                continue
            victim, took = _until_stopped(stage, step)
            if victim is None:
                raise BenchError("core: nothing was stopped for P0 on full cards")
            done += 1
            came += took
            stopped += stage.stop(victim, produced=200).took
            if urgent.id not in stage.running:
                raise BenchError("core: the slot that was made for P0 went to another")
            # As long a token as everything else, or the core would learn something new.
            stage.wait(40 * MS)
            stage.finish(urgent.id, 2, 20 * MS)
        return {"its arrival": came / times, "the other has stopped": stopped / times}

    return one_round


def _fill(stage: Stage, count: int) -> None:
    """Long P2 that may be paused, of all owners in turn, so that each one's are known."""
    for number in range(count):
        owner = number % OWNERS
        stage.arrive(
            stage.ticket(2, business=owner, prompt=200, output=8_000, resume=Resume.CONTINUE)
        )


def _urgent(stage: Stage) -> Ticket:
    """Short P0 of businesses whose answers are all short."""
    owner = OWNERS + stage.random.randrange(OWNERS)
    return stage.ticket(0, business=owner, prompt=50, output=200)


def _until_stopped(stage: Stage, step: Step) -> tuple[str | None, int]:
    """The request that is told to stop, by this step or by ticks after it, if any is, and the
    time (ns) of all of these."""
    took = step.took
    for _ in range(LOOKS):
        victim = step.stopped()
        if victim is not None:
            return victim.request, took
        stage.now += 21 * MS
        step = stage.tick()
        took += step.took
    return None, took


def arriving(
    cards: int, models: int, kv_tokens: int | None, times: int
) -> Callable[[], dict[str, float]]:
    """Cards with none to many of their slots taken, requests of all kinds; they come and end."""
    stage = Stage()
    stage.fleet(cards, SLOTS, models, kv_tokens)
    stage.businesses(50)

    def come() -> int:
        lane = stage.random.choices((0, 1, 2), (3, 4, 3))[0]
        return stage.arrive(
            stage.ticket(
                lane,
                business=stage.random.randrange(50),
                model=stage.random.randrange(models),
                prompt=stage.random.randint(100, 3_000),
                output=stage.random.randint(50, 400),
            )
        ).took

    def go() -> int:
        return stage.finish(stage.any_running(), stage.random.randint(20, 400), 100 * MS).took

    for _ in range(6 * cards):
        come()
    stage.wait(SECOND)
    for _ in range(3 * cards):
        go()
    stage.wait(SECOND)

    def one_round() -> dict[str, float]:
        came = went = 0
        for _ in range(times):
            came += come()
            went += go()
        # What time brings is another matter, and is measured by itself.
        stage.wait(10 * MS)
        return {"arrival": came / times, "end": went / times}

    return one_round


def waiting(businesses: int, cards: int, times: int) -> Callable[[], dict[str, float]]:
    """P0 of every business waits. Half of the slots have P2 that could be stopped, had it not been
    stopped before as often as it may be; P1 has the others, comes and ends."""
    stage = Stage()
    _full_slots(stage)
    rules = stage.policy
    rules = replace(rules, preemption=replace(rules.preemption, max_per_request=1))
    stage.rules(rules)
    stage.fleet(cards, SLOTS // 4, kv_tokens=KV_TOKENS)
    stage.businesses(max(businesses, 2 * OWNERS))
    _fill(stage, 2 * OWNERS)
    stage.wait(80 * SECOND)
    stage.finish_all(stage.running, lambda: 4_000, 100 * MS)
    for number in range(cards * SLOTS // 8):
        _fill(stage, 1)
        stage.arrive(stage.ticket(1, business=number % OWNERS, prompt=100, output=4_000))
    stage.wait(SECOND)
    _wear_out(stage)
    # Else each of these would look for somebody to stop, which is what is to be measured.
    stage.rules(replace(rules, preemption=replace(rules.preemption, enabled=False)))
    for number in range(2 * businesses):
        stage.arrive(stage.ticket(0, business=number % businesses, prompt=100, output=100))
    stage.rules(rules)
    stage.wait(25 * MS)
    if stage.waiting[0] != 2 * businesses:
        raise BenchError(f"core: {stage.waiting[0]} P0 wait")
    running = [name for name in stage.running if stage.tickets[name].lane == 1]

    def one_round() -> dict[str, float]:
        came = ended = urgent = 0
        for _ in range(times):
            business = stage.random.randrange(businesses)
            low = stage.arrive(stage.ticket(1, business=business, prompt=100, output=100))
            before = set(stage.running)
            name = running.pop(stage.random.randrange(len(running)))
            end = stage.finish(name, 100, 50 * MS)
            running.extend(set(stage.running) - before)
            high = stage.arrive(stage.ticket(0, business=business, prompt=100, output=100))
            if low.stopped() or end.stopped() or high.stopped():
                raise BenchError("core: something was stopped that may not be")
            came, ended, urgent = came + low.took, ended + end.took, urgent + high.took
        return {
            "arrival of P1": came / times,
            "end of P1, its slot to P0": ended / times,
            "arrival of P0": urgent / times,
        }

    return one_round


def _wear_out(stage: Stage) -> None:
    """Have all low work stopped as often as it may be."""
    while True:
        stage.wait(25 * MS)
        urgent = _urgent(stage)
        step = stage.arrive(urgent)
        if urgent.id in stage.running:
            continue  # a slot that went to nobody: this one keeps it taken
        victim, _ = _until_stopped(stage, step)
        if victim is None:
            stage.leave(urgent.id)
            return
        stage.stop(victim, produced=100)
        stage.wait(40 * MS)
        stage.finish(urgent.id, 2, 20 * MS)


def laying_out(cards: int, models: int) -> Callable[[], dict[str, float]]:
    """Cards of unequal speeds, measured; some seconds on, it is thought over which are for what."""
    stage = Stage()
    stage.fleet(cards, SLOTS, models, KV_TOKENS)
    stage.businesses(50)

    def traffic(count: int) -> None:
        for number in range(count):
            business, model = number % 50, number % models
            stage.arrive(stage.ticket(number % 3, business=business, model=model))
        for _ in range(20):
            stage.wait(SECOND // 10)
            running = list(stage.running)
            names = stage.random.sample(running, -(-len(running) // 5))
            stage.finish_all(names, lambda: stage.random.randint(100, 300), 100 * MS)

    for _ in range(4):
        traffic(2 * cards)

    def one_round() -> dict[str, float]:
        traffic(cards // 5)
        stage.now += 3 * SECOND
        return {"the step": float(stage.tick().took)}

    return one_round


def reviewing(businesses: int) -> Callable[[], dict[str, float]]:
    """Every business has had calls, some of them late; some seconds on, it is thought over who
    has to rise or sink."""
    stage = Stage()
    stage.fleet(20, 4 * SLOTS)
    stage.businesses(businesses)

    def traffic(calls: int) -> None:
        for number in range(calls * businesses):
            budget = SECOND if number % 2 else 10 * MS
            ticket = stage.ticket(1, business=number % businesses, budget=budget)
            stage.arrive(ticket)
            stage.now += MS // 10
            stage.finish(ticket.id, 100, 20 * MS)

    traffic(12)

    def one_round() -> dict[str, float]:
        traffic(1)
        stage.now += 3 * SECOND
        return {"the step": float(stage.tick().took)}

    return one_round


def _full_slots(stage: Stage) -> None:
    """Let P2 have every slot, by right."""
    queues = stage.policy.queues
    stage.rules(
        replace(stage.policy, queues=replace(queues, P2=replace(queues.P2, max_occupy=1.0)))
    )
