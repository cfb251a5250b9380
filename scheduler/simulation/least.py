"""The least number of whole cards that would do, all day and with no scaling.

Found by halving: what enough cards can do, more can. The first cards of a scenario are taken,
its idle ones last.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from .fairlane import Fairlane
from .figures import RunFigures, figures
from .scenario import Scenario
from .workload import Workload
from .world import World

# Both P0 and P1 meet their budgets if this share of their arrivals does.
ENOUGH = 0.995


@dataclass(frozen=True, slots=True)
class Least:
    """``cards`` None: not even all of them are enough. ``tried`` has P0's and P1's shares in
    budget by number of cards."""

    cards: int | None
    tried: dict[int, tuple[float | None, float | None]]


def least_cards(
    scenario: Scenario, seed: int, watch: Callable[[float], None] = lambda _: None
) -> Least:
    """Search with the production core. ``watch`` is told the share that is done, about."""
    tried: dict[int, tuple[float | None, float | None]] = {}
    most = len(scenario.cards())
    low, high = _fewest(scenario), most + 1
    rounds = max(1, (high - low).bit_length())
    while low < high:
        cards = (low + high) // 2
        run = _run(with_cards(scenario, cards), seed)
        tried[cards] = (
            run["lanes"]["P0"]["budget_met_ratio"],
            run["lanes"]["P1"]["budget_met_ratio"],
        )
        if all(share is None or share >= ENOUGH for share in tried[cards]):
            high = cards
        else:
            low = cards + 1
        watch(min(1.0, len(tried) / rounds))
    watch(1.0)
    return Least(low if low <= most else None, dict(sorted(tried.items())))


def with_cards(scenario: Scenario, cards: int) -> Scenario:
    """The scenario with so many cards at rest and none idle."""
    kept = scenario.cards()[:cards]
    names = {spec.name for spec in kept}
    faults = tuple(fault for fault in scenario.faults if fault.replica in names)
    return replace(scenario, replicas=kept, faults=faults, idle_cards=0)


def _fewest(scenario: Scenario) -> int:
    """As many of the first cards as it takes to have an elastic one."""
    places = [place for place, spec in enumerate(scenario.replicas, 1) if not spec.pool.dedicated]
    return min(places, default=len(scenario.replicas))


def _run(scenario: Scenario, seed: int) -> RunFigures:
    workload = Workload(scenario, seed)
    return figures(workload, World(workload, Fairlane).run())
