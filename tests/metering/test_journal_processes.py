"""The journal in processes that are killed, on a Postgres that goes away."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from console.embedded_postgres import EmbeddedPostgres
from tests.metering.helpers import wait_until

ROOT = Path(__file__).parents[2]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """A server of this module's own, with Fairlane's tables, that a test may stop."""
    with tempfile.TemporaryDirectory(prefix="fairlane-journal-") as folder:
        # As root the server runs as another user, who must get in.
        Path(folder).chmod(0o711)
        server = EmbeddedPostgres(Path(folder) / "postgres", durable=False)
        server.start()
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0", "--skip-checks"],
            env={**os.environ, "DATABASE_URL": server.url},
            cwd=ROOT,
            check=True,
        )
        yield server
        server.stop()


@pytest.fixture
def running(own_postgres: EmbeddedPostgres) -> EmbeddedPostgres:
    own_postgres.start()
    with psycopg.connect(own_postgres.url, autocommit=True) as connection:
        connection.execute("TRUNCATE metering_usagerecord")
    return own_postgres


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a process with a journal in the test's folder."""
    started: list[subprocess.Popen[str]] = []

    def begin(url: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.metering.journal_process", str(tmp_path)],
            env={**os.environ, "DATABASE_URL": url},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def ask(process: subprocess.Popen[str], command: str) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{command}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def landed(server: EmbeddedPostgres) -> set[str]:
    with psycopg.connect(server.url) as connection:
        rows = connection.execute("SELECT id::text FROM metering_usagerecord").fetchall()
    assert len(rows) == len({row[0] for row in rows})
    return {row[0] for row in rows}


def flood(process: subprocess.Popen[str], rows: int) -> tuple[list[tuple[str, float]], float]:
    """Let it append about that many rows, kill -9 it; returns what it said it appended and
    when, and the moment of the kill."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("flood\n")
    process.stdin.flush()
    said = [process.stdout.readline() for _ in range(rows)]
    process.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    said += process.stdout.readlines()
    process.wait()
    pairs = [line.split() for line in said if line.endswith("\n")]
    return [(pair[0], float(pair[1])) for pair in pairs], killed


def test_kill_9_costs_at_most_the_last_100_ms(running: EmbeddedPostgres, start: Start) -> None:
    nowhere = f"postgresql://fairlane@/none?host={running.placement.sockets}"
    said, killed = flood(start(nowhere), 800)
    assert len(said) >= 800
    assert landed(running) == set()

    second = start(running.url)
    durable = {row for row, at in said if at < killed - 0.1}
    wait_until(lambda: ask(second, "pending") == "0")
    found = landed(running)
    assert durable <= found
    assert ask(second, "close") == "closed"


def test_kill_9_amid_landing_bills_nothing_twice(
    running: EmbeddedPostgres, start: Start, tmp_path: Path
) -> None:
    said, killed = flood(start(running.url), 1_200)
    before = landed(running)
    assert before, "the kill came before anything landed"
    second = start(running.url)
    wait_until(lambda: ask(second, "pending") == "0")
    assert before <= landed(running)
    assert {row for row, at in said if at < killed - 0.1} <= landed(running)
    assert ask(second, "close") == "closed"
    assert list(tmp_path.rglob("*.usage")) == []


def test_rows_outlive_a_stop_of_postgres(running: EmbeddedPostgres, start: Start) -> None:
    process = start(running.url)
    rows = set(ask(process, "append 20").split())
    wait_until(lambda: landed(running) == rows)

    running.stop()
    rows |= set(ask(process, "append 30").split())
    rows |= set(ask(process, "append 30").split())
    assert ask(process, "pending") == "60"

    running.start()
    wait_until(lambda: ask(process, "pending") == "0")
    assert landed(running) == rows
    assert ask(process, "close") == "closed"


def test_closing_leaves_nothing_behind(
    running: EmbeddedPostgres, start: Start, tmp_path: Path
) -> None:
    process = start(running.url)
    rows = set(ask(process, "append 5000").split())
    assert ask(process, "close") == "closed"
    assert landed(running) == rows
    assert list(tmp_path.rglob("*.usage")) == []
    assert process.wait(10) == 0
