"""Feedback under a load that comes and goes: nothing is moved back and forth."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from scheduler.core.decisions import Decision, Kind, Notice
from scheduler.core.events import Event
from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.core.ticket import Ticket

from .clockwork import Clockwork
from .scene import MS, SECOND, START, Scene, card


class Watched(Scene):
    """A scene that notes when each flow was moved (ns), and to what."""

    def __init__(self, *cards: tuple[ReplicaFacts, PoolFacts], policy: Policy) -> None:
        self.moves: dict[str, list[tuple[int, int]]] = {}
        super().__init__(*cards, policy=policy)

    def step(self, event: Event) -> list[Decision]:
        """Any event."""
        out = super().step(event)
        for item in out:
            if isinstance(item, Notice) and item.kind is Kind.ADJUSTED:
                self.moves.setdefault(item.name, []).append((self.now, item.value))
        return out


def square(period: float, rate: int, until: int) -> Iterator[Ticket]:
    """Half of each period (s) a load that the slots cannot take, half of it none, from three
    businesses of which each has causes of its own to be moved."""
    for number, at in enumerate(range(START, until, SECOND // rate)):
        if ((at - START) / SECOND) % period < period / 2:
            business = ("shop", "loud", "calm")[number % 3]
            lane = (1, 1, 0)[number % 3]
            budget = (SECOND, None, 500 * MS)[number % 3]
            level = (5, 4, 2)[number % 3]
            yield Ticket(
                f"r{number}", business, "m", lane, level, at, 10, 50, budget, realtime=lane == 0
            )


@pytest.mark.parametrize("hold_ticks", [50, 200])
@pytest.mark.parametrize("period", [0.7, 2.0, 5.0, 20.0, 60.0])
def test_under_a_square_wave_nothing_is_moved_more_than_once_per_hold_time(
    period: float, hold_ticks: int
) -> None:
    policy = Policy()
    feedback = replace(
        policy.feedback,
        hold_ticks=hold_ticks,
        window_s=2.0,
        min_requests=5,
        backlog_s=2.0,
        backlog_clear_s=1.0,
    )
    policy = replace(policy, feedback=feedback)
    hold = hold_ticks * policy.tick_ms * MS
    scene = Watched(card("a", 4), card("b", 4), policy=policy)
    clock = Clockwork(scene, lambda ticket, _: 600 * MS if ticket.lane else 300 * MS)
    clock.run(square(period, 60, START + round(6 * max(period, 15.0)) * SECOND))
    assert scene.moves, "nothing was moved: the wave is too small to say anything"
    for changes in scene.moves.values():
        for (before, was), (after, now) in pairwise(changes):
            assert after - before >= hold
            assert abs(now - was) == 1
        assert all(abs(level) <= policy.feedback.bound for _, level in changes)
