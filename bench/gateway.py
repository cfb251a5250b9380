"""Section ``gateway``: what each peer costs before the same upstream."""

import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from .machine import Cores
from .peers import Peer, peers
from .readers import read_streams
from .report import Json, Part, paired, rounded, table
from .upstream import Upstream
from .wrk import run, write_script

CONNECTIONS = 32
WARM_S, RATE_S, LATENCY_S = 5, 5, 3
LEAST_RATIO = 0.45
MOST_EVENT_RATIO = 1.4


@dataclass(frozen=True, slots=True)
class Round:
    """One peer in one round. ``us_per_request`` and ``us_per_event`` are CPU time of the
    peer's processes in microseconds; None where there is no process."""

    rps_c32: float
    p50_ms_c1: float
    p99_ms_c1: float
    us_per_event: float | None
    us_per_request: float | None


FIGURES = ("rps_c32", "p50_ms_c1", "p99_ms_c1", "us_per_event", "us_per_request")


def measure(rounds: int, cores: Cores) -> Part:
    """Run the section, print its table and return its part of bench.json."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        upstream = Upstream(folder, cores)
        try:
            upstream.ready()
            with peers(folder, upstream, cores) as found:
                results = _interleaved(found, folder, rounds, cores)
                memory = {
                    f"{peer.name}_rss_mib": round(peer.server.rss() / 2**20, 1)
                    for peer in found
                    if peer.server is not None
                }
        finally:
            upstream.stop()
    ratios = _ratios(results)
    _show(results, ratios)
    return {"gateway": _document(results), "ratios": rounded(ratios), "memory": rounded(memory)}


def _interleaved(
    found: list[Peer], folder: Path, rounds: int, cores: Cores
) -> dict[str, list[Round]]:
    scripts = {}
    for peer in found:
        own = folder / f"wrk-{peer.name}"
        own.mkdir()
        scripts[peer.name] = write_script(own, peer.key)
        run(
            peer.url,
            scripts[peer.name],
            connections=CONNECTIONS,
            seconds=WARM_S,
            core=cores.load,
        )
    results: dict[str, list[Round]] = {peer.name: [] for peer in found}
    for number in range(rounds):
        # Each round begins with another peer, so that none always follows the same one.
        turn = number % len(found)
        for peer in found[turn:] + found[:turn]:
            sys.stderr.write(f"\rbench: round {number + 1} of {rounds}, {peer.name:<10}")
            results[peer.name].append(_round(peer, scripts[peer.name], cores))
    sys.stderr.write("\r" + " " * 40 + "\r")
    return results


def _round(peer: Peer, script: Path, cores: Cores) -> Round:
    before = peer.server.cpu_s() if peer.server else 0.0
    many = run(peer.url, script, connections=CONNECTIONS, seconds=RATE_S, core=cores.load)
    spent = peer.server.cpu_s() - before if peer.server else None
    one = run(peer.url, script, connections=1, seconds=LATENCY_S, core=cores.load)
    return Round(
        many.rps,
        one.p50_ms,
        one.p99_ms,
        _event_cost(peer),
        None if spent is None else spent * 1e6 / many.requests,
    )


def _event_cost(peer: Peer) -> float | None:
    if peer.server is None:
        return None
    before = peer.server.cpu_s()
    events = read_streams(peer.port, peer.key)
    return (peer.server.cpu_s() - before) * 1e6 / events


def _medians(rounds: list[Round]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for name in FIGURES:
        values = [value for each in rounds if (value := getattr(each, name)) is not None]
        found[name] = median(values) if values else None
    return found


def _ratios(results: dict[str, list[Round]]) -> dict[str, Json]:
    """Fairlane's figures over bare's, as the median of the rounds' own ratios."""
    ours, bare = results["fairlane"], results["bare"]
    return {
        "fairlane_to_bare_rps_c32": paired(ours, bare, lambda r: r.rps_c32),
        "fairlane_to_bare_us_per_request": paired(ours, bare, lambda r: r.us_per_request or 0.0),
        "fairlane_to_bare_us_per_event": paired(ours, bare, lambda r: r.us_per_event or 0.0),
    }


def _document(results: dict[str, list[Round]]) -> dict[str, Json]:
    return {
        name: rounded({**_medians(rounds), "rounds": [asdict(each) for each in rounds]})
        for name, rounds in results.items()
    }


def _show(results: dict[str, list[Round]], ratios: dict[str, Json]) -> None:
    rows = [[name, *_medians(rounds).values()] for name, rounds in results.items()]
    count = len(results["bare"])
    print(f"\nGateway: one core, the same upstream, medians of {count} interleaved rounds")
    print(table(["peer", *FIGURES], rows))
    print(
        f"fairlane / bare: requests per second {ratios['fairlane_to_bare_rps_c32']:.2f}"
        f" (wanted: {LEAST_RATIO} or more),"
        f" CPU per relayed event {ratios['fairlane_to_bare_us_per_event']:.2f}"
        f" (wanted: {MOST_EVENT_RATIO} or less),"
        f" CPU per request {ratios['fairlane_to_bare_us_per_request']:.2f}"
    )
