"""The daily partitions of the decision log."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

import psycopg
from psycopg import sql

TABLE = "scheduler_decisionlog"
KEPT_DAYS = 7
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('fairlane decision log'))"
_CREATE = "CREATE TABLE IF NOT EXISTS {} PARTITION OF {} FOR VALUES FROM ({}) TO ({})"
_LIST = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass"


def prepare(connection: psycopg.Connection, days: Iterable[date]) -> None:
    """Make the partitions of these days (UTC) where they are missing. Raises psycopg.Error."""
    with connection.transaction():
        # Of two that make the same one, "if not exists" lets only those through that wait.
        connection.execute(_LOCK)
        for day in sorted(days):
            start = datetime(day.year, day.month, day.day, tzinfo=UTC)
            edges = (start.isoformat(), (start + timedelta(days=1)).isoformat())
            connection.execute(
                sql.SQL(_CREATE).format(
                    sql.Identifier(f"{TABLE}_{day:%Y%m%d}"), sql.Identifier(TABLE), *edges
                )
            )


def prune(connection: psycopg.Connection, today: date) -> list[str]:
    """Drop the days before the last ``KEPT_DAYS``; returns what was dropped. Raises
    psycopg.Error."""
    oldest = f"{TABLE}_{today - timedelta(days=KEPT_DAYS):%Y%m%d}"
    with connection.transaction():
        connection.execute(_LOCK)
        held = sorted(str(name) for (name,) in connection.execute(_LIST, [TABLE]))
        dropped = [name for name in held if name < oldest]
        for name in dropped:
            connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
    return dropped
