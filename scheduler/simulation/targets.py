"""What the built-in scenarios are held to: the reference figures of the method."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .figures import PhaseFigures, RunFigures
from .scenario import Scenario
from .schedulers import OWN, PINNED, REFERENCE

Runs = Mapping[str, RunFigures]


@dataclass(frozen=True, slots=True)
class Target:
    """One reference figure: what is wanted, what was reached, and whether that will do."""

    text: str
    wanted: str
    reached: str
    met: bool


def targets(scenario: Scenario, runs: Runs, bound: float, least: int | None = None) -> list[Target]:
    """The targets of a scenario that its runs can be held to; none for a foreign one. ``least``
    whole cards would do without scaling, if that was looked for."""
    check = CHECKS.get(scenario.name)
    if check is None or OWN not in runs:
        return []
    found = check(scenario, runs, bound)
    if scenario.name == "working-day" and least is not None:
        cards = runs[OWN]["cards"]
        used = cards["card_seconds"] / (least * cards["seconds"])
        found.append(_most("card-seconds / least whole cards", used, 1.15, ".3f"))
    return found


def _most(text: str, value: float | None, limit: float, form: str) -> Target:
    met = value is not None and value <= limit
    return Target(text, f"<= {limit:{form}}", _shown(value, form), met)


def _least(text: str, value: float | None, limit: float, form: str) -> Target:
    met = value is not None and value >= limit
    return Target(text, f">= {limit:{form}}", _shown(value, form), met)


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def _times(own: float | None, other: float | None) -> float | None:
    return own / other if own is not None and other else None


def _change(own: float | None, other: float | None) -> float | None:
    times = _times(own, other)
    return None if times is None else times - 1


def _even(scenario: Scenario, runs: Runs, bound: float) -> list[Target]:
    found = [run["p0_p95_ms"] for name, run in runs.items() if name != OWN]
    best = min((value for value in found if value is not None), default=None)
    slower = _times(runs[OWN]["p0_p95_ms"], best)
    return [_most("P0 P95 / the best other's", slower, 1.05, ".3f")] if best else []


def _ramp(scenario: Scenario, runs: Runs, bound: float) -> list[Target]:
    own = runs[OWN]
    found = [
        _least("utilisation at the peak", own["gpu_util_peak_ratio"], 0.92, ".1%"),
        _least("peak / bound", own["peak_throughput_qps"] / bound, 0.95, ".3f"),
    ]
    other = runs.get(REFERENCE)
    if other is not None:
        p95 = _change(own["p0_p95_ms"], other["p0_p95_ms"])
        misses = _change(own["sla_miss_ratio"], other["sla_miss_ratio"])
        peak = _change(own["peak_throughput_qps"], other["peak_throughput_qps"])
        starved = _change(own["starved_ratio"], other["starved_ratio"])
        success = _change(own["success_ratio"], other["success_ratio"])
        gained = _change(own["yield_per_slot_s"], other["yield_per_slot_s"])
        found += [
            _most("P0 P95 against fixed-priority", p95, -0.562, "+.1%"),
            _most("SLA misses against fixed-priority", misses, -0.876, "+.1%"),
            _least("peak throughput against fixed-priority", peak, 0.301, "+.1%"),
            _most("starved against fixed-priority", starved, -0.794, "+.1%"),
            _least("success against fixed-priority", success, 0.048, "+.1%"),
            _least("yield against fixed-priority", gained, 0.275, "+.1%"),
        ]
    return found


def _detector(phases: list[PhaseFigures]) -> float | None:
    """The worst P0 P99 of image detection among some phases."""
    found = [phase["models"]["detector"]["p0_p99_ms"] for phase in phases]
    return max((value for value in found if value is not None), default=None)


def _burst(scenario: Scenario, runs: Runs, bound: float) -> list[Target]:
    own = runs[OWN]
    after = [phase for phase in own["phases"] if phase["from_s"] >= 60]
    return [
        _most("P0 detector P99 after the jump (ms)", _detector(after), 80, ".1f"),
        _least("P2 success", own["lanes"]["P2"]["success_ratio"], 0.91, ".2%"),
    ]


def _loss(scenario: Scenario, runs: Runs, bound: float) -> list[Target]:
    during = [phase for phase in runs[OWN]["phases"] if 60 <= phase["from_s"] < 120]
    return [_most("P0 detector P99 during the loss (ms)", _detector(during), 120, ".1f")]


def _contention(scenario: Scenario, runs: Runs, bound: float) -> list[Target]:
    tenants = runs[OWN]["businesses"]
    return [
        _least("tenant A's SLA", tenants["tenant-a"]["sla_met_ratio"], 0.986, ".2%"),
        _least("tenant B's success", tenants["tenant-b"]["success_ratio"], 0.91, ".2%"),
    ]


def _incident(scenario: Scenario, runs: Runs, bound: float) -> list[Target]:
    own = runs[OWN]
    missed = own["sla_miss_ratio"]
    met = None if missed is None else 1 - missed
    found = [
        _least("P0 within budget", met, 0.995, ".2%"),
        _least("evaluation finished", own["lanes"]["P2"]["success_ratio"], 1.0, ".2%"),
    ]
    if "fifo" in runs:
        minute = [phase for phase in runs["fifo"]["phases"] if phase["from_s"] == 30]
        done = minute[0]["businesses"]["risk-audit"]["success_ratio"] if minute else None
        lost = None if done is None else 1 - done
        text = "risk checks refused under fifo in the minute after"
        found.append(_least(text, lost, 0.9, ".1%"))
    return found


def _day(scenario: Scenario, runs: Runs, bound: float) -> list[Target]:
    lanes = runs[OWN]["lanes"]
    late = lanes["P2"]["last_end_s"]
    return [
        _most("P0 and P1 timeouts", lanes["P0"]["timeouts"] + lanes["P1"]["timeouts"], 0, ".0f"),
        _least("P2 done", lanes["P2"]["success_ratio"], 1.0, ".2%"),
        _most(
            "last P2 after the end (s)",
            None if late is None else late - scenario.duration_s,
            120,
            ".0f",
        ),
        _most(
            "predictor error P0, median / mean service",
            runs[OWN]["predictor"]["P0"]["service_error"],
            0.2,
            ".1%",
        ),
    ]


def _chat(scenario: Scenario, runs: Runs, bound: float) -> list[Target]:
    own, found = runs[OWN], []
    if PINNED in runs:
        cached = _times(own["cached_prompt_ratio"], runs[PINNED]["cached_prompt_ratio"])
        found.append(_least("cached prompt tokens / pinned's", cached, 0.95, ".3f"))
    if "least-loaded" in runs:
        slower = _times(own["p0_p95_ms"], runs["least-loaded"]["p0_p95_ms"])
        found.append(_most("P0 P95 / least-loaded's", slower, 1.0, ".3f"))
    return found


CHECKS: Mapping[str, Callable[[Scenario, Runs, float], list[Target]]] = {
    "even-cards": _even,
    "ramp-to-peak": _ramp,
    "urgent-burst": _burst,
    "replica-loss": _loss,
    "tenant-contention": _contention,
    "incident-eval-fills-cards": _incident,
    "working-day": _day,
    "multi-turn-chat": _chat,
}
