"""The thread that copies decisions to Postgres. This log may lose rows; nothing waits for it."""

import asyncio
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import psycopg

from metering.postgres import conninfo

from .partitions import prepare, prune
from .row import DecisionRow

log = logging.getLogger(__name__)

# What a busy minute brings; what comes beyond, while Postgres is away, is dropped and counted.
MOST_HELD = 100_000
BATCH_ROWS = 5_000
PAUSE_S = 0.5
RETRY_S = 2.0
GRACE_S = 2.0
STATEMENT_MS = 10_000
PRUNE_S = 3600.0
_COPY = (
    "COPY scheduler_decisionlog (at, kind, request, other, business, model, lane, level, attempt,"
    " replica, waited_ms, reason, policy, detail) FROM STDIN"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class DecisionWriter:
    """The ``DecisionSink`` of a running process."""

    def __init__(self, *, most_held: int = MOST_HELD) -> None:
        self.dropped = 0
        self._most = most_held
        self._held: deque[DecisionRow] = deque()
        self._connection: psycopg.Connection | None = None
        self._days: set[date] = set()
        self._pruned = float("-inf")
        self._reachable = True
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)

    def append(self, row: DecisionRow) -> None:
        """Take a row: well under a microsecond, whatever Postgres does."""
        if len(self._held) < self._most:
            self._held.append(row)
        else:
            self.dropped += 1

    def start(self) -> None:
        """Begin to move rows."""
        self._thread.start()

    async def close(self) -> None:
        """Write what is there, for at most ``GRACE_S`` seconds."""
        self._stop.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, GRACE_S)

    def _run(self) -> None:
        while True:
            stopping = self._stop.is_set()
            try:
                moved = self._move()
            except (psycopg.Error, OSError) as error:
                self._lost(error)
                moved = -1
            if stopping and moved < BATCH_ROWS:
                break
            if moved < BATCH_ROWS:
                self._stop.wait(RETRY_S if moved < 0 else PAUSE_S)
        self._disconnect()

    def _lost(self, error: Exception) -> None:
        self._disconnect()
        if self._reachable:
            log.warning("decisions are not written, Postgres says: %s", error)
            self._reachable = False

    def _move(self) -> int:
        """Copy one batch; returns its number of rows."""
        if time.monotonic() - self._pruned > PRUNE_S:
            prune(self._open(), datetime.now(UTC).date())
            self._pruned = time.monotonic()
            self._days.clear()
        count = min(len(self._held), BATCH_ROWS)
        if not count:
            return 0
        rows = [self._held[index] for index in range(count)]
        try:
            self._copy(rows)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            # A batch that no table takes would be in the way for ever.
            log.error("%d decisions were refused: %s", count, error)  # noqa: TRY400
            self.dropped += count
        for _ in range(count):
            self._held.popleft()
        if not self._reachable:
            log.info("decisions are written again, %d were dropped", self.dropped)
            self._reachable = True
        return count

    def _copy(self, rows: Sequence[DecisionRow]) -> None:
        connection = self._open()
        moments = [_EPOCH + timedelta(microseconds=row.at // 1000) for row in rows]
        days = {moment.date() for moment in moments} - self._days
        if days:
            prepare(connection, days)
            self._days |= days
        with (
            connection.transaction(),
            connection.cursor() as cursor,
            cursor.copy(_COPY) as copy,
        ):
            for moment, row in zip(moments, rows, strict=True):
                copy.write_row(_values(moment, row))

    def _open(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(conninfo("fairlane decision log"), autocommit=True)
            connection.execute(f"SET statement_timeout = {STATEMENT_MS}")
            self._connection = connection
            # Another database may be behind the same name now.
            self._days.clear()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _values(moment: datetime, row: DecisionRow) -> tuple[object, ...]:
    return (
        moment,
        row.kind,
        row.request,
        row.other,
        row.business,
        row.model,
        row.lane,
        row.level,
        row.attempt,
        row.replica,
        row.waited / 1e6,
        row.reason,
        row.policy,
        None if row.detail is None else json.dumps(row.detail),
    )
