"""``python -m scheduler.simulation.fuzz``: a search for counterexamples.

Random scenarios run under the production core, whose invariants are checked at every step, and
under all plain schedulers. A counterexample is a broken invariant, or a plain scheduler that
dominates.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean

from .random_scenarios import random_scenario
from .scenario_file import ScenarioError
from .trial import Trial, try_seed, try_text

DEFAULT_OUT = Path("build") / "fuzz"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status: 1 with a counterexample, 2 with a file that is none."""
    options = _parser().parse_args(arguments)
    if options.scenario is not None:
        return _alone(options.scenario)
    seeds = range(options.seed, options.seed + options.count)
    trials = []
    for seed, trial in zip(seeds, run(seeds, options.processes), strict=True):
        _tell(trial.lines())
        if trial.failed:
            _tell([f"  make fuzz SCENARIO={keep(seed, options.out)}"])
        trials.append(trial)
    _tell(summary(trials))
    return int(any(trial.failed for trial in trials))


def run(seeds: Sequence[int], processes: int | None = None) -> Iterator[Trial]:
    """The trials of some seeds in their order, in as many processes as there are cores."""
    processes = min(len(seeds), processes or os.cpu_count() or 1)
    if processes <= 1:
        yield from map(try_seed, seeds)
        return
    # Spawned, for a forked child would inherit locks that threads of its parent hold.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield from pool.map(try_seed, seeds)


def keep(seed: int, out: Path) -> Path:
    """Write a seed's scenario down, so that it stays when the generator changes."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"random-{seed}.json"
    path.write_text(json.dumps(random_scenario(seed), indent=1) + "\n", encoding="utf-8")
    return path


def summary(trials: Sequence[Trial]) -> list[str]:
    """What the trials come to."""
    broken = sum(bool(trial.broken) for trial in trials)
    dominated = sum(trial.dominated is not None for trial in trials)
    poorer = sum(trial.poorer is not None for trial in trials)
    ahead = [trial.ahead for trial in trials if trial.ahead is not None]
    lines = [f"{len(trials)} scenarios: {broken} with a broken invariant, {dominated} dominated"]
    if ahead:
        lines.append(
            f"P0 in budget: {100 * fmean(ahead):+.2f} points on average beside the best plain one"
        )
    lines.append(f"P2 success below priority-heap's, P0 and P1 no better: {poorer}")
    return lines


def _alone(path: Path) -> int:
    try:
        trial = try_text(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ScenarioError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    _tell(trial.lines())
    return int(trial.failed)


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    program = "python -m scheduler.simulation.fuzz"
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the first scenario")
    parser.add_argument("--count", type=int, default=20, help="how many seeds from that on")
    parser.add_argument("--scenario", type=Path, help="one scenario file instead")
    parser.add_argument(
        "--out", type=Path, default=DEFAULT_OUT, help="counterexamples are kept here"
    )
    parser.add_argument("--processes", type=int, help="default: one a core")
    return parser


if __name__ == "__main__":
    sys.exit(main())
