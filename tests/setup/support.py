"""Helpers of the set-up tests."""

import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from console.embedded_postgres import EmbeddedPostgres


def run_sql(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def server_pid(postgres: EmbeddedPostgres) -> int:
    text = (postgres.placement.cluster / "postmaster.pid").read_text(encoding="ascii")
    return int(text.partition("\n")[0])


def wait_until(condition: Callable[[], bool], *, deadline_s: float = 20.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.02)


def modes(folder: Path) -> dict[str, int]:
    """The modes of a folder and all above it."""
    return {str(path): path.stat().st_mode for path in (folder, *folder.parents)}
