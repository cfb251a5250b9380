"""One server of a benchmark: started on its core, waited for, its CPU time read, stopped."""

import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import httpx
import psutil

from console.processes import spawn, stop

from .machine import BenchError, pinned

ROOT = Path(__file__).resolve().parents[1]
READY_S = 180.0
GRACE_S = 30.0


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A child process with its children, held to one core, or to two."""

    def __init__(
        self,
        name: str,
        command: list[str],
        *,
        core: int,
        env: Mapping[str, str],
        folder: Path,
        other: int | None = None,
    ) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        with self._log.open("wb") as output:
            self._process: subprocess.Popen[bytes] = spawn(
                pinned(command, core, core if other is None else other),
                env=env,
                cwd=ROOT,
                output=output,
            )

    def ready(self, url: str) -> None:
        """Wait until ``url`` answers 200. Raises BenchError when it ends or takes too long."""
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                if httpx.get(url, timeout=2.0, trust_env=False).status_code == httpx.codes.OK:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.05)
        raise BenchError(f"{self.name} did not come up at {url}\n{self.last_words()}")

    def last_words(self) -> str:
        """The last lines of what it printed."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return "\n".join(lines[-15:])

    def cpu_s(self) -> float:
        """CPU seconds so far, user and system, of all threads and of the children alive."""
        own = psutil.Process(self._process.pid)
        total = 0.0
        for process in (own, *own.children(recursive=True)):
            times = process.cpu_times()
            total += times.user + times.system
        return total

    def loop_cpu_ns(self) -> int:
        """CPU nanoseconds so far of the thread that runs the event loop: the first one of the
        only child, where the server is a supervisor and its worker."""
        (worker,) = psutil.Process(self._process.pid).children()
        spent = Path(f"/proc/{worker.pid}/task/{worker.pid}/schedstat").read_text(encoding="ascii")
        return int(spent.split()[0])

    def rss(self) -> int:
        """Resident bytes of the process and its children now."""
        own = psutil.Process(self._process.pid)
        return sum(p.memory_info().rss for p in (own, *own.children(recursive=True)))

    def stop(self) -> None:
        """End it. Safe to call twice."""
        stop(self._process, signal.SIGTERM, grace_s=GRACE_S)
