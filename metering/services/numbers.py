"""Numbers without gaps."""

from django.db import connection

_NEXT = """
INSERT INTO metering_numberseries AS held (name, last) VALUES (%s, 1)
ON CONFLICT (name) DO UPDATE SET last = held.last + 1 RETURNING last
"""


def next_number(series: str) -> int:
    """The next number of a series, in the caller's transaction.

    Whoever else takes one waits until that ends; if it fails, the number was never taken.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, [series])
        row = cursor.fetchone()
    assert row is not None
    return int(row[0])
