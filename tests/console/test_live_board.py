"""A snapshot and the updates after it make exactly a fresh snapshot."""

import random
import tracemalloc

import pytest

from console.live.board import CATCH_UP_FRAMES, FEED_KEEP, OPERATIONS, Audience, Board, Cursor
from console.live.history import SPAN_MS, STEP_MS

from .frames import FrameSource
from .live_client import State, apply_message, decoded, fresh

AUDIENCES = [OPERATIONS, Audience("alpha"), Audience("beta"), Audience("nobody")]


class Page:
    """A page that reads when it likes; ``asked`` counts the snapshots it had to ask for."""

    def __init__(self, board: Board, audience: Audience) -> None:
        self.board, self.audience = board, audience
        self.state: State | None = None
        self.cursor: Cursor | None = None
        self.kinds: list[str] = []

    def read(self) -> None:
        message = decoded(self.board.message(self.audience, self.cursor))
        self.kinds.append(message["type"])
        self.state = apply_message(self.state, message)
        assert self.state is not None, "the message doesn't fit on what this page was told before"
        self.cursor = self.board.cursor


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("audience", AUDIENCES, ids=lambda each: each.business or "operations")
def test_updates_add_up_to_a_fresh_snapshot(audience: Audience, seed: int) -> None:
    rng = random.Random(seed)
    source, board = FrameSource(seed=seed), Board()
    page = Page(board, audience)
    for step in range(400):
        if step == 250:
            # The scheduler starts anew.
            source.epoch, source.seq = "e2", 0
        source.at += rng.choice((0,) * 20 + (9_000, 400_000))
        board.apply(source.next(rng.choice((None, ["alpha"], ["beta"], []))))
        if rng.random() < 0.6:
            page.read()
            assert page.state == fresh(board.message(audience, None))
    assert page.kinds[0] == "snapshot"
    assert page.kinds.count("snapshot") == 2


@pytest.mark.parametrize("behind", [1, 5, CATCH_UP_FRAMES - 1, CATCH_UP_FRAMES, 5_000])
def test_whoever_was_away_has_lost_and_doubled_nothing(behind: int) -> None:
    source, board = FrameSource(), Board()
    page = Page(board, OPERATIONS)
    for frame in source.take(100):
        board.apply(frame)
    page.read()
    for frame in source.take(behind):
        board.apply(frame)
    page.read()
    assert page.kinds[1] == ("update" if behind < CATCH_UP_FRAMES else "snapshot")
    assert page.state == fresh(board.message(OPERATIONS, None))


def test_a_gap_or_a_new_epoch_is_noticed_by_the_page() -> None:
    source, board = FrameSource(), Board()
    board.apply(source.next())
    state = fresh(board.message(OPERATIONS, None))
    first = board.cursor
    board.apply(source.next())
    second = board.cursor
    one = decoded(board.message(OPERATIONS, first))
    board.apply(source.next())
    two = decoded(board.message(OPERATIONS, second))
    assert apply_message(state, two) is None
    after = apply_message(state, one)
    assert after is not None
    assert apply_message(after, one) == after, "a message that comes twice changes nothing"
    assert apply_message(after, two | {"epoch": "e9"}) is None


def test_frames_that_are_no_newer_are_passed_over() -> None:
    source, board = FrameSource(), Board()
    old, new = source.take(2)
    assert board.apply(new)
    before = board.message(OPERATIONS, None)
    assert not board.apply(old)
    assert not board.apply(new)
    late = FrameSource(epoch="e0").next()
    late.at = new.at - 5_000
    assert not board.apply(late), "the last words of a scheduler that was replaced"
    assert board.message(OPERATIONS, None) == before


def test_before_the_first_frame_there_is_an_empty_snapshot() -> None:
    board = Board()
    for audience in AUDIENCES:
        state = fresh(board.message(audience, None))
        assert state["now"] is None
        assert state["stale"]
        assert (state["seq"], state["points"], state["feed"]) == (0, [], [])
    board.apply(FrameSource().next())
    assert decoded(board.message(OPERATIONS, None))["now"] is not None


def test_each_message_is_made_once_per_audience_and_frame() -> None:
    source, board = FrameSource(), Board()
    board.apply(source.next())
    first = board.cursor
    board.apply(source.next())
    messages = [board.message(OPERATIONS, first) for _ in range(500)]
    assert len({id(message) for message in messages}) == 1


def test_the_feed_is_bounded() -> None:
    source, board = FrameSource(feed=FEED_KEEP * 3), Board()
    board.apply(source.next())
    cursor = board.cursor
    board.apply(source.next())
    assert len(fresh(board.message(OPERATIONS, None))["feed"]) == FEED_KEEP
    assert len(decoded(board.message(OPERATIONS, cursor))["feed"]) == FEED_KEEP


def test_memory_is_flat_however_long_it_runs() -> None:
    names = [f"business-{number}" for number in range(20)]
    source, board = FrameSource(names, feed=20), Board()

    def run(frames: int) -> None:
        for number in range(frames):
            source.at += STEP_MS
            board.apply(source.next())
            if number % 20 == 0:
                board.message(OPERATIONS, None)

    run(200)
    tracemalloc.start()
    try:
        run(20)
        before, _ = tracemalloc.get_traced_memory()
        run(400)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 512 * 1024


def test_businesses_that_are_gone_are_forgotten() -> None:
    source, board = FrameSource(), Board()
    board.apply(source.next())
    source.at += 2 * SPAN_MS
    board.apply(source.next(["alpha"]))
    own = fresh(board.message(Audience("beta"), None))
    assert (own["points"], own["feed"]) == ([], [])
    assert fresh(board.message(Audience("alpha"), None))["points"]
