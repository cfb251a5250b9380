"""Running scenarios under schedulers, one process a core."""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.sharedctypes import SynchronizedArray

from .figures import RunFigures, figures
from .least import Least, least_cards
from .rates import planned
from .scenario import Scenario
from .schedulers import SCHEDULERS
from .series import Series, wait_series
from .workload import Workload
from .world import World

# Weight of a scheduler's run beside the plainest one's, for the order and the progress.
EFFORT = {"fairlane": 4.0, "class-floors": 1.5}
SEARCH_RUNS = 4
REFRESH_S = 0.2


@dataclass(frozen=True, slots=True)
class Task:
    """One scenario under one scheduler, or the search for the least cards that would do."""

    scenario: Scenario
    seed: int
    scheduler: str
    search: bool = False

    def effort(self) -> float:
        """About how long it takes, in no unit."""
        duration = self.scenario.duration_s
        requests = sum(planned(stream, 0.0, duration) for stream in self.scenario.arrivals)
        runs = SEARCH_RUNS if self.search else 1
        return (requests + 1) * EFFORT.get(self.scheduler, 1.0) * runs


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run; ``seconds`` is its processor time."""

    task: Task
    figures: RunFigures
    waits: Series
    requests: int
    seconds: float


Found = Result | Least


Watch = Callable[[float], None]


def run_one(task: Task, watch: Watch = lambda _: None) -> Result:
    """Run a task to its end in this process."""
    workload = Workload(task.scenario, task.seed)
    world = World(workload, SCHEDULERS[task.scheduler])
    began = time.process_time()
    records = world.run(watch)
    seconds = time.process_time() - began
    found, waits = figures(workload, records), wait_series(workload, records)
    return Result(task, found, waits, len(workload), seconds)


def do(task: Task, watch: Watch = lambda _: None) -> Found:
    """Run a task, or search, as it says."""
    if task.search:
        return least_cards(task.scenario, task.seed, watch)
    return run_one(task, watch)


def run_all(tasks: Sequence[Task], watch: Watch, processes: int | None = None) -> list[Found]:
    """Do every task, in as many processes as there are cores; results in the tasks' order.

    ``watch`` is told the share of all work that is done.
    """
    processes = min(len(tasks), processes or os.cpu_count() or 1)
    if processes <= 1:
        return _run_here(tasks, watch)
    efforts = [task.effort() for task in tasks]
    # Spawned, for a forked child would inherit locks that threads of its parent hold.
    context = get_context("spawn")
    shares = context.Array("d", len(tasks))
    with ProcessPoolExecutor(processes, context, _remember, (shares,)) as pool:
        # The longest first, so that no core is left alone with it in the end.
        order = sorted(range(len(tasks)), key=lambda place: -efforts[place])
        futures: dict[int, Future[Found]] = {
            place: pool.submit(_run_there, tasks[place], place) for place in order
        }
        pending = set(futures.values())
        while pending:
            done, pending = wait(pending, timeout=REFRESH_S)
            for future in done:
                future.result()
            watch(_mean([shares[place] for place in range(len(tasks))], efforts))
        return [futures[place].result() for place in range(len(tasks))]


def _run_here(tasks: Sequence[Task], watch: Watch) -> list[Found]:
    efforts = [task.effort() for task in tasks]
    shares = [0.0] * len(tasks)
    results: list[Found] = []
    for place, task in enumerate(tasks):

        def told(share: float, place: int = place) -> None:
            shares[place] = share
            watch(_mean(shares, efforts))

        results.append(do(task, told))
    return results


def _mean(shares: Sequence[float], efforts: Sequence[float]) -> float:
    done = sum(share * effort for share, effort in zip(shares, efforts, strict=True))
    return done / sum(efforts) if efforts else 1.0


class _Shared:
    """What a worker process was given at its start."""

    shares: "SynchronizedArray[float] | None" = None


def _remember(shares: "SynchronizedArray[float]") -> None:
    _Shared.shares = shares


def _run_there(task: Task, place: int) -> Found:
    shares = _Shared.shares
    assert shares is not None

    def told(share: float) -> None:
        shares[place] = share

    return do(task, told)
