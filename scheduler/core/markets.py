"""Markets: pools among which work can move, because they have a model in common.

Businesses take turns within a market (see ``shares``): who has used much of cards that others can't
use has taken nothing from them.
"""

from collections.abc import Iterable

from .request import ENDED, QUEUED
from .shares import join, leave, ledger_of
from .state import State


def note_markets(state: State) -> None:
    """Number the models' markets by the fleet as it is. What waits and is in another now is lined
    up anew; what runs is settled where it began."""
    found = _markets(state)
    if found == state.markets:
        return
    state.markets = found
    for request in state.requests.values():
        if request.phase is QUEUED and request.ledger != ledger_of(state, request):
            request.phase = ENDED
            state.queues.drop(request)
            leave(state, request)
            request.phase = QUEUED
            join(state, request)
            state.queues.push(request)


def _markets(state: State) -> dict[str, int]:
    """Numbers by model: those of pools that are connected are the same."""
    homes: dict[str, dict[str, None]] = {}
    for replica in state.replicas.values():
        for model in replica.facts.models:
            homes.setdefault(model, {})[replica.pool.name] = None
    first = connected(homes.values())
    for pool in sorted(first):
        # A market is known by the first of its pools, under one number for all time.
        state.market_ids.setdefault(first[pool], len(state.market_ids))
    return {model: state.market_ids[first[next(iter(pools))]] for model, pools in homes.items()}


def connected(links: Iterable[Iterable[str]]) -> dict[str, str]:
    """By name the first, in their order, of all names that it is linked to, if by others. Names
    that come in one of the ``links`` together are linked."""
    root: dict[str, str] = {}

    def find(name: str) -> str:
        while root[name] != name:
            root[name] = name = root[root[name]]
        return name

    for names in links:
        first = None
        for name in names:
            root.setdefault(name, name)
            one, other = sorted((find(first or name), find(name)))
            first = root[other] = one
    return {name: find(name) for name in root}
