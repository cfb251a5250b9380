"""Section ``probes``: what a thousand replicas under watch cost the answers that are relayed.

One server relays the same even streams with its own replica alone, and with a thousand more
beside it that are probed and read and get no request. Each event says when it was sent.
"""

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from statistics import median

import httpx

from .events import SENT
from .installation import BUSINESS, SLOTS, Installation, furnished
from .machine import BenchError, Cores
from .probed import Probed
from .process import Server
from .readers import request
from .report import Json, Part, paired, rounded, table
from .upstream import MODEL, Upstream

CROWD = 1000
STREAMS = 32
READ_S = 8.0
FOLLOW_S = 180.0
# The CPU time of a second that the loop takes while nothing is relayed, at most.
MOST_AT_REST_NS = 100_000_000
LEAST_PAIRS = 5
MOST_RATIO = 1.05
BODY = json.dumps(
    {"model": "chat", "prompt": "Is it late?", "max_tokens": 100_000, "stream": True}
    | {"tell_sent": True}
).encode()
FLEET = """
pools:
  - {{name: gpu, kind: elastic, lanes: [P0, P1, P2]}}
models:
  - {{name: chat, weight: medium, task: chat, realtime: medium}}
  - {{name: other, weight: medium, task: chat, realtime: medium}}
businesses:
  - {{name: {business}, grade: premium, ceiling: P1}}
replicas:
  - {{name: upstream, url: "{url}", engine: vllm, pool: gpu, slots: {slots}, gpus: 1,
     models: {{chat: {model}}}}}
"""
WATCHED = """\
  - {{name: watched-{number}, url: "{url}", engine: vllm, pool: gpu, slots: 8, gpus: 1,
     models: {{other: {model}}}}}
"""
FIGURES = ("loop_us", "process_us", "p50_ms", "p99_ms", "p999_ms")


@dataclass(frozen=True, slots=True)
class Reading:
    """Some seconds of relaying: CPU time of the thread that relays and of all of the server,
    in microseconds an event; from the sending of an event to its reading, in milliseconds."""

    loop_us: float
    process_us: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    events: int


def measure(rounds: int, cores: Cores) -> Part:
    """Run the section, print its table and return its part of bench.json."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        upstream, probed = Upstream(folder, cores), Probed(folder, cores, CROWD)
        try:
            upstream.ready()
            probed.ready()
            few, many = _fleets(folder, upstream, probed)
            with (
                furnished(few.read_text(), [BUSINESS], cores) as fairlane,
                fairlane.serving("gateway", everywhere=True) as (server, port),
            ):
                pairs = _interleaved(fairlane, server, port, few, many, max(rounds, LEAST_PAIRS))
        finally:
            probed.stop()
            upstream.stop()
    return {"probes": rounded(_told(pairs))}


def _fleets(folder: Path, upstream: Upstream, probed: Probed) -> tuple[Path, Path]:
    """The fleet of one replica, and that of a thousand more, as files."""
    alone = FLEET.format(url=upstream.url, slots=SLOTS, model=MODEL, business=BUSINESS)
    crowd = alone + "".join(
        WATCHED.format(number=number, url=url, model=MODEL)
        for number, url in enumerate(probed.urls)
    )
    few, many = folder / "few.yaml", folder / "many.yaml"
    few.write_text(alone, encoding="utf-8")
    many.write_text(crowd, encoding="utf-8")
    return few, many


def _interleaved(
    fairlane: Installation, server: Server, port: int, few: Path, many: Path, pairs: int
) -> list[tuple[Reading, Reading]]:
    def reading(fleet: Path, replicas: int) -> Reading:
        fairlane.manage("fleet", "apply", str(fleet), "--prune")
        _followed(server, port, replicas)
        return _read(server, port, fairlane.key)

    found = []
    for number in range(pairs):
        sys.stderr.write(f"\rbench: probes pair {number + 1} of {pairs}")
        # Turn about, so that a drift of the machine favours neither.
        if number % 2:
            after, before = reading(many, CROWD + 1), reading(few, 1)
        else:
            before, after = reading(few, 1), reading(many, CROWD + 1)
        found.append((before, after))
    sys.stderr.write("\r" + " " * 40 + "\r")
    return found


def _followed(server: Server, port: int, replicas: int) -> None:
    """Wait until so many replicas are in service, their figures known, and the loop at rest
    from having taken them in. Raises BenchError."""
    deadline = time.monotonic() + FOLLOW_S
    while time.monotonic() < deadline:
        text = _page(port)
        ready = text.count('state="ready"} 1.0')
        if ready == replicas and text.count("fairlane_replica_queue_depth{") >= replicas - 1:
            before = server.loop_cpu_ns()
            time.sleep(1.0)
            if server.loop_cpu_ns() - before < MOST_AT_REST_NS:
                return
        time.sleep(0.2)
    raise BenchError(f"not {replicas} replicas in service within {FOLLOW_S:g} s")


def _page(port: int) -> str:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
    except httpx.HTTPError:
        return ""


def _read(server: Server, port: int, key: str) -> Reading:
    return asyncio.run(_watch(server, port, key))


async def _watch(server: Server, port: int, key: str) -> Reading:
    """Read all streams for some seconds."""
    loop = asyncio.get_running_loop()
    asked = request(port, key, BODY)
    late: list[int] = []
    made = [
        await loop.create_connection(lambda: Watcher(asked, late), "127.0.0.1", port)
        for _ in range(STREAMS)
    ]
    await asyncio.sleep(1.0)
    late.clear()
    before, whole = server.loop_cpu_ns(), server.cpu_s()
    await asyncio.sleep(READ_S)
    spent, spent_whole = server.loop_cpu_ns() - before, server.cpu_s() - whole
    found = sorted(late)
    for transport, watcher in made:
        if watcher.broken:
            raise BenchError(f"a stream broke off: {watcher.broken!r}\n{server.last_words()}")
        transport.close()
    count = len(found)
    if not count:
        raise BenchError("no event came")
    p50, p99, p999 = (found[round(q * (count - 1))] / 1e6 for q in (0.5, 0.99, 0.999))
    return Reading(spent / 1e3 / count, spent_whole * 1e6 / count, p50, p99, p999, count)


class Watcher(asyncio.Protocol):
    """One caller: notes how long each event took."""

    def __init__(self, asked: bytes, late: list[int]) -> None:
        self.broken = b""
        self._asked = asked
        self._late = late
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._asked)

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        now = time.monotonic_ns()
        found = SENT.findall(data)
        self._late.extend(now - int(sent) for sent in found)
        if not found and not data.startswith(b"HTTP/1.1 200"):
            self.broken = self.broken or data[:200]


def _told(pairs: list[tuple[Reading, Reading]]) -> dict[str, Json]:
    few, many = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    ratios = {name: paired(many, few, attrgetter(name)) for name in FIGURES}
    print(f"\nProbes: {STREAMS} streams beside 0 and {CROWD:,} replicas under watch,", end=" ")
    print(f"medians of {len(pairs)} interleaved pairs")
    rows: list[list[Json]] = [
        [name, *(median(getattr(r, name) for r in side) for side in (few, many)), ratios[name]]
        for name in FIGURES
    ]
    print(table(["", "0", f"{CROWD:,}", "ratio of a pair"], rows))
    print(
        f"CPU of the relaying loop an event: {ratios['loop_us']:.3f} (wanted: {MOST_RATIO} or less)"
    )
    return {
        "ratios": ratios,
        "alone": [asdict(each) for each in few],
        "watched": [asdict(each) for each in many],
    }
