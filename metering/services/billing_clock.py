"""Moving the moments at which a day counts as settled and a month as closed.

A usage row that arrives behind one of them is marked by the database's trigger. For no row to
slip through between, they move while no insert is under way: the table is locked against writers
for a moment, which waits for those that are writing.
"""

from collections.abc import Mapping
from datetime import date, datetime

from django.db import connection, transaction

from metering.models import BillingClock

_SETTLED = """
INSERT INTO metering_billingclock AS held (id, settled_until) VALUES (1, %(until)s)
ON CONFLICT (id) DO UPDATE
SET settled_until = greatest(held.settled_until, excluded.settled_until)
"""
_CLOSED = """
INSERT INTO metering_billingclock AS held (id, settled_until, closed_until, open_month)
VALUES (1, %(until)s, %(until)s, %(open_month)s)
ON CONFLICT (id) DO UPDATE
SET settled_until = greatest(held.settled_until, excluded.settled_until),
    closed_until = greatest(held.closed_until, excluded.closed_until),
    open_month = greatest(held.open_month, excluded.open_month)
"""


def clock() -> BillingClock | None:
    """How far things have come; None before the first settlement."""
    return BillingClock.objects.first()


def settle_until(until: datetime) -> None:
    """Rows accepted before ``until`` that arrive from now on are late."""
    held = clock()
    if held is None or held.settled_until < until:
        _move(_SETTLED, {"until": until})


def close_until(until: datetime, open_month: date) -> None:
    """Rows accepted before ``until`` that arrive from now on go on the bill of ``open_month``."""
    _move(_CLOSED, {"until": until, "open_month": open_month})


def _move(statement: str, values: Mapping[str, date]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE metering_usagerecord IN SHARE MODE")
        cursor.execute(statement, values)
