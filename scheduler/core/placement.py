"""Which replica a request goes to, among those that may take it now."""

from .replica import Replica
from .request import Request
from .state import State


def candidates(state: State, request: Request) -> list[Replica]:
    """Replicas with a free slot and room in the KV cache for the request, in fleet order."""
    ticket, now = request.ticket, state.now
    return [
        replica
        for replica in state.replicas.values()
        if replica.open(now)
        and replica.takes(ticket.model, ticket.lane, ticket.level)
        and replica.fits(ticket.tokens)
        and not (request.tried and request.avoids(replica))
    ]


def served(state: State, request: Request) -> bool:
    """Whether any replica in service would take the request when it has room."""
    ticket = request.ticket
    return any(
        replica.serving()
        and replica.takes(ticket.model, ticket.lane, ticket.level)
        and not request.avoids(replica)
        for replica in state.replicas.values()
    )


def place(state: State, request: Request) -> Replica | None:
    """The replica that should take the request now, or None.

    P0 fills its dedicated pools first, so that the shared ones stay free for who has no
    other; then the emptiest replica by share of slots, then the one picked longest ago.
    """
    found = candidates(state, request)
    if not found:
        return None
    urgent = request.ticket.lane == 0
    return min(
        found,
        key=lambda replica: (
            not (urgent and replica.pool.dedicated),
            replica.running / replica.facts.slots,
            replica.picked,
            replica.facts.name,
        ),
    )
