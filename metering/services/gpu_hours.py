"""Writing down the replicas' GPU time."""

from collections.abc import Iterable
from uuid import UUID

from django.db import connection

_UPSERT = """
INSERT INTO metering_gpuhour AS held (process, replica, hour, wall_seconds, busy_seconds)
VALUES (%s, %s, to_timestamp(%s), %s::numeric / 1000000000, %s::numeric / 1000000000)
ON CONFLICT (process, replica, hour) DO UPDATE
SET wall_seconds = excluded.wall_seconds, busy_seconds = excluded.busy_seconds
"""


def keep_gpu_hours(hours: Iterable[tuple[UUID, str, int, int, int]]) -> None:
    """Process, replica, hour (its first second since the epoch), GPU-ns known and busy: as the
    process has measured them so far, in place of what was written under its name before."""
    with connection.cursor() as cursor:
        cursor.executemany(_UPSERT, list(hours))
