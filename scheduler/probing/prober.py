"""The probing process as the relaying loop sees it."""

import asyncio
import contextlib
import itertools
import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from scheduler.addresses import Network

from .messages import Figures, Found, Lines, Order, Report, read_report

log = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]
# Between two starts of a process that ends by itself.
AGAIN_S = 1.0
END_S = 5.0


class Prober:
    """Belongs to one event loop, on which it is one task, whatever the size of the fleet.
    Connections lead into ``networks`` alone. ``on_found`` hears of each probe and ``on_figures``
    of each reading, unless what they are of was dropped."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self.on_found: Callable[[Found], None] = lambda found: None
        self.on_figures: Callable[[Figures], None] = lambda figures: None
        self._numbers = itertools.count()
        # All that stands: what a process that takes another's place is told first.
        self._standing = Order(networks=tuple(map(str, networks)))
        self._next = Order()
        self._due = False
        self._lines: Lines | None = None
        self._task: asyncio.Task[None] | None = None
        self._up = asyncio.Event()

    def start(self) -> None:
        """Start the process. The loop must run."""
        self._task = asyncio.create_task(self._run(), name="probing process")

    async def up(self) -> None:
        """Wait until the process runs."""
        await self._up.wait()

    async def close(self) -> None:
        """End the process. Returns when it has gone."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def probe(self, url: str) -> int:
        """Ask there each second; returns the number that verdicts will have."""
        number = next(self._numbers)
        self._standing.probe[number] = self._order().probe[number] = url
        return number

    def read(self, urls: tuple[str, ...], engine: str) -> int:
        """Read an engine's pages again and again; returns the number of their figures."""
        number = next(self._numbers)
        self._standing.read[number] = self._order().read[number] = urls, engine
        return number

    def pace(self, every_s: float, window_s: float) -> None:
        """How often pages are read, and over how long their figures are averaged."""
        for order in (self._standing, self._order()):
            order.metrics_every_s, order.metrics_window_s = every_s, window_s

    def drop(self, number: int) -> None:
        """Probe or read it no more."""
        self._standing.probe.pop(number, None)
        self._standing.read.pop(number, None)
        self._order().drop.append(number)

    def hurry(self, number: int) -> None:
        """Probe it at once."""
        self._order().hurry.append(number)

    def _order(self) -> Order:
        """The order that goes out with the loop's next turn."""
        if not self._due and self._lines is not None:
            self._due = True
            asyncio.get_running_loop().call_soon(self._send)
        return self._next

    def _send(self) -> None:
        order, self._next, self._due = self._next, Order(), False
        if self._lines is not None:
            self._lines.send(order)

    def _hear(self, line: bytes) -> None:
        self._up.set()
        try:
            self._take(read_report(line))
        except Exception:  # a fault of whoever hears one report must not cost the process
            log.exception("what the probes have found was not taken in")

    def _take(self, report: Report) -> None:
        standing = self._standing
        for found in report.found:
            if found.number in standing.probe:
                self.on_found(found)
        for figures in report.figures:
            if figures.number in standing.read:
                self.on_figures(figures)
        for fault in report.faults:
            log.error("probing: %s", fault)

    async def _run(self) -> None:
        """One process after another, should one end."""
        while True:
            try:
                ended = await self._live()
            except OSError as error:
                ended = str(error)
            log.error("the probing process has ended (%s): another one follows", ended)
            await asyncio.sleep(AGAIN_S)

    async def _live(self) -> str:
        """One process, until it has gone; how it went."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                process = _spawn(theirs)
            lines = Lines(self._hear)
            try:
                await asyncio.get_running_loop().create_unix_connection(lambda: lines, sock=ours)
                self._lines, self._next = lines, Order()
                lines.send(self._standing)
                await lines.closed.wait()
            finally:
                self._lines = None
                lines.close()
                ours.close()
                await asyncio.to_thread(_end, process)
        return f"exit status {process.returncode}"


def _spawn(line: socket.socket) -> "subprocess.Popen[bytes]":
    """It ends when the other end of its line is closed, by whatever that came about."""
    return subprocess.Popen(
        [sys.executable, "-m", "scheduler.probing"],
        cwd=ROOT,
        stdin=line.fileno(),
        stdout=subprocess.DEVNULL,
        # A terminal's Ctrl-C is for whoever started us.
        start_new_session=True,
    )


def _end(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_S)
        return
    process.kill()
    process.wait()
