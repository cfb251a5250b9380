"""Markets: pools among which work can move, because they have a model in common.

Businesses take turns within a market (see ``shares``): who has used much of cards that others can't
use has taken nothing from them.
"""

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
    root: dict[str, str] = {}

    def find(pool: str) -> str:
        while root[pool] != pool:
            root[pool] = pool = root[root[pool]]
        return pool

    homes: dict[str, str] = {}
    for replica in state.replicas.values():
        pool = replica.pool.name
        root.setdefault(pool, pool)
        for model in replica.facts.models:
            first = homes.setdefault(model, pool)
            one, other = sorted((find(first), find(pool)))
            root[other] = one
    for pool in sorted(root):
        # A market is known by the first of its pools, under one number for all time.
        state.market_ids.setdefault(find(pool), len(state.market_ids))
    return {model: state.market_ids[find(pool)] for model, pool in homes.items()}
