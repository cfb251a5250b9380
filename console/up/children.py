"""The processes that the supervisor keeps running, and how they end."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from console.processes import spawn

from .errors import UpError
from .signals import Signals

RESTART_FIRST_S = 1.0
RESTART_MOST_S = 30.0
# A process that ran this long was well; its next failure counts as its first.
SETTLED_S = 60.0


@dataclass(slots=True)
class Child:
    """``log``: where its output goes, None for ours; ``essential``: nothing runs without it."""

    name: str
    command: list[str]
    log: Path | None = None
    essential: bool = False
    grace_s: float = 10.0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    started_at: float = 0.0
    failures: int = 0
    restart_at: float | None = None


class Children:
    """Starts children, restarts those that may fail, and ends them in reverse order."""

    def __init__(
        self, signals: Signals, *, env: Mapping[str, str], cwd: Path, say: Callable[[str], None]
    ) -> None:
        self._signals = signals
        self._env = dict(env)
        self._cwd = cwd
        self._say = say
        self._children: list[Child] = []

    def start(self, child: Child) -> None:
        """Start ``child`` and look after it from now on."""
        self._children.append(child)
        self._launch(child)

    def run(self, name: str, command: list[str]) -> None:
        """Run a command to its end; UpError if it fails, and early return on a wish to stop."""
        child = Child(name, command)
        self._launch(child)
        while child.process is not None and not self._ended(child.process):
            if self._signals.stopping:
                self._end(child, time.monotonic() + child.grace_s)
                return
            self._signals.wait(1.0)
        if child.process is not None and child.process.wait() != 0:
            raise UpError(f"{name} failed, see above")

    def look(self) -> None:
        """Restart what has ended and is due; UpError when something essential has ended."""
        now = time.monotonic()
        for child in self._children:
            if child.process is not None and self._ended(child.process):
                self._buried(child, now)
            if child.process is None and child.restart_at is not None and now >= child.restart_at:
                self._launch(child)

    def next_look_s(self) -> float:
        """Seconds until a restart is due; long when none is."""
        due = [child.restart_at for child in self._children if child.restart_at is not None]
        return max(0.0, min(due) - time.monotonic()) if due else 60.0

    def stop(self) -> None:
        """End all, the last started first; a second Ctrl-C cuts their grace short."""
        for child in reversed(self._children):
            self._end(child, time.monotonic() + child.grace_s)
        self._children.clear()

    def _launch(self, child: Child) -> None:
        with ExitStack() as stack:
            output = None
            if child.log is not None:
                child.log.parent.mkdir(parents=True, exist_ok=True)
                output = stack.enter_context(child.log.open("wb"))
            try:
                child.process = spawn(child.command, env=self._env, cwd=self._cwd, output=output)
            except OSError as error:
                raise UpError(f"{child.name} cannot be started: {error.strerror}") from None
        child.started_at = time.monotonic()
        child.restart_at = None

    def _buried(self, child: Child, now: float) -> None:
        assert child.process is not None
        _kill_group(child.process.pid)
        code = child.process.wait()
        child.process = None
        how = f"by signal {-code}" if code < 0 else f"with exit status {code}"
        where = f", see {child.log}" if child.log else ""
        if child.essential:
            raise UpError(f"{child.name} ended unexpectedly {how}{where}")
        child.failures = 1 if now - child.started_at > SETTLED_S else child.failures + 1
        delay = min(RESTART_MOST_S, RESTART_FIRST_S * 2 ** (child.failures - 1))
        child.restart_at = now + delay
        self._say(f"{child.name} ended {how}{where}; starting it again in {delay:.0f} s")

    def _end(self, child: Child, deadline: float) -> None:
        process = child.process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        while not self._ended(process):
            left = deadline - time.monotonic()
            if left <= 0 or self._signals.impatient:
                self._say(f"{child.name} did not stop in time and was killed")
                break
            self._signals.wait(left)
        _kill_group(process.pid)
        process.wait()
        child.process = None

    @staticmethod
    def _ended(process: subprocess.Popen[bytes]) -> bool:
        """Whether it has ended, left unreaped so that its number stays its own for a while."""
        if process.returncode is not None:
            return True
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, process.pid, flags) is not None


def _kill_group(leader: int) -> None:
    """End what the child itself had started; ``leader`` must not have been reaped yet."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
