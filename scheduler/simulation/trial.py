"""One scenario tried: whether the core keeps its promises, and whether plain ones do better."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from .checked import Checked
from .domination import Domination, Standing, domination
from .figures import RunFigures, figures
from .random_scenarios import random_scenario
from .scenario import Scenario
from .scenario_file import parse
from .schedulers import PLAIN, SCHEDULERS
from .scheduling import Cluster
from .workload import Workload
from .world import World

# The plain one whose P2 ours is held to where it serves the others no better.
HEAP = "priority-heap"
# What a program does that has gone wrong, a broken promise (AssertionError) first.
CRASHES = (AssertionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Trial:
    """``broken`` says how a promise was broken, ``steps`` how many were taken before. ``ahead`` is
    P0's share in budget less that of the ``best`` plain scheduler (None: no P0), ``poorer`` P2's
    success and that of priority-heap, where that is higher though P0 and P1 are no better."""

    name: str
    about: str
    requests: int
    steps: int
    broken: str = ""
    dominated: Domination | None = None
    ahead: float | None = None
    best: str = ""
    poorer: tuple[float, float] | None = None

    @property
    def failed(self) -> bool:
        """Whether it is a counterexample."""
        return bool(self.broken) or self.dominated is not None

    def lines(self) -> list[str]:
        """For people: one line, and one more for each thing found."""
        held = f"{self.requests:,} requests, {self.steps:,} steps"
        first = f"{self.name}: {self.about}; {held}"
        if self.ahead is not None:
            where = "below" if self.ahead < 0 else "above"
            first += f"; P0 in budget {100 * abs(self.ahead):.2f} points {where} {self.best}"
        lines = [first]
        if self.broken:
            lines.append(f"  BROKEN: {self.broken}")
        if self.dominated is not None:
            lines.append(f"  {self.dominated}")
        if self.poorer is not None:
            own, heap = self.poorer
            lines.append(
                f"  P2 success {own:.1%} against {heap:.1%} of {HEAP}, P0 and P1 no better"
            )
        return lines


def try_seed(seed: int) -> Trial:
    """The random scenario of a seed."""
    return try_text(json.dumps(random_scenario(seed)))


def try_text(text: str) -> Trial:
    """A scenario in JSON. Raises ScenarioError where it is none."""
    scenario = parse(text)
    workload = Workload(scenario)
    checked: list[Checked] = []

    def make(cluster: Cluster) -> Checked:
        checked.append(Checked(cluster))
        return checked[0]

    try:
        ours = figures(workload, World(workload, make).run())
    except CRASHES as error:
        steps = checked[0].steps if checked else 0
        broken = f"{type(error).__name__}: {error}"
        return Trial(scenario.name, scenario.about, len(workload), steps, broken)
    return _compared(scenario, workload, checked[0].steps, ours)


def _compared(scenario: Scenario, workload: Workload, steps: int, ours: RunFigures) -> Trial:
    plain = {name: figures(workload, World(workload, SCHEDULERS[name]).run()) for name in PLAIN}
    ahead, best = _ahead(ours, plain)
    return Trial(
        scenario.name,
        scenario.about,
        len(workload),
        steps,
        dominated=domination(ours, plain),
        ahead=ahead,
        best=best,
        poorer=poorer(ours, plain[HEAP]),
    )


def _ahead(ours: RunFigures, plain: Mapping[str, RunFigures]) -> tuple[float | None, str]:
    own = Standing.of(ours).p0_in_budget
    if own is None:
        return None, ""
    shares = {name: Standing.of(run).p0_in_budget or 0.0 for name, run in plain.items()}
    best = max(shares, key=shares.__getitem__)
    return own - shares[best], best


def poorer(ours: RunFigures, heap: RunFigures) -> tuple[float, float] | None:
    """P2's success of both where ours is lower for nothing: P0 in budget and P1's success are
    no higher than the other's."""
    own, other = Standing.of(ours), Standing.of(heap)
    if own.p2_success is None or other.p2_success is None or own.p2_success >= other.p2_success:
        return None
    bought = (own.p0_in_budget or 0.0) > (other.p0_in_budget or 0.0) or (own.p1_success or 0.0) > (
        other.p1_success or 0.0
    )
    return None if bought else (own.p2_success, other.p2_success)
