"""Results for people and for programs: a table, a JSON file, a chart."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from metering.core.facts import LANES

from .chart import wait_chart
from .costs import CardFigures
from .figures import RunFigures
from .least import Least
from .runner import Result
from .scenario import Scenario
from .schedulers import OWN
from .targets import targets

DIGITS = 6


@dataclass(frozen=True, slots=True)
class Report:
    """Results of one scenario by scheduler; ``bound`` is the most requests per second that
    any scheduler could complete at the busiest mix, ``least`` the cards that would do without
    scaling, if they were looked for."""

    scenario: Scenario
    seed: int
    bound: float
    results: Mapping[str, Result]
    least: Least | None = None

    def runs(self) -> dict[str, RunFigures]:
        """The figures alone."""
        return {name: result.figures for name, result in self.results.items()}


def document(report: Report) -> dict[str, object]:
    """The contract's machine-readable form."""
    least = {} if report.least is None else {"least_cards": _least(report.least)}
    return {
        "scenario": report.scenario.name,
        "seed": report.seed,
        "throughput_bound_qps": _rounded(report.bound),
        "requests": next(iter(report.results.values())).requests,
        **least,
        "schedulers": {name: _rounded(run) for name, run in report.runs().items()},
    }


def save(report: Report, out: Path) -> None:
    """Write ``<scenario>.json`` and ``<scenario>.svg`` into a folder, made if need be."""
    out.mkdir(parents=True, exist_ok=True)
    name = report.scenario.name
    text = json.dumps(document(report), indent=1)
    (out / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
    series = {scheduler: result.waits for scheduler, result in report.results.items()}
    chart = wait_chart(name, report.scenario.duration_s, series)
    (out / f"{name}.svg").write_text(chart, encoding="utf-8")


def show(report: Report) -> str:
    """The table of a scenario, and its targets where it has some."""
    runs = report.runs()
    requests = next(iter(report.results.values())).requests
    title = f"{report.scenario.name}: {requests:,} requests, seed {report.seed}"
    rows = [["", *runs]]
    rows += [[label, *(read(run) for run in runs.values())] for label, read in ROWS]
    rows += [*_models(runs), *_cached(runs), *_refusals(runs), *_recoveries(runs)]
    rows.append(["processor s", *(f"{r.seconds:.0f}" for r in report.results.values())])
    bound = f"{report.bound:,.1f} requests/s of the busiest minute's mix are the most possible"
    lines = ["", title, bound, *_grid(rows)]
    if report.least is not None:
        lines += ["", *_least_shown(report.least, runs[OWN]["cards"])]
    whole = report.least.cards if report.least is not None else None
    found = targets(report.scenario, runs, report.bound, whole)
    if found:
        held = [["target", "wanted", "reached", ""]]
        held += [[t.text, t.wanted, t.reached, "met" if t.met else "MISSED"] for t in found]
        lines += ["", *_grid(held)]
    return "\n".join([*lines, ""])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def _number(value: float | None, form: str = ",.1f") -> str:
    return "-" if value is None else f"{value:{form}}"


Row = tuple[str, Callable[[RunFigures], str]]
ROWS: tuple[Row, ...] = (
    ("P0 P50 ms", lambda run: _number(run["p0_p50_ms"])),
    ("P0 P95 ms", lambda run: _number(run["p0_p95_ms"])),
    ("P0 P99 ms", lambda run: _number(run["p0_p99_ms"])),
    ("P0 wait P99 ms", lambda run: _number(run["p0_wait_p99_ms"])),
    ("SLA missed", lambda run: _percent(run["sla_miss_ratio"])),
    ("peak requests/s", lambda run: _number(run["peak_throughput_qps"])),
    ("starved", lambda run: _percent(run["starved_ratio"])),
    ("success", lambda run: _percent(run["success_ratio"])),
    ("success P1", lambda run: _percent(run["lanes"]["P1"]["success_ratio"])),
    ("success P2", lambda run: _percent(run["lanes"]["P2"]["success_ratio"])),
    ("utilisation", lambda run: _percent(run["gpu_util_ratio"])),
    ("utilisation at peak", lambda run: _percent(run["gpu_util_peak_ratio"])),
    ("yield / slot s", lambda run: _number(run["yield_per_slot_s"], ",.2f")),
    ("preemptions", lambda run: f"{run['preemptions']:,}"),
    ("wasted", lambda run: _percent(run["wasted_ratio"])),
    ("timeouts", lambda run: f"{run['timeouts']:,}"),
    ("unfinished", lambda run: f"{run['unfinished']:,}"),
    ("card-seconds", lambda run: f"{run['cards']['card_seconds']:,}"),
    ("cards least-most", lambda run: f"{run['cards']['least']}-{run['cards']['most']}"),
    ("predictor error P0", lambda run: _percent(run["predictor"]["P0"]["service_error"])),
    ("  lengths known", lambda run: _percent(run["predictor"]["P0"]["known_length_error"])),
    ("  wait and service", lambda run: _percent(run["predictor"]["P0"]["latency_error"])),
)


def _models(runs: Mapping[str, RunFigures]) -> list[list[str]]:
    names = next(iter(runs.values()))["models"]
    return [
        [f"{name} P0 P99 ms", *(_number(run["models"][name]["p0_p99_ms"]) for run in runs.values())]
        for name in names
    ]


def _cached(runs: Mapping[str, RunFigures]) -> list[list[str]]:
    """Where any scheduler had anything found: all lanes, and those that had."""
    rows = [["prompts cached", *(_percent(run["cached_prompt_ratio"]) for run in runs.values())]]
    for lane in LANES:
        shares = [run["lanes"][lane]["cached_prompt_ratio"] for run in runs.values()]
        if any(shares):
            rows.append([f"  {lane}", *map(_percent, shares)])
    return rows if len(rows) > 1 else []


def _refusals(runs: Mapping[str, RunFigures]) -> list[list[str]]:
    """Those that any scheduler gave."""
    names = dict.fromkeys(name for run in runs.values() for name in run["refusals"])
    return [
        [f"refused: {name}", *(f"{run['refusals'].get(name, 0):,}" for run in runs.values())]
        for name in names
    ]


def _recoveries(runs: Mapping[str, RunFigures]) -> list[list[str]]:
    """Seconds until P0 waits as before, for each moment of a fault."""
    moments = next(iter(runs.values()))["recovery"]
    return [
        [
            f"recovers from {moment['event']} at {moment['at_s']:g} s, s",
            *(_number(run["recovery"][place]["after_s"], ".0f") for run in runs.values()),
        ]
        for place, moment in enumerate(moments)
    ]


def _least(least: Least) -> dict[str, object]:
    tried = [
        {"cards": cards, "p0_budget_met_ratio": first, "p1_budget_met_ratio": second}
        for cards, (first, second) in least.tried.items()
    ]
    return {"cards": least.cards, "tried": _rounded(tried)}


def _least_shown(least: Least, used: CardFigures) -> list[str]:
    """The least cards beside what scaling used."""
    tried = ", ".join(
        f"{cards}: {_percent(first)} and {_percent(second)}"
        for cards, (first, second) in least.tried.items()
    )
    lines = [f"P0 and P1 in budget without scaling, by whole cards: {tried}"]
    if least.cards is None:
        return [*lines, "not even all cards keep both to their budgets"]
    whole = least.cards * used["seconds"]
    share = _number(used["card_seconds"] / whole if whole else None, ".3f")
    told = f"{least.cards} cards are the least, {whole:,} card-seconds in {used['seconds']:,} s"
    return [
        *lines,
        f"{told}; with scaling {used['card_seconds']:,} were used, {share} times as many",
    ]


def _grid(rows: list[list[str]]) -> list[str]:
    """Columns in line, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]


def _rounded(value: object) -> object:
    """Numbers to some digits, so that files of equal runs are equal and readable."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if abs(value) < 1 else round(value, DIGITS)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return value
