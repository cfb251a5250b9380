"""``manage.py up`` as a person has it: started, used, stopped, started again."""

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue

import httpx
import psutil
import psycopg
import pytest

from .support import wait_until

ROOT = Path(__file__).resolve().parents[2]
START_S = 90.0
STOP_S = 60.0
pytestmark = pytest.mark.timeout(240)


def a_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Up:
    """One run in a process group of its own, as a terminal gives it."""

    def __init__(self, data: Path, port: int, **environment: str) -> None:
        kept = {k: v for k, v in os.environ.items() if k not in {"DATABASE_URL", "DEMO", "ENGINE"}}
        self.port = port
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(port)],
            cwd=ROOT,
            env={**kept, "FAIRLANE_DATA_DIR": str(data), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._queue: Queue[str | None] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        return "".join(self.lines)

    def wait_for(self, text: str, deadline_s: float = START_S) -> None:
        """Until a line holds ``text``."""
        while not any(text in line for line in self.lines):
            try:
                line = self._queue.get(timeout=deadline_s)
            except Empty:
                raise AssertionError(f"no {text!r} in time: {self.output}") from None
            assert line is not None, f"ended before {text!r}: {self.output}"
            self.lines.append(line)

    def tree(self) -> list[psutil.Process]:
        """It and all that it started, however deep."""
        mine = psutil.Process(self.process.pid)
        return [mine, *mine.children(recursive=True)]

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """What Ctrl-C does, to the end; the exit status."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
        status = self.process.wait(STOP_S)
        self._reader.join(10)
        while not self._queue.empty():
            self.lines.append(self._queue.get() or "")
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(ValueError):  # closed meanwhile
            for line in self.process.stdout:
                self._queue.put(line)
        self._queue.put(None)


BEAT = ("worker", "--beat")


def command_of(process: psutil.Process) -> list[str]:
    """Its command; of one that has ended meanwhile nothing."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


@pytest.fixture
def runs() -> Iterator[list[Up]]:
    """Runs that end with the test, whatever happens in it."""
    started: list[Up] = []
    yield started
    for run in started:
        run.process.kill()
        run.stop()


def gone(processes: list[psutil.Process]) -> bool:
    return not [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


def pasted(output: str) -> dict[str, object]:
    """What the printed line prints when pasted into a shell."""
    line = next(line.strip() for line in output.splitlines() if line.strip().startswith("curl "))
    assert shlex.split(line)[0] == "curl"
    result = subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, check=True, timeout=60
    )
    answer: dict[str, object] = json.loads(result.stdout)
    return answer


def said(answer: dict[str, object]) -> str:
    choices = answer["choices"]
    assert isinstance(choices, list)
    return str(choices[0]["message"]["content"])


def usage_rows(data: Path) -> int:
    url = (data / "database_url").read_text(encoding="utf-8").strip()
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM metering_usagerecord").fetchone()
    assert row is not None
    return int(row[0])


def test_a_day_with_make_up(open_folder: Path, runs: list[Up]) -> None:
    data = open_folder / "var"
    first = Up(data, a_port())
    runs.append(first)
    first.wait_for("Ctrl-C stops everything")
    demo = json.loads((data / "demo.json").read_text(encoding="utf-8"))
    for login in demo["logins"].values():
        assert re.search(rf"{login['username']} +{login['password']}", first.output)
    for business, key in demo["keys"].items():
        assert re.search(rf"{business} +{key}", first.output)
    assert demo["console_url"] in first.output
    assert httpx.get(f"{demo['gateway_url']}/readyz").status_code == 200
    assert said(pasted(first.output)).strip()

    # Demo traffic comes by itself, and is on record.
    wait_until(lambda: usage_rows(data) >= 10, deadline_s=60)
    rows = usage_rows(data)
    processes = first.tree()
    assert len(processes) > 6
    assert [p for p in processes if command_of(p)[1:] == [str(ROOT / "manage.py"), *BEAT]]
    assert first.stop() == 0, first.output
    wait_until(lambda: gone(processes))
    assert not (data / "database_url").exists()

    second = Up(data, a_port())
    runs.append(second)
    second.wait_for("Ctrl-C stops everything")
    again = json.loads((data / "demo.json").read_text(encoding="utf-8"))
    assert (again["keys"], again["logins"]) == (demo["keys"], demo["logins"])
    assert again["gateway_url"] == f"http://127.0.0.1:{second.port}"
    assert said(pasted(second.output)).strip()
    assert usage_rows(data) >= rows
    processes = second.tree()
    second.process.kill()
    wait_until(lambda: gone(processes), deadline_s=60)


def test_with_a_real_model_and_no_demo(open_folder: Path, runs: list[Up]) -> None:
    data = open_folder / "var"
    run = Up(data, a_port(), DEMO="0", ENGINE="llama")
    runs.append(run)
    run.wait_for("Ctrl-C stops everything")
    assert not (data / "demo.json").exists()
    environment = {**os.environ, "FAIRLANE_DATA_DIR": str(data)}
    del environment["DATABASE_URL"]

    def manage(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    # Commands in another terminal find the running database by themselves.
    fleet = open_folder / "fleet.yaml"
    fleet.write_text("businesses:\n  - {name: mine, ceiling: P1}\n", encoding="utf-8")
    manage("fleet", "apply", str(fleet))
    key = manage("key", "create", "mine").split()[-1]
    body = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 24,
        "temperature": 0,
    }
    with httpx.Client(base_url=f"http://127.0.0.1:{run.port}", timeout=60) as client:

        def asked() -> bool:
            headers = {"Authorization": f"Bearer {key}"}
            answer = client.post("/v1/chat/completions", json=body, headers=headers)
            return answer.status_code == 200 and bool(said(answer.json()).strip())

        wait_until(asked, deadline_s=60)
    processes = run.tree()
    assert run.stop(signal.SIGTERM) == 0, run.output
    wait_until(lambda: gone(processes))


def test_without_the_server_everything_ends(open_folder: Path, runs: list[Up]) -> None:
    run = Up(open_folder / "var", a_port(), DEMO="0")
    runs.append(run)
    run.wait_for("Ctrl-C stops everything")
    processes = run.tree()
    server = next(p for p in processes if "serve" in command_of(p))
    server.kill()
    assert run.process.wait(STOP_S) == 1
    run.stop()
    assert "fairlane: the server ended unexpectedly by signal 9" in run.output
    wait_until(lambda: gone(processes))


def test_a_taken_port_or_folder_is_one_line(open_folder: Path, runs: list[Up]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = Up(open_folder / "other", port, DEMO="0")
        assert refused.process.wait(START_S) == 1
        refused.stop()
    assert refused.output.startswith(f"fairlane: port {port} is taken: ")
    assert refused.output.count("\n") == 1

    run = Up(open_folder / "var", a_port(), DEMO="0")
    runs.append(run)
    run.wait_for("Ctrl-C stops everything")
    second = Up(open_folder / "var", a_port(), DEMO="0")
    assert second.process.wait(START_S) == 1
    second.stop()
    assert second.output.startswith(f"fairlane: process {run.process.pid} is running Fairlane on")
    assert second.output.count("\n") == 1
    assert run.process.poll() is None
    assert run.stop() == 0
