"""The monthly partitions of the usage rows.

They are by id: a UUIDv7 begins with the time at which it was made, which is when the request was
accepted. So the id alone is the primary key, and rows of a month are dropped as a whole. What
has another kind of id lies in the default partition.
"""

from datetime import UTC, date, datetime

from django.db import connection, transaction

from metering.core.periods import first_of, next_month

TABLE = "metering_usagerecord"
REST = f"{TABLE}_rest"
AHEAD = 3
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('fairlane usage partitions'))"
_LIST = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass"


def edge(month: date) -> str:
    """The least id of a month (UTC)."""
    moment = datetime(month.year, month.month, 1, tzinfo=UTC)
    digits = f"{int(moment.timestamp()) * 1000:012x}"
    return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"


def name_of(month: date) -> str:
    """The table that holds a month's rows."""
    return f"{TABLE}_{month:%Y%m}"


def partitions() -> dict[date, str]:
    """The months that have a table of their own, the earliest first."""
    with connection.cursor() as cursor:
        cursor.execute(_LIST, [TABLE])
        names = sorted(str(name) for (name,) in cursor.fetchall())
    digits = {name: name.rpartition("_")[2] for name in names if name != REST}
    return {date(int(text[:4]), int(text[4:]), 1): name for name, text in digits.items()}


def make_partition(month: date) -> bool:
    """Make a month's partition unless it is there; rows that are in the default one already
    move. True when it was made."""
    month = first_of(month)
    edges = [edge(month), edge(next_month(month))]
    table = name_of(month)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK)
        if month in partitions():
            return False
        cursor.execute(f"LOCK TABLE {TABLE} IN SHARE ROW EXCLUSIVE MODE")
        cursor.execute(
            f"CREATE TABLE {table} (LIKE {TABLE} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
        )
        cursor.execute(
            f"WITH moved AS (DELETE FROM {REST} WHERE id >= %s AND id < %s RETURNING *)"  # noqa: S608
            f" INSERT INTO {table} SELECT * FROM moved",
            edges,
        )
        cursor.execute(
            f"ALTER TABLE {TABLE} ATTACH PARTITION {table} FOR VALUES FROM (%s) TO (%s)", edges
        )
    return True


def make_partitions(today: date) -> list[date]:
    """The months from that of ``today`` on for which there was none; some ahead of time."""
    month, made = first_of(today), []
    for _ in range(AHEAD):
        if make_partition(month):
            made.append(month)
        month = next_month(month)
    return made
