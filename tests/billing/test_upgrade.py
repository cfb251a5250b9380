"""Rows from before there were partitions are all there afterwards."""

import os
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from django.conf import settings

from .world import row_id

ROOT = Path(settings.BASE_DIR)
INSERT = """
INSERT INTO metering_usagerecord (
    id, business, key_prefix, credential, client_request_id, operation, stream, requested_model,
    served_model, claimed, lane, status, reason, received_at, finished_at, queue_wait_ms,
    prompt_tokens, cached_tokens, completion_tokens, estimated, gpu_seconds, attempts, preempted,
    recomputed_tokens, preempted_for, displaced, replica, bytes_in, bytes_out, trace_id
) VALUES (
    %s, 'risk-audit', '', '', '', 'chat', false, 'chat', 'm', '', 'P1', 'ok', '', %s, %s, 0,
    %s, 0, 1, false, 0.25, 1, 0, 0, '', '', 'card-1', 0, 0, ''
) ON CONFLICT (id) DO NOTHING
"""


def migrate(url: str, *target: str) -> None:
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0", *target],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        check=True,
        timeout=240,
    )


@pytest.mark.timeout(300)
def test_rows_move_into_their_months(fresh_database: str) -> None:
    migrate(fresh_database, "metering", "0004_preempted_for")
    march, now = datetime(2026, 3, 10, 12, tzinfo=UTC), datetime.now(UTC)
    rows = [(row_id(march), march), (row_id(now), now), (uuid.UUID(int=5), march)]
    with psycopg.connect(fresh_database) as connection:
        for number, (pk, at) in enumerate(rows):
            connection.execute(INSERT, [pk, at, at, number])
    migrate(fresh_database)
    with psycopg.connect(fresh_database) as connection:
        for number, (pk, at) in enumerate(rows):
            # A row that a journal holds still lands once.
            assert connection.execute(INSERT, [pk, at, at, number]).rowcount == 0
        held = connection.execute(
            "SELECT tableoid::regclass::text, id, received_at, prompt_tokens, gpu_seconds"
            " FROM metering_usagerecord ORDER BY prompt_tokens"
        ).fetchall()
    assert held == [
        ("metering_usagerecord_202603", rows[0][0], march, 0, 0.25),
        (f"metering_usagerecord_{now:%Y%m}", rows[1][0], now, 1, 0.25),
        ("metering_usagerecord_rest", rows[2][0], march, 2, 0.25),
    ]
