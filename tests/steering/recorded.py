"""Ten minutes of traffic, made at speed: the scheduler's own core on cards that are simulated
token by token, written down as the gateway would have written it down."""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from metering.core.facts import LANES, BusinessFacts
from metering.models import Business, UsageRecord
from scheduler.core.decisions import Decision, Dispatch, Preempt, Reject
from scheduler.models import ModelDeployment, Pool, Replica
from scheduler.simulation.fairlane import Fairlane
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.scenario_file import parse
from scheduler.simulation.scheduling import Cluster, Outcome
from scheduler.simulation.workload import Workload
from scheduler.simulation.world import World

SHARES = {"risk": 0.25, "chat": 0.3, "search": 0.2, "mail": 0.15, "nightly": 0.1}
GRADES: Mapping[str, Mapping[str, object]] = {
    "risk": {"grade": "vip", "ceiling": "P0", "realtime": "high"},
    "chat": {"grade": "premium", "ceiling": "P1"},
    "search": {"grade": "premium", "ceiling": "P1"},
    "mail": {"grade": "basic", "ceiling": "P1"},
    "nightly": {"grade": "basic", "ceiling": "P2", "offline": True},
}


def scenario(*, cards: int, per_s: float, seconds: float, output: float) -> Scenario:
    """Five businesses on cards of 16 slots; the middle third brings half as much again."""
    third = seconds / 3
    rate = [
        [0, per_s * 0.85],
        [third, per_s * 0.85],
        [third * 1.05, per_s * 1.3],
        [third * 2, per_s * 1.3],
        [third * 2.05, per_s * 0.85],
    ]
    card = {
        "slots": 16,
        "memory_gb": 80,
        "prefill_tokens_per_s": 9000,
        "step_ms": {"base": 11, "per_running": 0.55},
    }
    arrivals = [
        {
            "model": "chat-7b",
            "businesses": {name: 1},
            "level": "classified",
            "rate_qps": [[at, qps * share] for at, qps in rate],
            "prompt_tokens": {"lognormal_mean": 300, "cv": 0.8},
            "output_tokens": {"lognormal_mean": output, "cv": 0.8},
            "max_tokens": 1000,
        }
        for name, share in SHARES.items()
    ]
    document = {
        "name": "recorded",
        "seed": 11,
        "duration_s": seconds,
        "cluster": {
            "hardware": {"card": card},
            "models": {"chat-7b": {"weight": "medium", "kind": "generative", "memory_gb": 16}},
            "pools": [{"name": "all", "kind": "elastic", "lanes": list(LANES)}],
            "replicas": [
                {"name": f"card-{n + 1}", "hardware": "card", "pool": "all"} for n in range(cards)
            ],
        },
        "businesses": [{"name": name, **facts} for name, facts in GRADES.items()],
        "arrivals": arrivals,
        "queue_timeout_s": {"P0": 30, "P1": 120, "P2": 3600},
        "starved_after_s": {"P2": 90},
    }
    return parse(json.dumps(document))


@dataclass
class Lived:
    """What a gateway would know of one request. Times are ns from the start."""

    dispatched: int = 0
    first: int = 0
    attempts: int = 0
    preempted: int = 0
    replica: str = ""
    reason: str = ""


class Witness(Fairlane):
    """Writes down what is decided, beside doing it."""

    def __init__(self, cluster: Cluster) -> None:
        self.lived = [Lived() for _ in range(len(cluster.workload))]
        super().__init__(cluster)

    def progressed(self, request: int, tokens: int) -> None:
        lived = self.lived[request]
        lived.first = lived.first or self.cluster.now

    def _do(self, decision: Decision) -> None:
        if isinstance(decision, Dispatch):
            lived = self.lived[int(decision.request)]
            lived.dispatched = lived.dispatched or self.cluster.now
            lived.attempts += 1
            lived.replica = decision.replica
        elif isinstance(decision, Preempt):
            self.lived[int(decision.request)].preempted += 1
        elif isinstance(decision, Reject):
            self.lived[int(decision.request)].reason = decision.reason.value
        super()._do(decision)


@dataclass
class Made:
    """A window that is in the database."""

    begin: datetime
    end: datetime
    requests: int
    businesses: dict[str, BusinessFacts] = field(default_factory=dict)


def made(scene: Scenario, *, streamed: bool = True) -> Made:
    """Live a scenario through, and write its fleet and its usage rows. The first byte of an answer
    that is not ``streamed`` is seen when all of it is there."""
    workload = Workload(scene)
    world = World(workload, Witness)
    records = world.run()
    witness = world.scheduler
    assert isinstance(witness, Witness)
    begin = datetime(2026, 3, 2, 9, tzinfo=UTC)
    rows = [
        _row(begin, workload, index, witness.lived[index], records.outcome[index], ended, streamed)
        for index, ended in enumerate(records.ended)
    ]
    UsageRecord.objects.bulk_create(rows, batch_size=2_000)
    _fleet(scene)
    end = begin + timedelta(seconds=scene.duration_s)
    facts = {name: tenant.facts for name, tenant in scene.tenants.items()}
    return Made(begin, end, len(workload), facts)


def _row(
    begin: datetime,
    workload: Workload,
    index: int,
    lived: Lived,
    outcome: int,
    ended: int,
    streamed: bool,
) -> UsageRecord:
    def moment(ns: int) -> datetime:
        return begin + timedelta(microseconds=ns // 1000)

    def at(ns: int) -> datetime | None:
        return moment(ns) if ns else None

    arrived = workload.arrived[index]
    done = outcome == Outcome.DONE
    return UsageRecord(
        id=uuid.UUID(int=index + 1),
        business=workload.businesses[workload.business[index]],
        operation="chat",
        stream=streamed,
        requested_model="chat-7b",
        base_level=workload.level[index],
        level=workload.level[index],
        lane=LANES[workload.lane[index]],
        status="ok" if done else "queue_timeout" if outcome == Outcome.TIMEOUT else "refused",
        reason=lived.reason,
        received_at=moment(arrived),
        dispatched_at=at(lived.dispatched),
        first_byte_at=at(lived.first if streamed or not done else ended),
        finished_at=moment(max(ended, arrived)),
        prompt_tokens=workload.prompt[index],
        completion_tokens=workload.output[index] if done else 0,
        attempts=lived.attempts,
        preempted=lived.preempted,
        replica=lived.replica,
    )


def _fleet(scene: Scenario) -> None:
    pool = Pool.objects.create(name="all", kind="elastic", lanes=list(LANES))
    ModelDeployment.objects.create(name="chat-7b", weight="medium", kind="generative")
    for spec in scene.replicas:
        Replica.objects.create(
            name=spec.name,
            url="http://127.0.0.1:1",
            engine="vllm",
            pool=pool,
            slots=spec.hardware.slots,
            models={"chat-7b": "chat-7b"},
        )
    for name, facts in GRADES.items():
        Business.objects.create(name=name, **facts)
