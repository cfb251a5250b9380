"""Usage rows from many writers at once, while they are settled: none lost, none doubled."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import psycopg
import pytest
from django.db import connection, connections
from django.db.models import Sum

from metering.core.usage import UsageRow
from metering.journal.landing import Landing
from metering.journal.records import pack, scan
from metering.models import BillLine, DailyStatement, UsageRecord
from metering.postgres import conninfo
from metering.services.month_close import close_due
from metering.services.settlement import settle_due

from .world import price_all, row_id

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOON = datetime(2026, 3, 10, 12, tzinfo=SHANGHAI)
EVENTS, WRITERS, BUSINESSES = 10_000, 8, 50
KILL = """
SELECT pg_terminate_backend(pid) FROM (
    SELECT pid FROM pg_stat_activity
    WHERE application_name = 'fairlane usage journal' AND state <> 'idle'
        AND datname = current_database()
    ORDER BY random() LIMIT 1
) AS one
"""


def payloads() -> list[bytes]:
    """Ten thousand rows of fifty businesses over three days, as the journal keeps them."""
    found = []
    for n in range(EVENTS):
        at = NOON + timedelta(hours=n % 72)
        nanos = int(at.timestamp()) * 10**9
        row = UsageRow(
            id=str(row_id(at)),
            business=f"tenant-{n % BUSINESSES}",
            key_prefix="fl_live_abcd",
            operation="chat",
            received=nanos,
            dispatched=nanos,
            finished=nanos,
            status="ok",
            requested_model="chat",
            lane="P1",
            completion_tokens=1,
        )
        found += scan(pack(row)).payloads
    return found


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(180)
def test_eight_writers_fifty_businesses_and_some_killed() -> None:
    """H08 and E05: in random order; writers are cut off in the middle of what they write, and
    write it again, as a journal does; settlement runs all the while."""
    price_all()
    rows = payloads()
    random.shuffle(rows)
    done = threading.Event()

    def write(number: int) -> None:
        landing = Landing()
        part = rows[number::WRITERS]
        for at in range(0, len(part), 100):
            while True:
                try:
                    landing.land(part[at : at + 100])
                    break
                except psycopg.OperationalError:
                    # Whether the last batch came through is not known: it is written again.
                    landing.close()
        landing.close()

    def kill() -> int:
        """End a writer's session now and then."""
        ended = 0
        with psycopg.connect(conninfo("killer"), autocommit=True) as connected:
            while not done.wait(0.05):
                held = connected.execute(KILL).fetchall()
                ended += len(held)
        return ended

    def settle(_: int) -> None:
        try:
            for _ in range(4):
                settle_due(now=NOON + timedelta(days=5))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(WRITERS + 3) as pool:
        killing = pool.submit(kill)
        works = [pool.submit(write, number) for number in range(WRITERS)]
        works += [pool.submit(settle, number) for number in range(2)]
        try:
            for work in works:
                work.result()
        finally:
            done.set()
        assert killing.result() > 0
    settle_due(now=NOON + timedelta(days=5))
    assert UsageRecord.objects.count() == EVENTS
    sums = DailyStatement.objects.aggregate(
        requests=Sum("requests"), tokens=Sum("completion_tokens")
    )
    assert sums == {"requests": EVENTS, "tokens": EVENTS}
    close_due(now=NOON + timedelta(days=60))
    assert sum(BillLine.objects.values_list("requests", flat=True)) == EVENTS
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT bill_id) FROM metering_billline")
        assert cursor.fetchone() == (BUSINESSES,)
