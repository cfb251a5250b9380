"""A scenario's cluster for real: an emulator a card, and the fleet file that says so."""

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec

from metering.core.facts import LANES
from scheduler.simulation.scenario import Arrivals, Scenario

from .machine import BenchError, Cores
from .process import Server, free_port

MODEL_LEN = 32_768


class State(msgspec.Struct):
    """What an emulator tells of itself, as far as it matters here."""

    running: int
    in_flight: int
    max_in_flight: int
    requests_seen: int
    generation_tokens: int
    prefix_hit_tokens: int


@dataclass(frozen=True, slots=True)
class Loads:
    """What the cards have done since they were told to forget: tokens generated, the most
    requests that any card held at once, calls by card, and prompt tokens that were found in
    their prefix caches."""

    generated: int
    most_at_once: int
    requests: dict[str, int]
    cached: int

    @property
    def spread(self) -> float:
        """How far from the mean the card is that is furthest from it, by calls (1 is the mean)."""
        mean = sum(self.requests.values()) / len(self.requests)
        return max(abs(count / mean - 1.0) for count in self.requests.values()) if mean else 0.0


class Cards:
    """The emulators, by name of their card."""

    def __init__(self, urls: dict[str, str], slots: int, servers: Sequence[Server] = ()) -> None:
        self.urls = urls
        self._servers = servers
        self.slots = slots
        self._http = httpx.Client(timeout=10.0, trust_env=False)
        self._before: dict[str, State] = {}

    def forget(self) -> None:
        """Begin to count anew, with empty prefix caches."""
        for name, url in self.urls.items():
            self._http.delete(f"{url}/emulator/state").raise_for_status()
            self._before[name] = self._state(url)

    def calm(self, within_s: float) -> None:
        """Wait until no card has a request. Raises BenchError."""
        deadline = time.monotonic() + within_s
        while any(self._state(url).in_flight for url in self.urls.values()):
            if time.monotonic() > deadline:
                raise BenchError("the cards still have requests")
            time.sleep(0.05)

    def seen(self) -> dict[str, int]:
        """Requests that each card has been sent since ``forget``."""
        return {name: self._state(url).requests_seen for name, url in self.urls.items()}

    def running(self) -> dict[str, int]:
        """Requests that run on each card now."""
        return {name: self._state(url).running for name, url in self.urls.items()}

    def loads(self) -> Loads:
        """What has been done since ``forget``."""
        states = {name: self._state(url) for name, url in self.urls.items()}
        before = self._before
        return Loads(
            sum(
                each.generation_tokens - before[name].generation_tokens
                for name, each in states.items()
            ),
            max(each.max_in_flight for each in states.values()),
            {name: each.requests_seen for name, each in states.items()},
            sum(
                each.prefix_hit_tokens - before[name].prefix_hit_tokens
                for name, each in states.items()
            ),
        )

    def cpu_s(self) -> float:
        """CPU seconds that the emulators have taken so far."""
        return sum(server.cpu_s() for server in self._servers)

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def _state(self, url: str) -> State:
        answer = self._http.get(f"{url}/emulator/state").raise_for_status()
        return msgspec.json.decode(answer.content, type=State)


@contextmanager
def cards_of(
    scenario: Scenario, folder: Path, cores: Cores, *, speed: float = 1.0
) -> Iterator[Cards]:
    """An emulator for each card of the scenario, ``speed`` times as fast, on the load's core,
    until the block ends."""
    (model,) = scenario.models
    with ExitStack() as stack:
        servers: list[tuple[Server, str]] = []
        urls: dict[str, str] = {}
        for replica in scenario.replicas:
            card, port = replica.hardware, free_port()
            command = [sys.executable, "-m", "scheduler.emulator", "--port", str(port)]
            options = {
                "model": model,
                "slots": card.slots,
                "kv-tokens": card.kv_tokens or 2_000_000,
                "prefill-tokens-per-s": card.prefill_tokens_per_s,
                "step-base-ms": card.step_base_ms,
                "step-per-running-ms": card.step_per_running_ms,
                "max-model-len": MODEL_LEN,
                "keep-requests": 1,
                "speed": speed,
            }
            for name, value in options.items():
                command += [f"--{name}", str(value)]
            server = Server(replica.name, command, core=cores.load, env=os.environ, folder=folder)
            stack.callback(server.stop)
            urls[replica.name] = f"http://127.0.0.1:{port}"
            servers.append((server, urls[replica.name]))
        for server, url in servers:
            server.ready(f"{url}/health")
        slots = scenario.replicas[0].hardware.slots
        cards = Cards(urls, slots, [server for server, _ in servers])
        stack.callback(cards.close)
        yield cards


def fleet(scenario: Scenario, urls: dict[str, str]) -> str:
    """The fleet file of the scenario's cluster, with the cards at these URLs."""
    pools = {replica.pool.name: replica.pool for replica in scenario.replicas}
    return json.dumps(
        {
            "pools": [
                {
                    "name": pool.name,
                    "kind": "dedicated" if pool.dedicated else "elastic",
                    "lanes": [LANES[lane] for lane in sorted(pool.lanes)],
                }
                for pool in pools.values()
            ],
            "models": [
                {"name": name, "weight": model.facts.weight, "task": "chat"}
                for name, model in scenario.models.items()
            ],
            "replicas": [
                {
                    "name": replica.name,
                    "url": urls[replica.name],
                    "engine": "vllm",
                    "pool": replica.pool.name,
                    "slots": replica.hardware.slots,
                    "gpus": replica.hardware.gpus,
                    "kv_tokens": replica.hardware.kv_tokens,
                    "models": {name: name for name in replica.models},
                }
                for replica in scenario.replicas
            ],
            "businesses": [
                _business(scenario, stream, name)
                for stream in scenario.arrivals
                for name, _ in stream.shares
            ],
        }
    )


def senders(scenario: Scenario) -> list[str]:
    """The businesses that send anything."""
    return [name for stream in scenario.arrivals for name, _ in stream.shares]


def _business(scenario: Scenario, stream: Arrivals, name: str) -> dict[str, object]:
    """A business of a stream, as urgent as its work is: each has one stream."""
    facts = scenario.tenants[name].facts
    budgets = [budget for budget in stream.budgets if budget]
    return {
        "name": name,
        "grade": facts.grade,
        "ceiling": LANES[facts.ceiling],
        "billing_sla": facts.billing_sla,
        "realtime": stream.realtime,
        "offline": stream.offline,
        "latency_budget_ms": round(min(budgets)) if budgets else None,
    }
