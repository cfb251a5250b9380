"""The ring of buckets against a plain list of everything that ever came in."""

import random
from dataclasses import dataclass

import pytest

from console.live.history import (
    COMPLETION,
    FINISHED,
    PROMPT,
    REFUSED,
    SPAN_MS,
    STEP_MS,
    History,
)
from scheduler.live import LaneLive

from .frames import LANES, NOON


@dataclass
class Seen:
    at: int
    lanes: dict[str, LaneLive]
    refusals: dict[str, int]
    prompt: int


def random_entry(rng: random.Random, at: int) -> Seen:
    lanes = {
        name: LaneLive(
            queued=rng.randrange(50),
            wait_p95_ms=float(rng.randrange(3_000)),
            finished=rng.randrange(30),
            refused=rng.randrange(4),
        )
        for name in LANES
        if rng.random() < 0.9
    }
    return Seen(at, lanes, {rng.choice("abc"): rng.randrange(3)}, rng.randrange(900))


def expected_points(seen: list[Seen], now: int) -> list[list[float]]:
    edge = now - now % STEP_MS - SPAN_MS + STEP_MS
    buckets: dict[int, list[Seen]] = {}
    for each in seen:
        if each.at >= edge:
            buckets.setdefault(each.at - each.at % STEP_MS, []).append(each)
    rows = []
    for stamp, group in sorted(buckets.items()):
        row: list[float] = [stamp]
        for field in ("queued", "wait_p95_ms"):
            row += [
                max(
                    (getattr(each.lanes[name], field) for each in group if name in each.lanes),
                    default=0,
                )
                for name in LANES
            ]
        for field in ("finished", "refused"):
            row += [
                round(
                    sum(getattr(each.lanes[name], field) for each in group if name in each.lanes)
                    / len(group),
                    2,
                )
                for name in LANES
            ]
        rows.append(row)
    return rows


@pytest.mark.parametrize("seed", range(12))
def test_the_ring_agrees_with_a_full_record(seed: int) -> None:
    rng = random.Random(seed)
    history, seen, at = History(), [], NOON + rng.randrange(STEP_MS)
    for _ in range(600):
        # Mostly a second apart; now and then a pause, also one longer than the span.
        at += rng.choice((1_000,) * 30 + (7_000, 60_000, SPAN_MS - STEP_MS, 2 * SPAN_MS))
        entry = random_entry(rng, at)
        seen.append(entry)
        history.add(at, entry.lanes, entry.refusals, prompt=entry.prompt)
        if rng.random() < 0.1:
            # Time only goes on: what comes later is never before what was read.
            at = now = at + rng.choice((0, 0, 3_000, 40_000, SPAN_MS))
            edge = now - now % STEP_MS - SPAN_MS + STEP_MS
            inside = [each for each in seen if each.at >= edge]
            assert history.points(now) == expected_points(seen, now)
            assert history.total(PROMPT, now) == sum(each.prompt for each in inside)
            for index, name in enumerate(LANES):
                for column, field in ((FINISHED, "finished"), (REFUSED, "refused")):
                    whole = sum(getattr(e.lanes[name], field) for e in inside if name in e.lanes)
                    assert history.total(column + index, now) == whole
            reasons = {r: sum(e.refusals.get(r, 0) for e in inside) for r in "abc"}
            assert history.reasons(now) == {r: n for r, n in reasons.items() if n}


def test_points_since_a_moment_begin_with_its_bucket() -> None:
    history = History()
    for second in range(60):
        history.add(NOON + 1_000 * second, {"P0": LaneLive(finished=1)}, {})
    now = NOON + 59_000
    rows = history.points(now, since=NOON + 52_000)
    assert [row[0] for row in rows] == [NOON + 50_000, NOON + 55_000]
    assert rows == history.points(now)[-2:]


def test_the_rate_is_over_the_last_seconds() -> None:
    history = History()
    for second in range(100):
        history.add(NOON + 1_000 * second, {"P0": LaneLive(finished=1 if second < 80 else 5)}, {})
    assert history.rate(FINISHED, NOON + 99_000) == 5.0
    assert history.rate(COMPLETION, NOON + 99_000) == 0.0
    assert history.rate(FINISHED, NOON + 300_000) == 0.0


@pytest.mark.parametrize("jump", [-10_000, -SPAN_MS // 2, -10 * SPAN_MS, 10 * SPAN_MS])
def test_a_clock_that_jumps_leaves_no_wrong_sums(jump: int) -> None:
    history = History()
    for second in range(100):
        history.add(NOON + 1_000 * second, {"P0": LaneLive(finished=1)}, {"x": 1})
    start = NOON + 100_000 + jump
    for second in range(3_000):
        history.add(start + 1_000 * second, {"P0": LaneLive(finished=1)}, {"x": 1})
    now = start + 2_999_000
    whole = SPAN_MS // 1_000 - (STEP_MS - 1_000 - now % STEP_MS) // 1_000
    assert history.total(FINISHED, now) == whole
    assert sum(history.reasons(now).values()) == whole
