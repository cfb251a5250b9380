"""Workloads that nobody tuned a scheduler for: the same scenario for the same seed.

Each is small (two to four minutes): language models on equal or unequal cards, one model or several
on every card, long prompts that bind the KV memory, image and speech models, two to twenty
businesses, half load to three and a half times what is possible, bursts, a lost card.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

Json = dict[str, object]

GRADES = {"P0": "vip", "P1": "premium", "P2": "basic"}
REALTIME = {"P0": "high", "P1": "medium", "P2": "low"}
FIXED_BUDGETS_MS = {"P0": 200, "P1": 1000, "P2": None}
OUTPUTS = {"P0": [16, 60, 180], "P1": [150, 300], "P2": [400, 1200]}


@dataclass(frozen=True, slots=True)
class Generator:
    """A kind of card that runs language models. Times of a step are ms."""

    slots: int
    memory_gb: int
    kv_tokens: int
    prefill_tokens_per_s: int
    base: float
    per_running: float

    @property
    def step_ms(self) -> float:
        """A step of a full card."""
        return self.base + self.per_running * self.slots

    @property
    def tokens_per_s(self) -> float:
        """Of answers, when it is full."""
        return self.slots * 1000 / self.step_ms

    def alone_ms(self, prompt: int, output: int) -> float:
        """A request of that size beside as many others as there is room for."""
        return output * self.step_ms + 1000 * prompt / self.prefill_tokens_per_s

    def document(self) -> Json:
        """As in a scenario file."""
        return {
            "slots": self.slots,
            "gpus": 1,
            "memory_gb": self.memory_gb,
            "kv_tokens": self.kv_tokens,
            "prefill_tokens_per_s": self.prefill_tokens_per_s,
            "step_ms": {"base": self.base, "per_running": self.per_running},
        }


@dataclass(frozen=True, slots=True)
class Device:
    """A kind of card that runs fixed models, each in so many ms."""

    slots: int
    memory_gb: int
    service_ms: Mapping[str, int]

    def document(self) -> Json:
        """As in a scenario file."""
        return {
            "slots": self.slots,
            "gpus": 1,
            "memory_gb": self.memory_gb,
            "service_ms": dict(self.service_ms),
        }


Kinds = dict[str, Generator | Device]


def random_scenario(seed: int) -> Json:
    """The scenario of a seed, in the form of a scenario file."""
    draw = Random(seed)  # noqa: S311 - it has to repeat, not to be secret
    seconds = draw.choice([120, 180, 240])
    theme = draw.choice(["llm", "llm", "multi", "multi", "long", "mixed", "fixed"])
    kinds, models = _kinds(draw, theme), _models(draw, theme)
    replicas = _replicas(draw, kinds)
    pools: list[Json] = [{"name": "gpu-elastic", "kind": "elastic", "lanes": ["P0", "P1", "P2"]}]
    if any(replica["pool"] == "gpu-p0" for replica in replicas):
        pools.insert(0, {"name": "gpu-p0", "kind": "dedicated", "lanes": ["P0"]})
    ceilings = [draw.choice(["P0", "P0", "P1", "P2"]) for _ in range(draw.choice([2, 4, 8, 20]))]
    ceilings[0] = "P0" if "P0" not in ceilings else ceilings[0]
    load = draw.choice([0.5, 0.8, 0.95, 1.2, 2, 3.5])
    traffic = _Traffic(draw, theme, seconds, kinds, models, replicas)
    arrivals = [
        stream
        for lane in GRADES
        if lane in ceilings
        for stream in traffic.streams(lane, ceilings, load)
    ]
    faults: list[Json] = []
    if draw.random() < 0.4:
        name = draw.choice(replicas)["name"]
        faults = [{"replica": name, "down_at_s": 0.3 * seconds, "up_at_s": 0.6 * seconds}]
    return {
        "name": f"random-{seed}",
        "about": f"{theme}, {load} of what is possible, {len(ceilings)} businesses",
        "seed": seed,
        "duration_s": seconds,
        "cluster": {
            "hardware": {name: kind.document() for name, kind in kinds.items()},
            "models": models,
            "pools": pools,
            "replicas": replicas,
            "idle_cards": 0,
        },
        "businesses": _businesses(ceilings),
        "arrivals": arrivals,
        "faults": faults,
        "queue_timeout_s": {"P0": 10, "P1": 60, "P2": 600},
        "starved_after_s": {"P2": 60},
        "policy": {},
    }


def _businesses(ceilings: list[str]) -> list[Json]:
    return [
        {"name": f"b{number}", "grade": GRADES[lane], "ceiling": lane, "billing_sla": lane == "P0"}
        for number, lane in enumerate(ceilings)
    ]


def _kinds(draw: Random, theme: str) -> Kinds:
    found: Kinds = {}
    long = theme == "long"
    if theme != "fixed":
        found["big"] = Generator(
            slots=draw.choice([8, 16, 32]),
            memory_gb=80,
            kv_tokens=draw.choice([90_000, 130_000] if long else [60_000, 120_000, 200_000]),
            prefill_tokens_per_s=draw.choice([6000, 9000, 15000]),
            base=draw.choice([9, 12]),
            per_running=draw.choice([0.3, 0.55]),
        )
        if theme == "mixed" or draw.random() < 0.4:
            slots = draw.choice([4, 8])
            found["small"] = Generator(slots, 48, 90_000 if long else 40_000, 3000, 18, 1.0)
    if theme in {"fixed", "mixed"}:
        slots = draw.choice([4, 8, 16])
        times = {"detector": draw.choice([8, 15, 30]), "speech": draw.choice([60, 120])}
        found["det"] = Device(slots, 24, times)
        if draw.random() < 0.5:
            found["edge"] = Device(4, 16, {"detector": draw.choice([20, 50])})
    return found


def _models(draw: Random, theme: str) -> dict[str, Json]:
    found: dict[str, Json] = {}
    if theme != "fixed":
        count = draw.randint(2, 5) if theme == "multi" else draw.randint(1, 2)
        for number in range(count):
            found[f"m{number}"] = {
                "weight": draw.choice(["light", "medium", "heavy"]),
                "task": "chat",
                "kind": "generative",
                "load_s": draw.choice([10, 40]),
                "memory_gb": draw.choice([8, 16, 24]) if count > 2 else 16,
            }
    if theme in {"fixed", "mixed"}:
        fixed = (
            ("detector", "light", "image-detection", 0.3, 1.5, 2),
            ("speech", "medium", "speech-recognition", 0.5, 4, 6),
        )
        for name, weight, task, cv, memory_gb, load_s in fixed:
            found[name] = {
                "weight": weight,
                "task": task,
                "kind": "fixed",
                "cv": cv,
                "memory_gb": memory_gb,
                "load_s": load_s,
            }
    return found


def _replicas(draw: Random, kinds: Kinds) -> list[dict[str, str]]:
    found = []
    for kind in kinds:
        for number in range(draw.randint(2, 6)):
            dedicated = number == 0 and draw.random() < 0.4
            pool = "gpu-p0" if dedicated else "gpu-elastic"
            name = f"{kind}-{number}"
            found.append({"name": name, "hardware": kind, "path": "hot", "pool": pool})
    return found


class _Traffic:
    """The streams of each lane, sized by what the cards could do."""

    def __init__(
        self,
        draw: Random,
        theme: str,
        seconds: int,
        kinds: Kinds,
        models: dict[str, Json],
        replicas: list[dict[str, str]],
    ) -> None:
        self._draw = draw
        self._long = theme == "long"
        self._seconds = seconds
        self._models = models
        self._cards = [kinds[replica["hardware"]] for replica in replicas]
        generators = [kind for kind in kinds.values() if isinstance(kind, Generator)]
        # What answers are promised by, and what work is counted by.
        self._slowest, self._first = generators[-1:], generators[:1]
        self._possible = sum(
            card.tokens_per_s for card in self._cards if isinstance(card, Generator)
        )

    def streams(self, lane: str, ceilings: list[str], load: float) -> list[Json]:
        """Streams of one lane: of language models, then of fixed ones."""
        draw = self._draw
        members = [f"b{number}" for number, other in enumerate(ceilings) if other == lane]
        shares = {"P0": draw.choice([0.15, 0.3, 0.5]), "P1": 0.3, "P2": 0.6}
        part = shares[lane] * load
        common: Json = {
            "businesses": {name: 1 / len(members) for name in members},
            "level": "classified",
            "realtime": REALTIME[lane],
            "offline": lane == "P2",
        }
        generative = [name for name, facts in self._models.items() if facts["kind"] == "generative"]
        possible = part * self._possible / (len(generative) or 1)
        found = [
            {**common, **self._words(name, lane, possible)}
            for name in generative
            if len(generative) == 1 or draw.random() >= 0.3
        ]
        for name in ("detector", "speech"):
            able = [
                card for card in self._cards if isinstance(card, Device) and name in card.service_ms
            ]
            if able:
                most = sum(card.slots * 1000 / card.service_ms[name] for card in able)
                rate = max(0.1, min(part * most / 2, 400))
                stream = {"model": name, "process": "poisson"}
                budget = FIXED_BUDGETS_MS[lane]
                found.append(
                    {**common, **stream, "latency_budget_ms": budget, "rate_qps": self._rate(rate)}
                )
        return found

    def _words(self, name: str, lane: str, tokens_per_s: float) -> Json:
        """A stream of a language model that takes so much of what is possible."""
        draw = self._draw
        output = draw.choice(OUTPUTS[lane])
        prompt = draw.choice([300, 900, 2500])
        if self._long and draw.random() < 0.5:
            prompt = draw.choice([15_000, 30_000])
        (big,), (slow,) = self._first, self._slowest
        work = output + 0.35 * prompt * big.tokens_per_s / big.prefill_tokens_per_s
        alone = slow.alone_ms(prompt, output)
        budgets = {"P0": round(4 * alone + 1500), "P1": round(10 * alone + 8000), "P2": None}
        process = draw.choice(["poisson", "gamma"])
        found: Json = {
            "model": name,
            "process": process,
            "latency_budget_ms": budgets[lane],
            "rate_qps": self._rate(max(0.02, tokens_per_s / work)),
            "prompt_tokens": {"lognormal_mean": prompt, "cv": 0.7},
            "output_tokens": {"lognormal_mean": output, "cv": 0.7},
            "max_tokens": 4 * output,
        }
        if process == "gamma":
            found["cv"] = draw.choice([1.5, 3])
        return found

    def _rate(self, mean: float) -> list[list[float]]:
        """Level, or twice the mean in the middle."""
        seconds = self._seconds
        if self._draw.random() < 0.6:
            return [[0, mean], [seconds, mean]]
        shape = [(0, 0.3), (0.4, 0.3), (0.45, 2), (0.7, 2), (0.72, 0.5), (1, 0.5)]
        return [[at * seconds, mean * times] for at, times in shape]
