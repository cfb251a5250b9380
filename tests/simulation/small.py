"""Small scenarios for the tests, and a scheduler that does as it is told."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy

from scheduler.simulation.baseline import Baseline
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.scenario_file import parse
from scheduler.simulation.scheduling import Cluster

Document = dict[str, object]

FIXED: Document = {
    "name": "small",
    "seed": 7,
    "duration_s": 10,
    "cluster": {
        "hardware": {
            "big": {"slots": 2, "memory_gb": 80, "service_ms": {"detector": 100, "speech": 300}},
            "edge": {"slots": 1, "memory_gb": 2, "service_ms": {"detector": 200, "speech": 900}},
        },
        "models": {
            "detector": {"weight": "light", "kind": "fixed", "memory_gb": 1.5},
            "speech": {"weight": "medium", "kind": "fixed", "memory_gb": 4},
        },
        "pools": [{"name": "all", "kind": "elastic", "lanes": ["P0", "P1", "P2"]}],
        "replicas": [
            {"name": "big-1", "hardware": "big", "pool": "all"},
            {"name": "edge-1", "hardware": "edge", "pool": "all"},
        ],
    },
    "businesses": [{"name": "shop", "grade": "vip", "ceiling": "P0"}],
    "arrivals": [
        {
            "model": "detector",
            "businesses": {"shop": 1},
            "level": "uniform 0-9",
            "latency_budget_ms": {"0-2": 150, "3-6": 300},
            "rate_qps": [[0, 5], [10, 5]],
        }
    ],
    "queue_timeout_s": {"P0": 1, "P1": 5, "P2": 30},
    "starved_after_s": {"P2": 5},
}

GENERATIVE: Document = {
    "name": "words",
    "seed": 7,
    "duration_s": 100,
    "cluster": {
        "hardware": {
            "card": {
                "slots": 4,
                "memory_gb": 80,
                "kv_tokens": 2000,
                "prefill_tokens_per_s": 1000,
                "step_ms": {"base": 10, "per_running": 5},
            }
        },
        "models": {"chat": {"weight": "medium", "kind": "generative", "memory_gb": 16}},
        "pools": [{"name": "all", "kind": "elastic", "lanes": ["P0", "P1", "P2"]}],
        "replicas": [{"name": "card-1", "hardware": "card", "pool": "all"}],
    },
    "businesses": [{"name": "shop", "grade": "vip", "ceiling": "P0"}],
    "arrivals": [
        {
            "model": "chat",
            "businesses": {"shop": 1},
            "level": "uniform 8-8",
            "rate_qps": [],
            "burst": [],
            "prompt_tokens": {"lognormal_mean": 100, "cv": 0},
            "output_tokens": {"lognormal_mean": 10, "cv": 0},
            "max_tokens": 100,
        }
    ],
}

TALKS: Document = {
    "count": 6,
    "begin_s": [0, 20],
    "turns": {"lognormal_mean": 4, "cv": 0.5},
    "think_s": {"lognormal_mean": 5, "cv": 0.5},
    "system_tokens": 200,
    "user_tokens": {"lognormal_mean": 40, "cv": 0.5},
    "answer_ms_per_token": 20,
}
# Six conversations on the card above, and requests that stand alone.
TALK: Document = {
    **GENERATIVE,
    "name": "talk",
    "arrivals": [
        {
            "model": "chat",
            "businesses": {"shop": 1},
            "level": "uniform 4-4",
            "conversations": TALKS,
            "output_tokens": {"lognormal_mean": 30, "cv": 0.5},
            "max_tokens": 100,
        },
        {
            "model": "chat",
            "businesses": {"shop": 1},
            "level": "uniform 8-8",
            "rate_qps": [[0, 0.2], [100, 0.2]],
            "prompt_tokens": {"lognormal_mean": 300, "cv": 0.5},
            "output_tokens": {"lognormal_mean": 30, "cv": 0.5},
            "max_tokens": 100,
        },
    ],
}


def scenario(base: Document, changes: Mapping[str, object] | None = None) -> Scenario:
    """A scenario with some values replaced, named by paths such as ``arrivals.0.level``."""
    return parse(json.dumps(changed(base, changes or {})))


def changed(base: Document, changes: Mapping[str, object]) -> Document:
    """A copy of a document with some values replaced, or added."""
    document = deepcopy(base)
    for path, value in changes.items():
        *way, last = path.split(".")
        at: object = document
        for name in way:
            at = at[int(name)] if isinstance(at, list) else _of(at, name)
        if isinstance(at, list):
            at[int(last)] = value
        else:
            assert isinstance(at, dict)
            at[last] = value
    return document


def _of(value: object, name: str) -> object:
    assert isinstance(value, dict)
    return value[name]


def bursts(*moments: float, **more: object) -> list[dict[str, object]]:
    """One request at each of some moments (s)."""
    return [{"at_s": at, "count": 1, **more} for at in moments]


class Scripted(Baseline):
    """Starts each request on a given replica at once, and keeps what it was told."""

    def __init__(self, cluster: Cluster, replicas: Sequence[int] = (0,)) -> None:
        super().__init__(cluster)
        self._replicas = replicas
        self.told: list[tuple[str, int, int]] = []

    def arrived(self, request: int) -> None:
        """See Scheduler."""
        self.cluster.start(request, self._replicas[request % len(self._replicas)])

    def finished(self, request: int, replica: int) -> None:
        """See Scheduler."""
        self.told.append(("finished", request, self.cluster.now))

    def progressed(self, request: int, tokens: int) -> None:
        """See Scheduler."""
        self.told.append((f"progressed {tokens}", request, self.cluster.now))

    def stopped(self, request: int, replica: int, produced: int) -> None:
        """See Scheduler."""
        self.told.append((f"stopped {produced}", request, self.cluster.now))

    def lost(self, request: int, replica: int) -> None:
        """See Scheduler."""
        self.told.append(("lost", request, self.cluster.now))
        super().lost(request, replica)

    def changed(self, replica: int) -> None:
        """See Scheduler."""
        state = "up" if self.cluster.up(replica) else "down"
        self.told.append((state, replica, self.cluster.now))

    def closed(self) -> None:
        """See Scheduler."""
