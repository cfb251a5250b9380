"""Section ``live``: what ten people who watch the live page cost the gateway, and five hundred."""

import asyncio
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import websockets

from .installation import installed
from .machine import BenchError, Cores
from .process import Server
from .report import Json, Part, rounded, table
from .upstream import Upstream
from .wrk import run, write_script

# How many watch, and what must be left of the requests per second.
CROWDS = {10: 0.95, 500: 0.90}
LEAST_PAIRS = 6
CONNECTIONS = 32
WARM_S, RATE_S, COST_S = 3, 4, 8
JOIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Pair:
    """With nobody watching and with all viewers, one after the other: requests per second,
    and CPU time of the server in microseconds a request."""

    rps_alone: float
    rps_watched: float
    us_alone: float
    us_watched: float
    frames: int

    @property
    def ratio(self) -> float:
        """What is left of the requests per second when all watch."""
        return self.rps_watched / self.rps_alone


class Viewers:
    """Sockets that read all they get, on a thread of their own, on the load's core."""

    def __init__(self, port: int, sessions: list[str]) -> None:
        self.frames = 0
        self._port = port
        self._sessions = sessions
        self._joined = threading.Semaphore(0)
        self._failure: Exception | None = None
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="viewers")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """All joined and shown a first frame, until the block ends."""
        self._thread.start()
        try:
            self._loop.call_soon_threadsafe(self._begin)
            for _ in self._sessions:
                if not self._joined.acquire(timeout=JOIN_S) or self._failure:
                    raise BenchError(f"a viewer could not join the live page: {self._failure}")
            yield
            if self._failure is not None:
                raise BenchError(f"a viewer was dropped: {self._failure}")
        finally:
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _begin(self) -> None:
        self._tasks = [self._loop.create_task(self._view(each)) for each in self._sessions]

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _view(self, session: str) -> None:
        host = f"127.0.0.1:{self._port}"
        try:
            async with websockets.connect(
                f"ws://{host}/ws/live/",
                origin=websockets.Origin(f"http://{host}"),
                additional_headers={"Cookie": f"sessionid={session}"},
                proxy=None,
            ) as socket:
                await socket.recv()
                self._joined.release()
                async for _ in socket:
                    self.frames += 1
        except (OSError, websockets.WebSocketException) as error:
            self._failure = error
            self._joined.release()


def measure(rounds: int, cores: Cores) -> Part:
    """Run the section, print its line and return its part of bench.json."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        upstream = Upstream(folder, cores)
        try:
            upstream.ready()
            with (
                installed(upstream.url, cores) as fairlane,
                fairlane.serving("all") as (server, port),
            ):
                script = write_script(folder, fairlane.key)
                crowds, costs = {}, {}
                for viewers in CROWDS:
                    sessions, pairs = fairlane.sessions(viewers), max(rounds, LEAST_PAIRS)
                    crowds[viewers] = _interleaved(server, port, script, sessions, pairs, cores)
                    costs[viewers] = _cost(server, port, sessions)
        finally:
            upstream.stop()
    figures: dict[str, Json] = {}
    for viewers, found in crowds.items():
        ratio = median(pair.ratio for pair in found)
        _show(viewers, found, ratio, costs[viewers])
        rounds_told: list[Json] = [asdict(pair) for pair in found]
        figures[str(viewers)] = {
            "viewers": viewers,
            "ratio": ratio,
            "core_share": costs[viewers],
            "rounds": rounds_told,
        }
    return {"live": rounded(figures)}


def _interleaved(
    server: Server, port: int, script: Path, sessions: list[str], pairs: int, cores: Cores
) -> list[Pair]:
    url = f"http://127.0.0.1:{port}"

    def load(seconds: int = RATE_S) -> tuple[float, float]:
        before = server.cpu_s()
        done = run(url, script, connections=CONNECTIONS, seconds=seconds, core=cores.load)
        return done.rps, (server.cpu_s() - before) * 1e6 / done.requests

    def watched() -> tuple[float, float, int]:
        viewers = Viewers(port, sessions)
        with viewers.watching():
            return *load(), viewers.frames

    load(WARM_S)
    found = []
    for number in range(pairs):
        sys.stderr.write(f"\rbench: live pair {number + 1} of {pairs}")
        # Turn about, so that a drift of the machine favours neither.
        if number % 2:
            (rps, us, frames), (rps_alone, us_alone) = watched(), load()
        else:
            (rps_alone, us_alone), (rps, us, frames) = load(), watched()
        found.append(Pair(rps_alone, rps, us_alone, us, frames))
    sys.stderr.write("\r" + " " * 40 + "\r")
    return found


def _cost(server: Server, port: int, sessions: list[str]) -> float:
    """The share of a core that the viewers take of the server while no request is made. Their
    reading takes its own from the load's core, which weighs on the pairs and not on this."""

    def share() -> float:
        before = server.cpu_s()
        time.sleep(COST_S)
        return (server.cpu_s() - before) / COST_S

    alone = share()
    with Viewers(port, sessions).watching():
        time.sleep(1.0)
        return share() - alone


def _show(viewers: int, found: list[Pair], ratio: float, cost: float) -> None:
    print(f"\nLive page: role all, {viewers} viewers, {len(found)} interleaved pairs")
    columns = {
        "requests/s, nobody watching": [pair.rps_alone for pair in found],
        f"requests/s, {viewers} viewers": [pair.rps_watched for pair in found],
        "CPU us/request, nobody watching": [pair.us_alone for pair in found],
        f"CPU us/request, {viewers} viewers": [pair.us_watched for pair in found],
        "requests/s, ratio of a pair": [pair.ratio for pair in found],
    }
    rows: list[list[Json]] = [
        [name, min(values), median(values), max(values)] for name, values in columns.items()
    ]
    print(table(["", "least", "median", "most"], rows))
    print(
        f"watched / alone: {ratio:.3f} (wanted: {CROWDS[viewers]} or more);"
        f" they take {cost:.1%} of a core while no request is made"
    )
