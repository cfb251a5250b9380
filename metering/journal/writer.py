"""The thread that moves rows from the journal's files to Postgres."""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import psycopg

from metering.journal.landing import Landing
from metering.journal.reader import Reader, count
from metering.journal.segments import Claim, Segment, claim_abandoned

logger = logging.getLogger(__name__)

BATCH_ROWS = 2_000
# Between looks: long enough for a batch to gather, for each has its price, and short enough for
# people who wait to see it.
PAUSE_S = 0.5
FIRST_RETRY_S = 0.2
LONGEST_RETRY_S = 5.0
# How often to look for what a process that died meanwhile has left.
ADOPT_S = 30.0
REFUSED = "refused.jsonl"


class Writer:
    """Lands the rows of ``segments``, and before them what earlier processes left.

    A row counts as landed once its transaction has committed. A crash between that and the
    deletion of its file makes it land again, to no effect.
    """

    def __init__(self, base: Path, claimed: Claim, segments: deque[Segment]) -> None:
        self._base = base
        self._folder = claimed.folder
        self._left = deque(claimed.segments())
        self._left_reader = Reader(self._left)
        self._reader = Reader(segments)
        self._adopted: list[Claim] = []
        self._landing = Landing()
        self._stop = threading.Event()
        self._deadline = float("inf")
        self._reachable = True
        self._next_adoption = 0.0
        # Counted here and not by the thread: nobody may read "nothing waits" before it has begun.
        self.recovered = count(self._left)
        self.landed = 0
        self._thread = threading.Thread(target=self._run, name="usage writer", daemon=True)

    def start(self) -> None:
        """Begin with what is left from before."""
        self._thread.start()

    def stop(self, grace_s: float) -> None:
        """Land what is there, for at most ``grace_s`` seconds; no longer if Postgres is away."""
        self._deadline = time.monotonic() + grace_s
        self._stop.set()
        self._thread.join(grace_s + 1.0)

    def _run(self) -> None:
        while True:
            # In this order: rows that were on disk before the word to stop are seen after it.
            stopping = self._stop.is_set()
            try:
                moved = self._move()
            except Exception:  # one turn's fault must not end the thread: rows would pile up
                logger.exception("usage journal: a batch could not be moved, trying again")
                moved = 0
            if stopping and (not moved or time.monotonic() > self._deadline):
                break
            if moved < BATCH_ROWS:
                self._stop.wait(PAUSE_S)
        self._landing.close()
        for claimed in self._adopted:
            claimed.release()

    def _move(self) -> int:
        """Land one batch; returns its number of rows, 0 when there is nothing to do for now."""
        for reader in (self._left_reader, self._reader):
            if payloads := reader.peek(BATCH_ROWS):
                if not self._land(payloads):
                    return 0
                reader.advance()
                return len(payloads)
        self._adopt()
        return 0

    def _adopt(self) -> None:
        """Take over what processes that died have left, now and then."""
        if time.monotonic() < self._next_adoption:
            return
        self._next_adoption = time.monotonic() + ADOPT_S
        for claimed in self._adopted:
            claimed.release()
        self._adopted = claim_abandoned(self._base)
        for claimed in self._adopted:
            self._left.extend(claimed.segments())
        self.recovered += count(self._left)

    def _land(self, payloads: Sequence[bytes]) -> bool:
        """Land one batch, however often that must be tried; False when told to stop first."""
        retry = FIRST_RETRY_S
        while True:
            try:
                self._land_or_split(payloads)
            except (psycopg.Error, OSError) as error:
                self._landing.close()
                if self._reachable:
                    logger.warning("usage rows wait in the journal, Postgres says: %s", error)
                    self._reachable = False
            else:
                if not self._reachable:
                    logger.info("usage rows land in Postgres again")
                    self._reachable = True
                return True
            if self._stop.is_set():
                return False
            self._stop.wait(retry)
            retry = min(retry * 2, LONGEST_RETRY_S)

    def _land_or_split(self, payloads: Sequence[bytes]) -> None:
        """Land a batch; one that holds a row no table takes is halved until that row is alone.

        The row is then kept beside the journal, for people to look at.
        """
        try:
            self._landing.land(payloads)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            if len(payloads) > 1:
                middle = len(payloads) // 2
                self._land_or_split(payloads[:middle])
                self._land_or_split(payloads[middle:])
                return
            self._set_aside(payloads[0])
            logger.error("a usage row was refused and is kept in %s: %s", REFUSED, error)  # noqa: TRY400
        self.landed += len(payloads)

    def _set_aside(self, payload: bytes) -> None:
        path = self._folder / REFUSED
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(payload + b"\n")
            file.flush()
            os.fsync(file.fileno())
