"""GPU time: the shares of requests are the busy time, split evenly at each moment."""

import random
from datetime import UTC, datetime
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db.models import Sum

from metering.core.gpu import HOUR, MICRO, NS, GpuMeter
from metering.models import GpuHour
from metering.services.gpu_hours import keep_gpu_hours
from scheduler.calls import Call
from scheduler.core.events import Fault
from scheduler.gpu_time import GpuTime
from scheduler.testing import ManualClock, MemoryBooks
from tests.gateway.world import World

REQUESTS = 10_000
THROUGH = 3_000


def busy_of(meters: list[GpuMeter]) -> float:
    hours = [hour for meter in meters for hour in meter.hours.values()]
    return sum(hour.busy for hour in hours) / (MICRO * NS)


def test_two_share_what_one_had_alone() -> None:
    meter = GpuMeter(2.0, at=5 * NS)
    first = meter.join(5 * NS)
    second = meter.join(6 * NS)
    assert meter.leave(first, 8 * NS) == 2.0 + 2.0
    assert meter.leave(second, 9 * NS) == 2.0 + 2.0
    meter.advance(20 * NS)
    hour = meter.hours[0]
    assert (hour.busy, hour.wall) == (8 * NS * MICRO, 30 * NS * MICRO)


def test_shares_of_ten_thousand_add_up_to_the_busy_time() -> None:
    """To 1e-6, wanted; in whole numbers it is far closer, after months as at the start."""
    draw = random.Random(7)
    meters = [GpuMeter(gpus, at=1_700_000_000 * NS) for gpus in (1.0, 0.25, 8.0, 1 / 3)]
    now, shares, open_marks = 1_700_000_000 * NS, 0.0, list[tuple[GpuMeter, int]]()
    started = 0
    while started < REQUESTS or open_marks:
        now += draw.choice([0, 1, draw.randrange(10**6), draw.randrange(2 * 10**12)])
        if started < REQUESTS and (not open_marks or draw.random() < 0.5):
            meter = draw.choice(meters)
            open_marks.append((meter, meter.join(now)))
            started += 1
        else:
            meter, mark = open_marks.pop(draw.randrange(len(open_marks)))
            share = meter.leave(mark, now)
            assert share >= 0
            shares += share
    assert now > 1_700_000_000 * NS + 30 * 24 * HOUR
    assert shares == pytest.approx(busy_of(meters), rel=1e-12)


async def test_the_scheduler_s_requests_add_up_too() -> None:
    """Three thousand requests through the scheduler, with failures, pauses, hang-ups, and replicas
    that are replaced and leave: what the usage rows get is what the replicas were busy for."""
    draw = random.Random(11)
    world = World()
    sink = MemoryBooks()
    world.scheduler.gpu_time = gpu_time = GpuTime(world.clock, sink)
    generations = dict.fromkeys("abc", 1)
    for name in generations:
        world.replica(name, 4)
    every = list[Call]()
    while len(every) < THROUGH or world.calls:
        world.clock.time += draw.randrange(3 * 10**9)
        running = world.running()
        what = draw.random()
        if len(every) < THROUGH and len(world.calls) < 30 and what < 0.5:
            every.append(world.open(draw.randrange(3)))
        elif what < 0.52:
            name = draw.choice("abc")
            generations[name] += draw.randrange(2)
            world.replica(name, 4, generation=generations[name])
        elif running and what < 0.6:
            call = draw.choice(running)
            if what < 0.56:
                world.scheduler.failed(call, Fault.BUSY)
            else:
                world.scheduler.yielded(call, 3)
        elif world.calls:
            world.close(draw.choice(running or world.calls))
        world.refused()
    gpu_time._gather(world.clock.now())
    hours = gpu_time._hours.values()
    busy = sum(hour.busy for hour in hours) / (MICRO * NS)
    shares = sum(call.gpu_seconds for call in every)
    assert busy > 1000
    assert shares == pytest.approx(busy, rel=1e-9)
    assert all(0 <= hour.busy <= hour.wall for hour in hours)


