"""The journal as the gateway knows it."""

import asyncio
import logging
import threading
import time
from collections import deque
from pathlib import Path

from metering.core.usage import UsageRow
from metering.journal.records import pack
from metering.journal.segments import (
    SEGMENT_BYTES,
    Claim,
    Segment,
    SegmentFiles,
    claim_first,
)
from metering.journal.writer import Writer

logger = logging.getLogger(__name__)

# Together with the time of one write and one fsync, under the 100 ms that kill -9 may cost.
WRITE_S = 0.02
SYNC_S = 0.07
# A disk that refuses is asked again after this long.
REFUSED_S = 1.0
WRITE_ROWS = 1_000
GRACE_S = 5.0


class Journal:
    """Takes usage rows at once and sees to it that each becomes one UsageRecord.

    ``append`` belongs to one thread, the event loop's. Three threads of the journal do the
    rest: one writes to files, one syncs them, one moves rows on to Postgres. Any number of
    processes may have the same ``folder``: each takes a sub-folder of its own. While the
    disk refuses, rows wait in memory; while Postgres is away, they wait on disk.
    """

    def __init__(self, folder: Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._base = folder
        self._segment_bytes = segment_bytes
        self._appended: deque[bytes] = deque()
        self._unwritten: list[bytes] = []
        # Rows that left ``_appended``; counted before they leave, so that pending() never
        # reads too low.
        self._taken = 0
        self._claim: Claim | None = None
        self._files: SegmentFiles | None = None
        self._writer: Writer | None = None
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def append(self, row: UsageRow) -> None:
        """Take ``row``: a few microseconds, whatever disk and Postgres do. Never raises for
        what the row holds. Rows may come before start() and, while the process ends, until
        close() returns."""
        self._appended.append(pack(row))

    def pending(self) -> int:
        """Rows that are not known to be in Postgres yet, those of earlier processes included."""
        known = len(self._appended) + self._taken
        if self._writer is None:
            return known
        return known + self._writer.recovered - self._writer.landed

    def start(self) -> None:
        """Claim a sub-folder, count what is left there (about 3 s a GB), and begin.

        Raises OSError when the folder can't be used.
        """
        self._claim = claim_first(self._base)
        segments: deque[Segment] = deque()
        self._writer = Writer(self._base, self._claim, segments)
        self._files = SegmentFiles(self._claim, segments, self._segment_bytes)
        self._threads = [
            threading.Thread(target=self._keep_writing, name="usage journal", daemon=True),
            threading.Thread(target=self._keep_syncing, name="usage sync", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self._writer.start()

    async def close(self, grace_s: float = GRACE_S) -> None:
        """Bring every row to the disk, then to Postgres as far as ``grace_s`` seconds allow.

        What does not land in time lands after the next start.
        """
        await asyncio.to_thread(self._close, grace_s)

    def _close(self, grace_s: float) -> None:
        if self._files is None or self._writer is None or self._claim is None:
            return
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._write_all(self._files)
        self._writer.stop(grace_s)
        # What came while the rest was landing.
        self._write_all(self._files)
        if left := self.pending():
            logger.warning("usage journal: %d rows wait for the next start", left)
        self._claim.release()
        self._claim = self._files = None

    def _write_all(self, files: SegmentFiles) -> None:
        try:
            self._write()
            files.close()
        except OSError:
            logger.exception("usage journal: rows could not be written")

    def _keep_writing(self) -> None:
        refused = False
        while not self._stop.wait(REFUSED_S if refused else WRITE_S):
            try:
                self._write()
            except OSError as error:
                if not refused:
                    logger.error("usage journal: rows wait in memory: %s", error)  # noqa: TRY400
                refused = True
            else:
                refused = False

    def _write(self) -> None:
        """Everything appended so far goes to the files."""
        assert self._files is not None
        while self._unwritten or self._appended:
            taking = min(len(self._appended), WRITE_ROWS - len(self._unwritten))
            self._taken += taking
            self._unwritten.extend(self._appended.popleft() for _ in range(taking))
            self._files.write(self._unwritten)
            self._unwritten.clear()

    def _keep_syncing(self) -> None:
        assert self._files is not None
        files = self._files
        while not self._stop.wait(SYNC_S):
            began = time.monotonic()
            try:
                files.sync()
            except OSError:
                logger.exception("usage journal: the disk did not take what was written")
            if (took := time.monotonic() - began) > 1.0:
                logger.warning("usage journal: the disk took %.1f s to sync", took)
