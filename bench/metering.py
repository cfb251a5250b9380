"""Section ``metering``: what usage rows cost the gateway, and what every limit costs beside."""

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
from .report import Json, Part, paired, rounded, table
from .upstream import Upstream
from .wrk import run, write_script

LEAST_ROUNDS = 10
CONNECTIONS = 32
WARM_S = 3
# A round is made of slices in which the sides take turns: what else the machine does
# meanwhile then meets all of them alike.
SLICES, SLICE_S = 2, 2
LEAST_RATIO = 0.95
LABELS = {
    "null": "no usage rows",
    "metered": "usage rows",
    "limited": "usage rows, a key with every limit",
}


@dataclass(frozen=True, slots=True)
class Side:
    """A gateway as it is called by one key."""

    server: Server
    port: int
    script: Path


@dataclass(frozen=True, slots=True)
class Figures:
    """Requests per second, and CPU time of the server in microseconds a request."""

    rps_c32: float
    us_per_request: float


Results = dict[str, list[Figures]]


def measure(rounds: int, cores: Cores) -> Part:
    """Run the section, print its table and return its part of bench.json."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name, ExitStack() as stack:
        folder = Path(name)
        upstream = Upstream(folder, cores)
        stack.callback(upstream.stop)
        upstream.ready()
        installation = stack.enter_context(installed(upstream.url, cores))
        null, port = stack.enter_context(_unmetered(installation))
        sides = {"null": Side(null, port, _script(folder, "null", installation.key))}
        limited = installation.run("-m", "bench.limits", BUSINESS)
        server, port = stack.enter_context(installation.serving("gateway"))
        for side, key in (("metered", installation.key), ("limited", limited)):
            sides[side] = Side(server, port, _script(folder, side, key))
        results = _interleaved(sides, max(LEAST_ROUNDS, 2 * rounds), cores)
    ratios = {
        f"{side}_to_null_rps_c32": paired(results[side], results["null"], lambda r: r.rps_c32)
        for side in ("metered", "limited")
    }
    _show(results, ratios)
    document = {side: [asdict(each) for each in found] for side, found in results.items()}
    return {"metering": rounded(document), "ratios": rounded(ratios)}


@contextmanager
def _unmetered(installation: Installation) -> Iterator[tuple[Server, int]]:
    """The gateway with a sink that keeps nothing."""
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
        yield server, port
    finally:
        server.stop()


def _script(folder: Path, name: str, key: str) -> Path:
    own = folder / name
    own.mkdir()
    return write_script(own, key)


def _interleaved(sides: dict[str, Side], rounds: int, cores: Cores) -> Results:
    for side in sides.values():
        _load(side, WARM_S, cores)
    results: Results = {name: [] for name in sides}
    names = list(sides)
    for number in range(rounds):
        sys.stderr.write(f"\rbench: round {number + 1} of {rounds}")
        slices: Results = {name: [] for name in sides}
        for turn in range(SLICES):
            # Each slice begins with another side, so that none always follows the same one.
            first = (number + turn) % len(names)
            for name in names[first:] + names[:first]:
                slices[name].append(_load(sides[name], SLICE_S, cores))
        for name, found in slices.items():
            results[name].append(_together(found))
    sys.stderr.write("\r" + " " * 40 + "\r")
    return results


def _together(slices: list[Figures]) -> Figures:
    """The slices of a round as one."""
    requests = sum(each.rps_c32 for each in slices)
    spent = sum(each.us_per_request * each.rps_c32 for each in slices)
    return Figures(requests / len(slices), spent / requests)


def _load(side: Side, seconds: int, cores: Cores) -> Figures:
    before = side.server.cpu_s()
    url = f"http://127.0.0.1:{side.port}"
    done = run(url, side.script, connections=CONNECTIONS, seconds=seconds, core=cores.load)
    return Figures(done.rps, (side.server.cpu_s() - before) * 1e6 / done.requests)


def _show(results: Results, ratios: dict[str, float]) -> None:
    rows: list[list[Json]] = [
        [
            LABELS[name],
            median(each.rps_c32 for each in found),
            median(each.us_per_request for each in found),
        ]
        for name, found in results.items()
    ]
    count = len(results["null"])
    print(f"\nMetering: one core, medians of {count} interleaved rounds")
    print(table(["gateway", "rps_c32", "us_per_request"], rows))
    print(
        "requests per second with usage rows / without:"
        f" {ratios['metered_to_null_rps_c32']:.3f} (wanted: {LEAST_RATIO} or more),"
        f" with every limit as well / without: {ratios['limited_to_null_rps_c32']:.3f}"
    )
