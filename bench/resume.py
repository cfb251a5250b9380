"""Section ``resume``: what making room costs, urgent callers and low ones.

An emulated card full of low streams, and an urgent call every so often: how long until its
first token, and how many low callers got an error, with preemption, without it, and behind
a gateway that kills. Then the CPU time of relaying an event: one that may be carried over to
another replica, an ordinary one, and the bare proxy's.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import aiohttp

from .installation import Installation, furnished
from .machine import Cores
from .peers import Peer, peers
from .process import Server, free_port
from .readers import BODY, read_streams
from .report import Json, Part, rounded, table
from .upstream import MODEL, Upstream

SLOTS = 8
LOW_TOKENS, URGENT_TOKENS = 400, 12
URGENT_EVERY_S = 0.4
URGENT_CALLS = 40
MOST_P95_MS = 150.0
MOST_ORDINARY, MOST_RESUMABLE = 1.4, 2.3
# A field that binds an answer to more than its text: such a stream is not carried over.
ORDINARY = json.dumps(json.loads(BODY) | {"suffix": "."}).encode()
FLEET = """
pools:
  - {{name: gpu, kind: elastic, lanes: [P0, P1, P2]}}
models:
  - {{name: chat, weight: medium, task: chat, realtime: medium}}
replicas:
  - {{name: card, url: "{url}", engine: vllm, pool: gpu, slots: {slots}, gpus: 1,
     models: {{chat: {model}}}}}
businesses:
  - {{name: urgent, grade: vip, ceiling: P0, realtime: high, billing_sla: true}}
  - {{name: low, grade: basic, ceiling: P2, offline: true}}
