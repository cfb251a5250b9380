"""The figures of a run, as the contract names them: over the whole run and per phase."""

from collections.abc import Sequence
from statistics import median
from typing import TypedDict

from metering.core.facts import LANES

from .costs import CardFigures, cards, refusals
from .lp import busiest_minute
from .measures import best_window, growth, percentile, ratio
from .records import Foretold, Records
from .recovery import RecoveryFigures, recoveries
from .scenario import SECOND
from .tally import Share, Tally, tally
from .workload import Workload


class ModelFigures(TypedDict):
    """Latency of a model's completed P0 requests; None: there were none."""

    p0_p95_ms: float | None
    p0_p99_ms: float | None


class LaneFigures(TypedDict):
    """Shares of all arrivals that were completed, and that were so within their budgets (None:
    nothing arrived). Waits are of completed requests; ``last_end_s`` is when the last of them
    ended. ``cached_prompt_ratio`` is the share of the tokens of all prompts that arrived that
    was found in a prefix cache (None: there were no tokens)."""

    cached_prompt_ratio: float | None
    success_ratio: float | None
    budget_met_ratio: float | None
    timeouts: int
    wait_p50_ms: float | None
    wait_p99_ms: float | None
    last_end_s: float | None


class BusinessFigures(TypedDict):
    """Shares of all its arrivals: completed within budget, completed, refused by quota."""

    sla_met_ratio: float | None
    success_ratio: float | None
    quota_refused_ratio: float | None


class PredictorFigures(TypedDict):
    """Median errors of what was foretold of a lane's requests, as ratios: of the service, over
    the mean service; of the same where the length of the answer is told; of wait and service
    together, over the mean latency. None: the scheduler foretells nothing."""

    service_error: float | None
    known_length_error: float | None
    latency_error: float | None


class Figures(TypedDict):
    """Figures over some span of arrivals; None where there is nothing to divide by."""

    p0_p50_ms: float | None
    p0_p95_ms: float | None
    p0_p99_ms: float | None
    sla_miss_ratio: float | None
    peak_throughput_qps: float
    starved_ratio: float | None
    success_ratio: float | None
    gpu_util_ratio: float | None
    gpu_util_peak_ratio: float | None
    yield_per_slot_s: float | None
    cached_prompt_ratio: float | None
    models: dict[str, ModelFigures]
    preemptions: int
    wasted_ratio: float | None
    unfinished: int
    timeouts: int
    p0_wait_p99_ms: float | None
    lanes: dict[str, LaneFigures]
    businesses: dict[str, BusinessFigures]


class PhaseFigures(Figures):
    """The same over the arrivals between two moments."""

    from_s: float
    to_s: float


class RunFigures(Figures):
    """The whole run, with its phases."""

    predictor: dict[str, PredictorFigures]
    cards: CardFigures
    refusals: dict[str, int]
    recovery: list[RecoveryFigures]
    phases: list[PhaseFigures]


def figures(workload: Workload, records: Records) -> RunFigures:
    """Every figure of a finished run."""
    whole, phases = tally(workload, records, workload.scenario.cuts())
    parts: list[PhaseFigures] = []
    for phase in phases:
        inner = _figures(workload, records, phase)
        parts.append({"from_s": phase.begin, "to_s": phase.end, **inner})
    predictor = {name: _predictor(told) for name, told in zip(LANES, records.foretold, strict=True)}
    return {
        **_figures(workload, records, whole),
        "predictor": predictor,
        "cards": cards(records),
        "refusals": refusals(records),
        "recovery": recoveries(workload, records),
        "phases": parts,
    }


def _predictor(told: Foretold) -> PredictorFigures:
    def error(errors: Sequence[int], total: int) -> float | None:
        return ratio(median(errors) * len(errors), total) if errors else None

    return {
        "service_error": error(told.service_errors, told.services),
        "known_length_error": error(told.known_errors, told.services),
        "latency_error": error(told.latency_errors, told.latencies),
    }


def _figures(workload: Workload, records: Records, counted: Tally) -> Figures:
    latencies = [sorted(numbers) for numbers in counted.latency]
    urgent = sorted(value for numbers in latencies for value in numbers)
    first, last = counted.lanes[0], counted.lanes[2]
    arrived = sum(lane.arrived for lane in counted.lanes)
    begin, end, until = counted.begin, counted.end, counted.until
    spent = growth(records.busy, begin, until)
    peak = busiest_minute(workload.scenario, begin, end)
    wasted = sum(ns for at, ns in records.wasted if begin <= at / SECOND < until)
    in_time = sum(lane.in_time for lane in counted.lanes)
    return {
        "p0_p50_ms": percentile(urgent, 0.50),
        "p0_p95_ms": percentile(urgent, 0.95),
        "p0_p99_ms": percentile(urgent, 0.99),
        "sla_miss_ratio": ratio(first.arrived - first.in_time, first.arrived),
        "peak_throughput_qps": best_window(counted.completions),
        "starved_ratio": ratio(counted.starved, last.arrived),
        "success_ratio": ratio(sum(lane.done for lane in counted.lanes), arrived),
        "gpu_util_ratio": _utilisation(records, begin, end),
        "gpu_util_peak_ratio": _utilisation(records, *peak),
        "yield_per_slot_s": ratio(in_time * SECOND, spent),
        "cached_prompt_ratio": ratio(
            sum(lane.cached for lane in counted.lanes), sum(lane.prompt for lane in counted.lanes)
        ),
        "models": {
            name: {"p0_p95_ms": percentile(values, 0.95), "p0_p99_ms": percentile(values, 0.99)}
            for name, values in zip(workload.models, latencies, strict=True)
        },
        "preemptions": sum(begin <= at / SECOND < until for at in records.preempted),
        "wasted_ratio": ratio(wasted, spent),
        "unfinished": sum(lane.unfinished for lane in counted.lanes),
        "timeouts": sum(lane.timeouts for lane in counted.lanes),
        "p0_wait_p99_ms": percentile(sorted(counted.waits[0]), 0.99),
        "lanes": {name: _lane(counted, lane) for lane, name in enumerate(LANES)},
        "businesses": {
            name: _business(share)
            for name, share in zip(workload.businesses, counted.businesses, strict=True)
        },
    }


def _utilisation(records: Records, begin: float, end: float) -> float | None:
    return ratio(growth(records.busy, begin, end), growth(records.ready, begin, end))


def _lane(counted: Tally, lane: int) -> LaneFigures:
    share, waits = counted.lanes[lane], sorted(counted.waits[lane])
    return {
        "cached_prompt_ratio": ratio(share.cached, share.prompt),
        "success_ratio": ratio(share.done, share.arrived),
        "budget_met_ratio": ratio(share.in_time, share.arrived),
        "timeouts": share.timeouts,
        "wait_p50_ms": percentile(waits, 0.50),
        "wait_p99_ms": percentile(waits, 0.99),
        "last_end_s": share.last_end / SECOND if share.done else None,
    }


def _business(share: Share) -> BusinessFigures:
    return {
        "sla_met_ratio": ratio(share.in_time, share.arrived),
        "success_ratio": ratio(share.done, share.arrived),
        "quota_refused_ratio": ratio(share.quota, share.arrived),
    }
