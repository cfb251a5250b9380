"""What requests do to the prefix caches of replicas, as far as can be counted from outside.

While it runs, a request holds the blocks of its prompt, once for all that run with them, and room
for the rest. When it leaves, all that it computed is what was used last there, and goes after
everything else: the blocks of its prompt by their names, its answer as tokens without one.
"""

from .replica import Replica
from .request import Request
from .state import State
from .ticket import PREFIX_BLOCK


def enter(state: State, request: Request, replica: Replica) -> None:
    """The request starts on the replica, which counts its KV tokens already."""
    ticket, prefixes, name = request.ticket, state.prefixes, replica.facts.name
    # What one that goes on finds was measured for such requests.
    request.held = 0 if request.produced else prefixes.tokens(name, ticket.blocks)
    if ticket.session:
        prefixes.ran(ticket.session, name)
    if ticket.blocks:
        request.named = min(request.kv, PREFIX_BLOCK * len(ticket.blocks))
        replica.kv_named += request.named
        prefixes.note(name, ticket.blocks, replica.cache_room())


def leave(state: State, request: Request, replica: Replica) -> None:
    """It has left the replica, which counts its KV tokens no more."""
    ticket, prefixes, name = request.ticket, state.prefixes, replica.facts.name
    replica.kv_named -= request.named
    request.named = 0
    if name not in prefixes.caches or state.replicas.get(name) is not replica:
        return
    done = ticket.prompt + request.produced + request.seen
    if ticket.blocks:
        rest = max(0, done - PREFIX_BLOCK * len(ticket.blocks))
        prefixes.note(name, ticket.blocks, replica.cache_room(), rest=rest)
    else:
        prefixes.left(name, ticket.id, done, replica.cache_room())