"""


@dataclass(slots=True)
class Seen:
    """What callers saw: ms until an urgent call's first token, low streams that ended in an
    error, and those that came to their end."""

    waits: list[float] = field(default_factory=list)
    errors: int = 0
    whole: int = 0

    @property
    def p95(self) -> float:
        """By nearest rank."""
        return sorted(self.waits)[max(0, round(0.95 * len(self.waits)) - 1)]


def measure(rounds: int, cores: Cores) -> Part:
    """Run the section, print its tables and return its part of bench.json."""
    seen = _urgent(cores)
    costs = _events(min(rounds, 3), cores)
    rows: list[list[Json]] = [
        [name, median(s.waits), s.p95, s.errors, s.whole] for name, s in seen.items()
    ]
    print(f"\nMaking room: {URGENT_CALLS} urgent calls on a card of {SLOTS} slots full of low work")
    print(table(["gateway", "p50_ms", "p95_ms", "low errors", "low whole"], rows))
    print(f"wanted: P95 with preemption under {MOST_P95_MS:.0f} ms, and no error")
    ordinary, resumable = (costs[n] / costs["bare"] for n in ("ordinary", "resumable"))
    print("\nCPU time per relayed event")
    print(table(["stream", "us_per_event"], [[name, cost] for name, cost in costs.items()]))
    print(
        f"over bare: ordinary {ordinary:.2f} (wanted: {MOST_ORDINARY} or less),"
        f" resumable {resumable:.2f} (wanted: {MOST_RESUMABLE} or less)"
    )
    figures: dict[str, Json] = {
        name: {"p50_ms": median(s.waits), "p95_ms": s.p95, "errors": s.errors, "whole": s.whole}
        for name, s in seen.items()
    }
    ratios: dict[str, Json] = {
        "ordinary_to_bare_us_per_event": ordinary,
        "resumable_to_bare_us_per_event": resumable,
    }
    return {"resume": rounded(figures | {"us_per_event": costs}), "ratios": rounded(ratios)}


def _urgent(cores: Cores) -> dict[str, Seen]:
    found: dict[str, Seen] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        card = stack.enter_context(_card(folder, cores))
        fleet = FLEET.format(url=card, slots=SLOTS, model=MODEL)
        site = stack.enter_context(furnished(fleet, ["urgent", "low"], cores))
        for name, enabled in (("preemption", True), ("none", False)):
            _allow(site, enabled)
            with site.serving("gateway") as (_, port):
                found[name] = asyncio.run(drive(port, site.keys["urgent"], site.keys["low"]))
        with _killing(folder, card, cores) as port:
            found["kills"] = asyncio.run(drive(port, "urgent", "low", model=MODEL))
    return found


def _allow(site: Installation, enabled: bool) -> None:
    path = site.folder / "policy.yaml"
    flag = str(enabled).lower()
    # Nobody is to be refused, however long urgent callers wait without it.
    text = (
        f"scheduler:\n  preemption: {{enabled: {flag}}}\n"
        "  backpressure: {action: []}\n  admission: {latency_budget: false}\n"
    )
    path.write_text(text, encoding="utf-8")
    site.manage("policy", "import", str(path), "--activate", "--reason", "benchmark")


@contextmanager
def _card(folder: Path, cores: Cores) -> Iterator[str]:
    """An emulated card; its address."""
    port = free_port()
    command = [sys.executable, "-m", "scheduler.emulator", "--port", str(port)]
    command += ["--model", MODEL, "--slots", str(SLOTS)]
    server = Server("card", command, core=cores.load, env=os.environ, folder=folder)
    try:
        server.ready(f"http://127.0.0.1:{port}/health")
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


@contextmanager
def _killing(folder: Path, card: str, cores: Cores) -> Iterator[int]:
    """The gateway that kills; its port."""
    port = free_port()
    command = [sys.executable, "-m", "bench.killer", "--port", str(port)]
    command += ["--upstream", card, "--slots", str(SLOTS)]
    server = Server("killer", command, core=cores.gateway, env=os.environ, folder=folder)
    try:
        server.ready(f"http://127.0.0.1:{port}/health")
        yield port
    finally:
        server.stop()


async def drive(
    port: int,
    urgent: str,
    low: str,
    *,
    model: str = "chat",
    calls: int = URGENT_CALLS,
    every_s: float = URGENT_EVERY_S,
) -> Seen:
    """Keep all slots busy with low streams while the urgent calls are made."""
    seen = Seen()
    limits = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", connector=limits) as session:
        lows = [
            asyncio.create_task(_lows(session, low, model, number, seen)) for number in range(SLOTS)
        ]
        await asyncio.sleep(2 * every_s)
        made = []
        for _ in range(calls):
            made.append(asyncio.create_task(_one(session, urgent, model, URGENT_TOKENS, "now")))
            await asyncio.sleep(every_s)
        for first, whole in await asyncio.gather(*made):
            assert whole
            seen.waits.append(first * 1000)
        for task in lows:
            task.cancel()
        await asyncio.gather(*lows, return_exceptions=True)
    return seen


async def _lows(
    session: aiohttp.ClientSession, key: str, model: str, number: int, seen: Seen
) -> None:
    while True:
        _, whole = await _one(session, key, model, LOW_TOKENS, f"report {number}")
        seen.whole += whole
        seen.errors += not whole


async def _one(
    session: aiohttp.ClientSession, key: str, model: str, tokens: int, prompt: str
) -> tuple[float, bool]:
    """Seconds until the first token, and whether the stream came to its end."""
    body = {"model": model, "prompt": prompt, "max_tokens": tokens, "ignore_eos": True}
    headers = {"Authorization": f"Bearer {key}"}
    begun, first, tail = time.perf_counter(), 0.0, b""
    async with session.post(
        "/v1/completions", json=body | {"stream": True}, headers=headers
    ) as got:
        async for chunk in got.content.iter_any():
            if not first and b"data: {" in chunk:
                first = time.perf_counter() - begun
            tail = (tail + chunk)[-300:]
    return first, b"[DONE]" in tail


def _events(rounds: int, cores: Cores) -> dict[str, float]:
    """us of CPU per event, the median over rounds in which all take turns."""
    costs: dict[str, list[float]] = {"bare": [], "ordinary": [], "resumable": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        upstream = Upstream(folder, cores)
        try:
            upstream.ready()
            with peers(folder, upstream, cores) as found:
                by_name = {peer.name: peer for peer in found}
                for _ in range(rounds + 1):
                    costs["bare"].append(_cost(by_name["bare"], BODY))
                    costs["ordinary"].append(_cost(by_name["fairlane"], ORDINARY))
                    costs["resumable"].append(_cost(by_name["fairlane"], BODY))
        finally:
            upstream.stop()
    # The first round warms up.
    return {name: median(values[1:]) for name, values in costs.items()}


def _cost(peer: Peer, body: bytes) -> float:
    assert peer.server is not None
    before = peer.server.cpu_s()
    events = read_streams(peer.port, peer.key, body)
    return (peer.server.cpu_s() - before) * 1e6 / events
