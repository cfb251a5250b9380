"""``python -m scheduler.simulation``: the scheduling experiment."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .least import Least
from .lp import throughput_bound
from .progress import Progress
from .report import Report, save, show
from .runner import Found, Result, Task, run_all
from .scenario import Scenario
from .scenario_file import ScenarioError, built_in, load
from .schedulers import OWN, SCHEDULERS, fitting

DEFAULT_OUT = Path("build") / "simulation"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        scenarios = [load(source) for source in options.scenario or built_in()]
    except ScenarioError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for scenario in scenarios:
        for remark in scenario.remarks:
            sys.stderr.write(f"{scenario.name}: {remark}\n")
    if options.seconds is not None:
        scenarios = [scenario.cut(options.seconds) for scenario in scenarios]
    tasks = [
        Task(scenario, scenario.seed if options.seed is None else options.seed, *what)
        for scenario in scenarios
        for what in _what(scenario, options.only or fitting(scenario), search=options.search)
    ]
    with Progress() as progress:
        results = run_all(tasks, progress, options.processes)
    for report in _reports(scenarios, list(zip(tasks, results, strict=True))):
        sys.stdout.write(show(report))
        save(report, options.out)
    sys.stdout.write(f"Results and charts are in {options.out}\n")
    return 0


def _what(scenario: Scenario, schedulers: Sequence[str], *, search: bool) -> list[tuple[str, bool]]:
    """Schedulers to run; where scaling is part of it, also the search for the least cards."""
    runs = [(scheduler, False) for scheduler in schedulers]
    if search and scenario.idle_cards and OWN in schedulers:
        runs.append((OWN, True))
    return runs


def _reports(scenarios: Sequence[Scenario], found: Sequence[tuple[Task, Found]]) -> list[Report]:
    reports = []
    for scenario in scenarios:
        own = [(task, result) for task, result in found if task.scenario is scenario]
        runs = {task.scheduler: r for task, r in own if isinstance(r, Result)}
        least = next((result for _, result in own if isinstance(result, Least)), None)
        reports.append(Report(scenario, own[0][0].seed, throughput_bound(scenario), runs, least))
    return reports


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scheduler.simulation", description=__doc__)
    parser.add_argument(
        "--scenario",
        action="append",
        metavar="PATH",
        help=f"a scenario file or the name of a built-in one ({', '.join(built_in())}); "
        "may be given several times; default: all built-in ones",
    )
    parser.add_argument("--seed", type=int, help="instead of the scenario's own")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder for the results")
    parser.add_argument(
        "--only",
        type=_names,
        metavar="NAMES",
        help=f"schedulers, separated by commas, of {', '.join(SCHEDULERS)}; default: all, "
        "the last only where there are conversations",
    )
    parser.add_argument("--seconds", type=float, help="end the arrivals after so many seconds")
    parser.add_argument(
        "--no-search",
        dest="search",
        action="store_false",
        help="of scenarios with idle cards, do not look for the least cards that would do",
    )
    parser.add_argument("--processes", type=int, help="default: one a core")
    return parser


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in names if name not in SCHEDULERS]
    if wrong or not names:
        raise argparse.ArgumentTypeError(
            f"{', '.join(wrong) or 'nothing'} is none of {', '.join(SCHEDULERS)}"
        )
    return list(dict.fromkeys(names))


if __name__ == "__main__":
    sys.exit(main())
