"""Workers and beats as processes of their own, with and without Redis."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.models import Sum

from console.config.celery import app
from metering.models import (
    Bill,
    BillArchive,
    BillLine,
    DailyStatement,
    DaySettlement,
    MonthClose,
    ReconciliationReport,
    UsageRecord,
)
from metering.services.archives import request_archive

from .world import price_all, used

ROOT = Path(settings.BASE_DIR)
SHANGHAI = ZoneInfo("Asia/Shanghai")
DEADLINE_S = 120.0


def wait_until(condition: Callable[[], object], processes: list[Any], folder: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        logs = "".join(path.read_text() for path in folder.glob("*.log"))
        assert all(process.poll() is None for process in processes), logs
        assert time.monotonic() < deadline, logs
        time.sleep(0.1)


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A Redis of our own."""
    server = shutil.which("redis-server")
    assert server is not None, "redis-server is not installed"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [server, "--port", str(port), "--save", "", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    yield f"redis://127.0.0.1:{port}/0"
    process.terminate()
    process.wait(30)


def minds_sigterm(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has a handler for SIGTERM."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


@contextmanager
def processes(
    folder: Path, redis: str, *commands: tuple[str, ...]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """``manage.py`` with each of these commands, on the test's database, until SIGTERM."""
    held = connection.settings_dict
    environment = {
        **os.environ,
        "DATABASE_URL": os.environ["DATABASE_URL"].replace("/fairlane?", f"/{held['NAME']}?"),
        "PYTHONUNBUFFERED": "1",
        "LOG_FORMAT": "console",
        **({"REDIS_URL": redis} if redis else {}),
    }
    running = []
    try:
        for number, command in enumerate(commands):
            with (folder / f"{number}.log").open("wb") as log:
                running.append(
                    subprocess.Popen(
                        [sys.executable, "manage.py", *command],
                        cwd=ROOT,
                        env=environment,
                        stdout=log,
                        stderr=log,
                    )
                )
        yield running
        # One that is still starting would not know what to do with it.
        wait_until(lambda: all(map(minds_sigterm, running)), running, folder)
        for process in running:
            process.send_signal(signal.SIGTERM)
        logs = {n: (folder / f"{n}.log").read_text() for n in range(len(running))}
        assert [process.wait(60) for process in running] == [0] * len(running), logs
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("broker", ["filesystem", "redis"])
def test_two_beats_and_two_workers_bill_once(
    broker: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """H05: everything is started twice, after two months in which nothing ran."""
    redis = str(request.getfixturevalue("redis_url")) if broker == "redis" else ""
    price_all()
    now = datetime.now(SHANGHAI)
    this_month = now.date().replace(day=1)
    last = (this_month - timedelta(days=1)).replace(day=1)
    before = (last - timedelta(days=1)).replace(day=1)
    for month in (before, last):
        for day in (3, 4, 9):
            for n in range(8):
                at = datetime(month.year, month.month, day, 12, tzinfo=SHANGHAI)
                used(at, business=f"tenant-{n}")
    closed = MonthClose.objects.exclude(billed_at=None)
    # On the first day of a month the grace time for the last one may not be over.
    months = 2 if now - timedelta(hours=6) >= _midnight(this_month) else 1
    work: list[tuple[str, ...]] = [("worker", "--beat"), ("worker", "--beat")]
    if broker == "redis":
        work = [("worker",), ("worker",), ("beat",), ("beat",)]
    with processes(tmp_path, redis, *work) as running:
        wait_until(lambda: closed.count() == months, running, tmp_path)
        wait_until(ReconciliationReport.objects.exists, running, tmp_path)
        if broker == "filesystem":
            # Asked for in this process, made in one of those.
            archive = request_archive(before, actor=None)
            ready = BillArchive.objects.filter(pk=archive.pk, state="ready", done=8)
            wait_until(ready.exists, running, tmp_path)
    for log in tmp_path.glob("*.log"):
        assert "Traceback" not in log.read_text(), log.read_text()
    numbers = sorted(Bill.objects.values_list("number", flat=True))
    assert numbers == list(range(1, 8 * months + 1))
    assert sum(BillLine.objects.values_list("requests", flat=True)) == 24 * months
    assert DaySettlement.objects.count() == 6
    assert DailyStatement.objects.aggregate(all=Sum("requests"))["all"] == 48


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=SHANGHAI)


def test_every_entry_of_the_clock_is_a_task_that_exists() -> None:
    app.loader.import_default_modules()
    entries = settings.CELERY_BEAT_SCHEDULE.values()
    assert {entry["task"] for entry in entries} == {
        name for name in app.tasks if name.startswith("metering.")
    }


@pytest.mark.django_db
def test_by_hand() -> None:
    """``manage.py settle`` and ``close_month``, each twice."""

    def say(*command: str) -> str:
        out, wrong = StringIO(), StringIO()
        try:
            call_command(*command, stdout=out, stderr=wrong)
        except SystemExit:
            out.write("refused: ")
        return out.getvalue() + wrong.getvalue()

    price_all()
    used(datetime(2026, 3, 10, 12, tzinfo=SHANGHAI))
    assert say("settle", "--day", "2026-03-10") == (
        "2026-03-10: 1 usage rows, 1 statements changed\n"
    )
    assert say("settle", "--day", "2026-03-10").endswith("1 usage rows, 0 statements changed\n")
    assert say("settle") == "nothing to settle\n"
    assert say("close_month", "2026-03") == "2026-03: closed, 1 bills issued\n"
    assert say("close_month", "2026-03") == "2026-03 is closed already\n"
    assert say("settle", "--day", "2026-03-10") == "refused: the month of 2026-03-10 is closed\n"
    assert say("close_month", "2096-01") == "refused: 2096-01 is not over yet\n"
    assert say("settle", "--day", "2096-01-01") == "refused: 2096-01-01 has not begun yet\n"
    assert Bill.objects.get().number == 1
    assert "statements = bills: equal; statements and adjustments 0.00" in say(
        "reconcile", "2026-03"
    )
    UsageRecord.objects.all().delete()
    report = say("reconcile", "2026-03")
    assert report.endswith("refused: ")
    assert "rows = statements: 1 differences" in report
