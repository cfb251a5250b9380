"""Section ``metering``: what usage rows and limits cost the gateway."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from .installation import BUSINESS, Installation, installed
from .machine import Cores
from .process import Server, free_port
from .report import Json, Part, rounded, table
from .upstream import Upstream
from .wrk import run, write_script

LEAST_PAIRS = 10
CONNECTIONS = 32
WARM_S, RATE_S = 3, 4
LEAST_RATIO = 0.95


@dataclass(frozen=True, slots=True)
class Side:
    """A gateway, and the script that loads it."""

    port: int
    script: Path
    server: Server


@dataclass(frozen=True, slots=True)
class Pair:
    """With usage rows and limits, and with neither, one after the other: requests per second,
    and CPU time of the server in microseconds a request."""

    rps_metered: float
    rps_null: float
    us_metered: float
    us_null: float


def measure(rounds: int, cores: Cores) -> Part:
    """Run the section, print its table and return its part of bench.json."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        folder = Path(name)
        upstream = Upstream(folder, cores)
        stack.callback(upstream.stop)
        upstream.ready()
        installation = stack.enter_context(installed(upstream.url, cores))
        null = stack.enter_context(_unmetered(installation, folder))
        metered = stack.enter_context(_metered(installation, folder))
        pairs = _pairs(metered, null, max(LEAST_PAIRS, 2 * rounds), cores)
    figures = {name: median(asdict(each)[name] for each in pairs) for name in asdict(pairs[0])}
    ratio = median(each.rps_metered / each.rps_null for each in pairs)
    _show(figures, ratio, len(pairs))
    document: dict[str, Json] = {**figures, "pairs": [asdict(each) for each in pairs]}
    return {"metering": rounded(document), "ratios": rounded({"metered_to_null_rps_c32": ratio})}


@contextmanager
def _metered(installation: Installation, folder: Path) -> Iterator[Side]:
    """As people install it, called with a key that has every limit."""
    key = installation.run("-m", "bench.limits", BUSINESS)
    with installation.serving("gateway") as (server, port):
        yield Side(port, _script(folder, "metered", key), server)


@contextmanager
def _unmetered(installation: Installation, folder: Path) -> Iterator[Side]:
    """With a sink that keeps nothing, called with a key that has no limit."""
    port = free_port()
    server = Server(
        "unmetered",
        [sys.executable, "-m", "bench.unmetered", "--port", str(port)],
        core=installation.cores.gateway,
        env=installation.environment,
        folder=installation.folder,
    )
    try:
        server.ready(f"http://127.0.0.1:{port}/readyz")
        yield Side(port, _script(folder, "null", installation.key), server)
    finally:
        server.stop()


def _script(folder: Path, name: str, key: str) -> Path:
    own = folder / name
    own.mkdir()
    return write_script(own, key)


def _pairs(metered: Side, null: Side, count: int, cores: Cores) -> list[Pair]:
    for side in (metered, null):
        _load(side, WARM_S, cores)
    pairs = []
    for number in range(count):
        sys.stderr.write(f"\rbench: pair {number + 1} of {count}")
        # Each pair begins with the other side.
        first, second = (metered, null) if number % 2 else (null, metered)
        found = {side.port: _load(side, RATE_S, cores) for side in (first, second)}
        (rps, us), (null_rps, null_us) = found[metered.port], found[null.port]
        pairs.append(Pair(rps, null_rps, us, null_us))
    sys.stderr.write("\r" + " " * 40 + "\r")
    return pairs


def _load(side: Side, seconds: int, cores: Cores) -> tuple[float, float]:
    """Requests per second, and CPU time of the server in microseconds a request."""
    before = side.server.cpu_s()
    url = f"http://127.0.0.1:{side.port}"
    done = run(url, side.script, connections=CONNECTIONS, seconds=seconds, core=cores.load)
    return done.rps, (side.server.cpu_s() - before) * 1e6 / done.requests


def _show(figures: dict[str, float], ratio: float, count: int) -> None:
    print(f"\nMetering: one core, medians of {count} interleaved pairs")
    rows: list[list[Json]] = [
        ["usage rows, every limit", figures["rps_metered"], figures["us_metered"]],
        ["neither", figures["rps_null"], figures["us_null"]],
    ]
    print(table(["gateway", "rps_c32", "us_per_request"], rows))
    print(f"with / without: requests per second {ratio:.3f} (wanted: {LEAST_RATIO} or more)")
