"""The journal's own connection to Postgres, and how one batch of rows goes over it."""

from collections.abc import Sequence

import psycopg

from metering.journal.records import without_nul
from metering.journal.statements import COPY, CREATE_STAGING, INSERT, TOUCH_KEYS
from metering.postgres import conninfo

# Far above what a batch takes; a statement that hangs longer is given up and tried anew.
STATEMENT_MS = 30_000


class Landing:
    """Lands batches, each in one transaction; a batch that landed before changes nothing."""

    def __init__(self) -> None:
        self._connection: psycopg.Connection | None = None

    def land(self, payloads: Sequence[bytes]) -> None:
        """Insert the rows and note when their keys were last used.

        Raises psycopg.Error. After a DataError or IntegrityError the batch holds a row that
        the table can't take; after anything else the same batch can be tried again.
        """
        connection = self._open()
        with connection.transaction(), connection.cursor() as cursor:
            with cursor.copy(COPY) as copy:
                copy.write(b"".join(map(_line, payloads)))
            cursor.execute(INSERT)
            cursor.execute(TOUCH_KEYS)

    def close(self) -> None:
        """Drop the connection; the next batch opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            connection = psycopg.connect(conninfo("fairlane usage journal"), autocommit=True)
            connection.execute(f"SET statement_timeout = {STATEMENT_MS}")
            connection.execute(CREATE_STAGING)
            self._connection = connection
        return self._connection


def _line(payload: bytes) -> bytes:
    """``payload`` as one line of COPY's text format; JSON has no control characters to escape."""
    if b"\\" not in payload:
        return payload + b"\n"
    return without_nul(payload).replace(b"\\", b"\\\\") + b"\n"
