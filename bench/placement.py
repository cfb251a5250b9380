"""Section ``placement``: equal cards and nothing that waits, so that only where a call goes
decides. The scenario even-cards in real time behind Fairlane and behind nginx, in turn."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from scheduler.simulation.scenario_file import load
from scheduler.simulation.workload import Workload

from .balancer import METHODS, balancing
from .installation import furnished
from .machine import Cores
from .replay import Made, plan, replay
from .report import Json, Part, paired, percentile, rounded, table
from .site import Loads, cards_of, fleet, senders
from .ways import Effort, Way, interleaved, one_round, warn_of_late

SCENARIO = "even-cards"
OURS = "fairlane"
LANES = {0: "p0", 1: "p1"}
SHARES = {"p50": 0.50, "p95": 0.95}
# Fairlane's first token against the better of the others', and a card's calls against the mean.
MOST_RATIO = {"p0_p50": 1.0, "p0_p95": 1.0, "p1_p50": 1.1, "p1_p95": 1.1}
MOST_SPREAD = 0.15


@dataclass(frozen=True, slots=True)
class Round:
    """One gateway in one round. ``first_ms``: time to the first token by lane and percentile;
    ``failed``: calls not answered whole, by reason."""

    first_ms: dict[str, float]
    answered: int
    failed: dict[str, int]
    loads: Loads
    effort: Effort


Results = dict[str, list[Round]]


def measure(rounds: int, cores: Cores) -> Part:
    """Run the section, print its table and return its part of bench.json."""
    scenario = load(SCENARIO)
    (model,) = scenario.models
    businesses = senders(scenario)
    results: Results = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        cards = stack.enter_context(cards_of(scenario, folder, cores))
        installation = stack.enter_context(
            furnished(fleet(scenario, cards.urls), businesses, cores)
        )
        ways = [Way(OURS, partial(installation.serving, "gateway"), installation.keys)]
        urls = list(cards.urls.values())
        for method in METHODS:
            start = partial(balancing, method, urls, folder, cores.gateway)
            ways.append(Way(method, start, {}))
        plans = [plan(Workload(scenario, scenario.seed + number)) for number in range(rounds)]

        def each(way: Way, number: int) -> None:
            found = one_round(
                way,
                cards,
                model,
                businesses,
                lambda url, keys: replay(url, plans[number], keys),
            )
            results.setdefault(way.name, []).append(round_of(*found))

        interleaved(ways, rounds, each, section="placement")
    ratios = ratios_of(results)
    show(results, ratios)
    return {"placement": rounded(_document(results)), "ratios": rounded(ratios)}


def round_of(made: Sequence[Made], loads: Loads, effort: Effort) -> Round:
    """What the calls of a round come to."""
    first = {}
    for lane, name in LANES.items():
        times = sorted(
            1e3 * each.heard.first_s
            for each in made
            if each.planned.lane == lane and each.heard.first_s is not None
        )
        for label, share in SHARES.items():
            first[f"{name}_{label}"] = percentile(times, share)
    failed = Counter(each.heard.reason for each in made if not each.heard.whole)
    return Round(first, sum(each.heard.whole for each in made), dict(failed), loads, effort)


def ratios_of(results: Results) -> dict[str, float]:
    """Fairlane's first token over that of the better of the others, the worst of it by figure."""
    others = [found for name, found in results.items() if name != OURS]
    return {
        f"placement_{figure}": max(
            paired(_times(results[OURS], figure), _times(found, figure), float) for found in others
        )
        for figure in MOST_RATIO
    }


def _times(found: Sequence[Round], figure: str) -> list[float]:
    return [each.first_ms[figure] for each in found]


def _document(results: Results) -> dict[str, Json]:
    return {
        name: {
            **{figure: median(each.first_ms[figure] for each in found) for figure in MOST_RATIO},
            "spread": median(each.loads.spread for each in found),
            "rounds": [
                {
                    **each.first_ms,
                    "answered": each.answered,
                    "failed": each.failed,
                    "calls_by_card": each.loads.requests,
                    "spread": each.loads.spread,
                    **each.effort.figures(),
                }
                for each in found
            ],
        }
        for name, found in results.items()
    }


def show(results: Results, ratios: dict[str, float]) -> None:
    """Print the table."""
    count = len(results[OURS])
    print(
        f"\nPlacement: {SCENARIO} in real time, first token (ms), medians of {count} interleaved"
        " rounds"
    )
    head = ["gateway", *(name.replace("_", " ").upper() for name in MOST_RATIO)]
    head += ["answered", "failed", "calls/card", "off mean", *Effort.HEAD]
    rows: list[list[Json]] = []
    for name, found in results.items():
        counts = [count for each in found for count in each.loads.requests.values()]
        rows.append(
            [
                name,
                *(median(each.first_ms[figure] for each in found) for figure in MOST_RATIO),
                sum(each.answered for each in found),
                sum(sum(each.failed.values()) for each in found),
                f"{min(counts)}-{max(counts)}",
                f"{median(each.loads.spread for each in found):.0%}",
                *Effort.cells([each.effort for each in found]),
            ]
        )
    print(table(head, rows))
    warn_of_late([each.effort for found in results.values() for each in found])
    told = ", ".join(
        f"{figure.replace('_', ' ').upper()} {ratios[f'placement_{figure}']:.2f}"
        f" (wanted: {most} or less)"
        for figure, most in MOST_RATIO.items()
    )
    spread = median(each.loads.spread for each in results[OURS])
    print(f"{OURS} / the better nginx: {told}")
    print(
        f"{OURS}'s calls by card: at most {spread:.0%} from the mean (wanted: {MOST_SPREAD:.0%} or"
        " less)"
    )