def hours_of(books: MemoryBooks) -> dict[tuple[str, int], tuple[int, int]]:
    """GPU-ns known and busy, of all writers together, by replica and hour."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for row in books.hours.values():
        wall, busy = found.get((row.replica, row.hour), (0, 0))
        found[row.replica, row.hour] = wall + row.wall, busy + row.busy
    return found


async def test_hours_are_written_in_full_and_again_until_they_stand() -> None:
    clock, sink = ManualClock(1_000_000 * HOUR + HOUR // 2), MemoryBooks()
    gpu_time = GpuTime(clock, sink)
    gpu_time.known("card", 1, 2.0)
    clock.time += HOUR // 4
    seat = gpu_time.sit("card", 1, 2.0, clock.now())
    await gpu_time.flush()
    first = 1_000_000 * 3600
    assert hours_of(sink) == {("card", first): (HOUR // 2, 0)}
    sink.away = True
    clock.time += HOUR
    await gpu_time.flush()
    sink.away = False
    # Replaced while a request still runs there: both count, as two servers would.
    gpu_time.known("card", 2, 2.0)
    clock.time += HOUR // 4
    assert gpu_time.rise(seat) == 1.25 * 3600 * 2
    gpu_time.gone("card")
    clock.time += HOUR
    await gpu_time.flush()
    assert hours_of(sink)["card", first] == (HOUR, HOUR // 2)
    assert hours_of(sink)["card", first + 3600] == (2 * HOUR + HOUR // 2, 2 * HOUR)
    assert not gpu_time._meters
    clock.time += 2 * HOUR
    await gpu_time.flush()
    assert not gpu_time._hours


@pytest.mark.django_db
def test_the_books_keep_the_last_word_of_each_process() -> None:
    one, other = uuid4(), uuid4()
    keep_gpu_hours([(one, "card", 3600, 2 * NS, 1), (one, "card", 7200, 5, 5)])
    keep_gpu_hours([(other, "card", 3600, NS, 0)])
    keep_gpu_hours([(one, "card", 3600, 3 * NS, NS)])
    found = GpuHour.objects.filter(hour=datetime(1970, 1, 1, 1, tzinfo=UTC)).aggregate(
        wall=Sum("wall_seconds"), busy=Sum("busy_seconds")
    )
    assert found == {"wall": Decimal(4), "busy": Decimal(1)}
    later = GpuHour.objects.get(hour=datetime(1970, 1, 1, 2, tzinfo=UTC))
    assert later.busy_seconds == Decimal("0.000000005")


@pytest.mark.parametrize("seed", range(8))
async def test_a_wall_clock_that_is_set_invents_and_loses_no_gpu_time(seed: int) -> None:
    """Set ahead and back by an hour or a day, between writings or long after: all that was
    written adds up to the time that has passed, and to the shares of what ran in it."""
    draw, clock, sink = random.Random(seed), ManualClock(), MemoryBooks()
    gpu_time = GpuTime(clock, sink)
    gpu_time.known("card", 1, 2.0)
    shares, passed = 0.0, 0
    for _ in range(60):
        seat = gpu_time.sit("card", 1, 2.0, clock.now())
        for _ in range(draw.randrange(1, 4)):
            clock.time += (step := draw.randrange(40 * 60) * NS)
            passed += step
            if draw.random() < 0.4:
                clock.jump(draw.choice((3600, -3600, 86_400, -86_400)))
            if draw.random() < 0.7:
                await gpu_time.flush()
        shares += gpu_time.rise(seat)
    gpu_time.gone("card")
    await gpu_time.flush()
    known = sum(wall for wall, _ in hours_of(sink).values())
    busy = sum(busy for _, busy in hours_of(sink).values())
    assert known == busy == 2 * passed
    assert shares == pytest.approx(busy / NS, rel=1e-9)


async def test_hours_are_those_of_the_wall_clock() -> None:
    clock, sink = ManualClock(1_000_000 * HOUR), MemoryBooks()
    gpu_time = GpuTime(clock, sink)
    gpu_time.known("card", 1, 1.0)
    first = 1_000_000 * 3600
    clock.jump(5 * 3600)
    await gpu_time.flush()
    clock.time += HOUR + HOUR // 2
    await gpu_time.flush()
    assert hours_of(sink) == {
        ("card", first + 5 * 3600): (HOUR, 0),
        ("card", first + 6 * 3600): (HOUR // 2, 0),
    }
