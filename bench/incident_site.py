"""The scenario's cluster for real: an emulator a card, and the fleet file that says so."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import msgspec

from metering.core.facts import LANES
from scheduler.simulation.scenario import Arrivals, Scenario

from .machine import Cores
from .process import Server, free_port

MODEL_LEN = 16_384


class State(msgspec.Struct):
    """What an emulator tells of itself, as far as it matters here."""

    running: int
    max_in_flight: int
    generation_tokens: int


@dataclass(frozen=True, slots=True)
class Loads:
    """What the cards have done since they were told to forget: tokens generated, and the most
    requests that any card held at once."""

    generated: int
    most_at_once: int


class Cards:
    """The emulators, by name of their card."""

    def __init__(self, urls: dict[str, str], slots: int) -> None:
        self.urls = urls
        self.slots = slots
        self._http = httpx.Client(timeout=10.0, trust_env=False)
        self._before = dict.fromkeys(urls, 0)

    def forget(self) -> None:
        """Begin to count anew."""
        for name, url in self.urls.items():
            self._before[name] = self._state(url).generation_tokens
            self._http.delete(f"{url}/emulator/state").raise_for_status()

    def running(self) -> dict[str, int]:
        """Requests that run on each card now."""
        return {name: self._state(url).running for name, url in self.urls.items()}

    def loads(self) -> Loads:
        """What has been done since ``forget``."""
        states = {name: self._state(url) for name, url in self.urls.items()}
        return Loads(
            sum(state.generation_tokens - self._before[name] for name, state in states.items()),
            max(state.max_in_flight for state in states.values()),
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def _state(self, url: str) -> State:
        answer = self._http.get(f"{url}/emulator/state").raise_for_status()
        return msgspec.json.decode(answer.content, type=State)


@contextmanager
def cards_of(scenario: Scenario, folder: Path, cores: Cores) -> Iterator[Cards]:
    """An emulator for each card of the scenario, on the load's core, until the block ends."""
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
            }
            for name, value in options.items():
                command += [f"--{name}", str(value)]
            server = Server(replica.name, command, core=cores.load, env=os.environ, folder=folder)
            stack.callback(server.stop)
            urls[replica.name] = f"http://127.0.0.1:{port}"
            servers.append((server, urls[replica.name]))
        for server, url in servers:
            server.ready(f"{url}/health")
        cards = Cards(urls, scenario.replicas[0].hardware.slots)
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
            "businesses": [_business(scenario, stream) for stream in scenario.arrivals],
        }
    )


def senders(scenario: Scenario) -> list[str]:
    """The businesses that send anything."""
    return [name for stream in scenario.arrivals for name, _ in stream.shares]


def _business(scenario: Scenario, stream: Arrivals) -> dict[str, object]:
    """The business of a stream, as urgent as its work is: each has one stream."""
    ((name, _),) = stream.shares
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
