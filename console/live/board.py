"""The live state that every viewer reads from: no loop, no sockets, no clock."""

from collections import deque
from dataclasses import dataclass, field

import msgspec

from scheduler.live import FeedItem, LiveFrame

from .history import SPAN_MS, STEP_MS, History
from .messages import Feed, Now, Snapshot, Update
from .picking import business_now, feed_lines, operations_now, own_feed_lines

FEED_KEEP = 100
# How many frames a viewer may lie behind and still be told only what is new.
CATCH_UP_FRAMES = 60


@dataclass(frozen=True, slots=True)
class Audience:
    """Those who get the same messages: one business's people, or (None) the operators."""

    business: str | None


OPERATIONS = Audience(None)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last frame that a viewer knows of."""

    epoch: str
    seq: int


@dataclass(slots=True)
class Track:
    """What is remembered for one audience; each feed item with the frame it came in."""

    history: History = field(default_factory=History)
    feed: deque[tuple[int, FeedItem]] = field(default_factory=lambda: deque(maxlen=FEED_KEEP))


class Board:
    """Takes frames in, gives out messages; each is made once per audience and frame."""

    def __init__(self) -> None:
        self.frame: LiveFrame | None = None
        self._all = Track()
        self._tracks: dict[str, Track] = {}
        self._times: deque[tuple[int, int]] = deque(maxlen=CATCH_UP_FRAMES)
        self._made: dict[tuple[Audience, int | None], str] = {}

    @property
    def cursor(self) -> Cursor | None:
        """Where a viewer stands who knows the newest frame."""
        return None if self.frame is None else Cursor(self.frame.epoch, self.frame.seq)

    def apply(self, frame: LiveFrame) -> bool:
        """Take in a frame; False for one that is no newer than what is held."""
        if self.frame is not None:
            same_epoch = frame.epoch == self.frame.epoch
            if frame.seq <= self.frame.seq if same_epoch else frame.at < self.frame.at:
                return False
            if not same_epoch:
                self._times.clear()
                self._forget_feeds()
        self._made.clear()
        self.frame = frame
        self._times.append((frame.seq, frame.at))
        owned = frame.businesses.values()
        self._all.history.add(
            frame.at,
            frame.lanes,
            frame.refusals,
            prompt=sum(own.prompt_tokens for own in owned),
            completion=sum(own.completion_tokens for own in owned),
        )
        for name, own in frame.businesses.items():
            self._track(name).history.add(
                frame.at,
                own.lanes,
                own.refusals,
                prompt=own.prompt_tokens,
                completion=own.completion_tokens,
            )
        for item in frame.feed:
            self._all.feed.append((frame.seq, item))
            if item.business:
                self._track(item.business).feed.append((frame.seq, item))
        self._prune(frame.at)
        return True

    def message(self, audience: Audience, cursor: Cursor | None, *, stale: bool = False) -> str:
        """JSON for a viewer who stands at ``cursor``: an update if that suffices, else a
        snapshot. ``stale`` marks a snapshot made while no frames come in."""
        since = self._since(cursor)
        key = (audience, since)
        text = self._made.get(key)
        if text is None or stale:
            message = (
                self._snapshot(audience, stale) if since is None else self._update(audience, since)
            )
            text = msgspec.json.encode(message).decode()
            if not stale:
                self._made[key] = text
        return text

    def _since(self, cursor: Cursor | None) -> int | None:
        """The frame to count from, or None where only a snapshot helps."""
        if cursor is None or self.frame is None or cursor.epoch != self.frame.epoch:
            return None
        return cursor.seq if any(seq == cursor.seq for seq, _ in self._times) else None

    def _snapshot(self, audience: Audience, stale: bool) -> Snapshot:
        frame = self.frame
        return Snapshot(
            epoch="" if frame is None else frame.epoch,
            seq=0 if frame is None else frame.seq,
            at=0 if frame is None else frame.at,
            stale=stale or frame is None,
            step_ms=STEP_MS,
            span_ms=SPAN_MS,
            feed_keep=FEED_KEEP,
            now=None if frame is None else self._now(audience, frame),
            points=[] if frame is None else self._seen_by(audience).history.points(frame.at),
            feed=self._feed(audience, since=None),
        )

    def _update(self, audience: Audience, since: int) -> Update:
        assert self.frame is not None, "a cursor is only known once there is a frame"
        frame = self.frame
        from_at = next(at for seq, at in self._times if seq == since)
        return Update(
            epoch=frame.epoch,
            since=since,
            seq=frame.seq,
            at=frame.at,
            now=self._now(audience, frame),
            points=self._seen_by(audience).history.points(frame.at, since=from_at),
            feed=self._feed(audience, since=since),
        )

    def _now(self, audience: Audience, frame: LiveFrame) -> Now:
        history = self._seen_by(audience).history
        if audience.business is None:
            return operations_now(frame, history)
        return business_now(frame, audience.business, history)

    def _feed(self, audience: Audience, since: int | None) -> Feed:
        held = self._seen_by(audience).feed
        items = [item for seq, item in held if since is None or seq > since]
        return feed_lines(items) if audience.business is None else own_feed_lines(items)

    def _seen_by(self, audience: Audience) -> Track:
        """The audience's own track; an empty one, not kept, where there is none yet."""
        if audience.business is None:
            return self._all
        return self._tracks.get(audience.business) or Track()

    def _track(self, business: str) -> Track:
        track = self._tracks.get(business)
        if track is None:
            track = self._tracks[business] = Track()
        return track

    def _forget_feeds(self) -> None:
        """A new epoch counts its frames anew, so the old ones' numbers would mislead."""
        for track in (self._all, *self._tracks.values()):
            track.feed = deque(((0, item) for _, item in track.feed), maxlen=FEED_KEEP)

    def _prune(self, now: int) -> None:
        """Drop businesses of which nothing is left inside the span."""
        gone = [
            name
            for name, track in self._tracks.items()
            if track.history.newest < now - SPAN_MS
            and (not track.feed or track.feed[-1][1].at < now - SPAN_MS)
        ]
        for name in gone:
            del self._tracks[name]
