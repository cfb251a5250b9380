"""No message to one business names or counts another (G01)."""

import random
from dataclasses import replace

import pytest

from console.live.board import Audience, Board, Cursor
from scheduler.live import FeedItem, LiveFrame

from .frames import FrameSource

ALPHA = Audience("alpha")


def mixed_run(seed: int) -> list[LiveFrame]:
    """Frames in which beta does everything and alpha only a little, with feed lines that name
    beta in their text even where they are alpha's."""
    source, rng = FrameSource(["alpha", "beta"], seed=seed), random.Random(seed)
    frames = []
    for _ in range(120):
        frame = source.next(rng.choice((["beta"], ["beta"], ["alpha", "beta"])))
        for item in frame.feed:
            item.text = f"paused for beta, {item.text}"
        frame.feed.append(
            FeedItem(frame.at, "preempt", "beta made way", business="beta", request="beta-4711")
        )
        frame.feed.append(FeedItem(frame.at, "replica", "card-3 is down, beta waits"))
        frames.append(frame)
    return frames


def without_beta(frame: LiveFrame) -> LiveFrame:
    """The same second if beta had never been there."""
    own = {name: each for name, each in frame.businesses.items() if name == "alpha"}
    lanes = own["alpha"].lanes if own else {}
    refusals = own["alpha"].refusals if own else {}
    feed = [item for item in frame.feed if item.business == "alpha"]
    return replace(frame, businesses=own, lanes=lanes, refusals=refusals, feed=feed, replicas=[])


def messages(frames: list[LiveFrame], seed: int) -> list[str]:
    """Everything that a page of alpha is told, including snapshots and history on the way."""
    rng, board, told = random.Random(seed), Board(), []
    cursor: Cursor | None = None
    for frame in frames:
        board.apply(frame)
        if rng.random() < 0.1:
            cursor = None  # it was cut off, or asks for a snapshot
        if rng.random() < 0.8:
            told.append(board.message(ALPHA, cursor))
            cursor = board.cursor
    return told


@pytest.mark.parametrize("seed", range(10))
def test_no_message_names_anybody_else(seed: int) -> None:
    told = messages(mixed_run(seed), seed)
    assert len(told) > 50
    for text in told:
        for word in ("beta", "card-", "gpu-", "replica", "4711"):
            assert word not in text


@pytest.mark.parametrize("seed", range(10))
def test_others_traffic_makes_no_difference_at_all(seed: int) -> None:
    mixed = mixed_run(seed)
    alone = [without_beta(frame) for frame in mixed]
    assert messages(mixed, seed) == messages(alone, seed)
