"""Reads rows back from segments in order, and deletes what has been read for good."""

import logging
from collections import deque

from metering.journal.records import Scan, scan
from metering.journal.segments import Segment

logger = logging.getLogger(__name__)


class Reader:
    """One pass over ``segments``, from which it takes each when it is done with it.

    ``peek`` shows the next rows, ``advance`` says that they need never be seen again. Between
    the two a crash loses nothing.
    """

    def __init__(self, segments: deque[Segment]) -> None:
        self._segments = segments
        self._at = 0
        self._next = 0

    def peek(self, most: int) -> list[bytes]:
        """At most ``most`` rows, in order; none when there is nothing more for now."""
        while self._segments:
            segment = self._segments[0]
            # In this order: once it grows no more, its size is its last one.
            growing, size = segment.growing, segment.size
            try:
                found = self._scan(segment, size, most)
            except OSError:
                logger.exception(
                    "usage journal: %s cannot be read and is passed over", segment.path
                )
                self._drop(delete=False)
                continue
            self._next = self._at + found.end
            if found.payloads:
                return found.payloads
            self._at = self._next
            if growing:
                return []
            self._drop(delete=True)
        return []

    def advance(self) -> None:
        """The rows last shown have landed."""
        self._at = self._next

    def _scan(self, segment: Segment, size: int, most: int) -> Scan:
        if self._at >= size:
            return Scan([], 0, 0)
        with segment.path.open("rb") as file:
            file.seek(self._at)
            found = scan(file.read(size - self._at), most)
        if found.damaged:
            logger.warning(
                "usage journal: cut %d bytes that were no whole row from %s",
                found.damaged,
                segment.path,
            )
        return found

    def _drop(self, *, delete: bool) -> None:
        segment = self._segments.popleft()
        self._at = self._next = 0
        if delete:
            segment.path.unlink(missing_ok=True)


def count(segments: deque[Segment]) -> int:
    """How many whole rows ``segments`` hold; a file that can't be read counts as none."""
    rows = 0
    for segment in segments:
        try:
            rows += len(scan(segment.path.read_bytes()).payloads)
        except OSError:
            continue
    return rows
