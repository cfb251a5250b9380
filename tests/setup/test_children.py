"""The supervisor's children: started again, or the end of everything; never left behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from console.config.env import Env
from console.up import children as module
from console.up import signals as signals_module
from console.up.children import Child, Children
from console.up.errors import UpError
from console.up.options import check_port, free_port, read_options
from console.up.signals import Signals

from .support import wait_until

ROOT = Path(__file__).resolve().parents[2]


class Stage:
    """A supervisor's parts, and what it said."""

    def __init__(self, signals: Signals) -> None:
        self.signals = signals
        self.said: list[str] = []
        self.children = Children(signals, env=os.environ, cwd=Path("/"), say=self.said.append)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Signals() as signals:
        stage = Stage(signals)
        yield stage
        stage.children.stop()


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


SLEEP = python("import time; time.sleep(600)")


def pid_of(child: Child) -> int:
    assert child.process is not None
    return child.process.pid


def test_a_replica_that_dies_is_started_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESTART_FIRST_S", 0.05)
    child = Child("replica card-1", SLEEP)
    stage.children.start(child)
    first = pid_of(child)
    os.kill(first, signal.SIGKILL)

    def again() -> bool:
        stage.children.look()
        stage.signals.wait(min(0.05, stage.children.next_look_s()))
        return child.process is not None and child.process.pid != first

    wait_until(again)
    assert "replica card-1 ended by signal 9; starting it again" in stage.said[0]


def test_a_failing_replica_is_started_less_and_less_often(stage: Stage) -> None:
    child = Child("replica card-1", python("raise SystemExit(3)"), failures=3)
    stage.children.start(child)

    def noticed() -> bool:
        stage.children.look()
        return bool(stage.said)

    wait_until(noticed)
    assert "with exit status 3; starting it again in 8 s" in stage.said[0]
    assert 0 < stage.children.next_look_s() <= 8


def test_without_the_server_nothing_goes_on(stage: Stage) -> None:
    stage.children.start(Child("the server", python("raise SystemExit(5)"), essential=True))

    def look() -> bool:
        stage.children.look()
        return False

    with pytest.raises(UpError, match="the server ended unexpectedly with exit status 5"):
        wait_until(look)


def test_the_last_started_stops_first(stage: Stage, tmp_path: Path) -> None:
    order = tmp_path / "order"
    code = (
        "import signal, sys, time\n"
        "def bye(*_):\n"
        "    open(sys.argv[1], 'a').write(sys.argv[2]); sys.exit()\n"
        "signal.signal(signal.SIGTERM, bye)\n"
        "open(sys.argv[1] + sys.argv[2], 'w').close()\n"
        "time.sleep(600)\n"
    )
    for name in "abc":
        stage.children.start(Child(name, [*python(code), str(order), name]))
        wait_until((tmp_path / f"order{name}").exists)
    stage.children.stop()
    assert order.read_text() == "cba"


DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(str(inner.pid))
time.sleep(600)
"""


def written_pid(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text().isdigit())
    return int(path.read_text())


def test_a_deaf_child_is_killed_with_its_own_children(stage: Stage, tmp_path: Path) -> None:
    child = Child("deaf", [*python(DEAF), str(tmp_path / "inner")], grace_s=0.2)
    stage.children.start(child)
    outer, inner = pid_of(child), written_pid(tmp_path / "inner")
    stage.children.stop()
    assert not psutil.pid_exists(outer)
    wait_until(lambda: not alive(inner))
    assert stage.said == ["deaf did not stop in time and was killed"]


def test_a_second_ctrl_c_cuts_the_grace_short(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.children.start(Child("deaf", [*python(DEAF), str(tmp_path / "inner")], grace_s=3600))
    written_pid(tmp_path / "inner")
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    assert stage.signals.stopping
    assert not stage.signals.impatient, "one wish that came in by three ways"
    monkeypatch.setattr(signals_module, "ONE_WISH_S", 0.0)
    os.kill(os.getpid(), signal.SIGINT)
    stage.children.stop()


def test_children_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from console.up.children import Child, Children\n"
        "from console.up.signals import Signals\n"
        "with Signals() as signals:\n"
        "    children = Children(signals, env=os.environ, cwd=Path('/'), say=print)\n"
        "    child = Child('one', [sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "    children.start(child)\n"
        "    print(child.process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen(python(code), cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert alive(pid)
        owner.kill()
        wait_until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    """Whether it runs: a process that waits to be reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_command_that_fails_ends_the_start(stage: Stage) -> None:
    stage.children.run("a good one", python("pass"))
    with pytest.raises(UpError, match="preparing the database failed, see above"):
        stage.children.run("preparing the database", python("raise SystemExit(1)"))


def test_a_wish_to_stop_ends_a_command(stage: Stage) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    stage.children.run("a long one", SLEEP)


def test_a_taken_port_is_said_in_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UpError, match=rf"^port {port} is taken: .*PORT=\d+$"):
            check_port(port)
        assert free_port(port, set()) != port
    check_port(port)
    assert free_port(port, set()) == port
    assert free_port(port, {port}) != port


def test_options_come_from_the_environment(tmp_path: Path) -> None:
    options = read_options(
        Env({"PORT": "8123", "DEMO": "0", "ENGINE": "llama"}),
        root=ROOT,
        data_dir=tmp_path,
        port=None,
    )
    assert (options.port, options.demo, options.llama) == (8123, False, True)
    assert options.base_url == "http://127.0.0.1:8123"
    plain = read_options(Env({"PORT": "1"}), root=ROOT, data_dir=tmp_path, port=9000)
    assert (plain.port, plain.demo, plain.llama, plain.database_url) == (9000, True, False, "")


@pytest.mark.parametrize(
    ("name", "value"), [("ENGINE", "vllm"), ("DEMO", "maybe"), ("PORT", "http")]
)
def test_a_value_that_is_not_understood_names_its_variable(
    name: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read_options(Env({name: value}), root=ROOT, data_dir=tmp_path, port=None)
    assert capsys.readouterr().err.startswith(f"fairlane: {name}: ")
