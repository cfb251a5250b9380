"""When a request is expected to be done on a replica, counting what it does to those there already.

On a replica that takes it now a request is done after its own prefill, those that are outstanding
there, and as many steps as its answer has tokens, each longer by the *slope* for each request that
shares it. It makes the outstanding prefills later, where prompts share the card, and each step of
the others longer by the slope as well. What takes a fixed time takes that.
"""

from collections.abc import Collection

from .estimates import STEP_PRIOR
from .outstanding import AHEAD, closed, wait_for_others
from .prefixes import WORTH
from .replica import Replica
from .request import Request
from .state import State


def completion(state: State, request: Request, replica: Replica) -> float:
    """When the request would be done there (ns from now), and by how much it would make others
    later."""
    estimates, model = state.estimates, request.ticket.model
    speed = estimates.speed(model, replica.facts.name)
    if not request.generative:
        return speed.service.value if speed is not None and speed.service is not None else 0.0
    own = prefill_of(state, request, replica)
    wait, later = wait_for_others(replica, own, estimates.serial(replica.facts.name))
    if speed is not None and speed.step.weight:
        base, slope = speed.step.base, speed.step.slope
    else:
        base, slope = STEP_PRIOR, STEP_PRIOR / replica.facts.slots
    left = max(1, request.answer - request.produced)
    return own + wait + later + left * (base + slope * (1 + 2 * replica.running))


def shut(state: State, request: Request, replica: Replica) -> bool:
    """Whether the replica has so much to prefill for work that is as urgent, or more so, that the
    request would only wait there, where nobody can put urgent work before it: unless little of its
    prompt is still to be computed there, and it saves more by that than it waits, or it is short
    enough to slip in. The modes that weigh replicas by other things do not look at that."""
    lane = request.lane
    if not request.generative or not closed(replica, lane):
        return False
    policy, ticket = state.policy, request.ticket
    if policy.placement.mode != "completion" or policy.mode == "fifo":
        return False
    knows = bool(ticket.blocks) and not request.produced
    if not knows and lane != 1:
        return True
    own = prefill_of(state, request, replica)
    if knows:
        saved = state.estimates.prefill(ticket.model, replica.facts.name, ticket.prompt) - own
        if own < AHEAD and WORTH * saved >= sum(replica.prefill_ns[: lane + 1]):
            return False
    return lane != 1 or not _slips_in(state, request, replica, own)


def _slips_in(state: State, request: Request, replica: Replica, own: float) -> bool:
    """Whether a prompt of P1 that takes ``own`` ns saves more, by the lanes' weights, than it costs
    P0, when it shares the card with that instead of waiting for it; and leaves slots for P0 that
    waits until the card has less to prefill. Evaluations can always wait."""
    model, serial = request.ticket.model, state.estimates.serial(replica.facts.name)
    if replica.prefill_ns[1] > AHEAD or serial > 0.5:
        return False
    if replica.running + 1 + _waiting_for(state, replica.serves[0]) > replica.facts.slots:
        return False
    # Each of those that wait has as much to prefill as those there.
    waiting = _waiting_for(state, (model,))
    there = sum(lane == 0 for _, _, _, lane in replica.prefills.values())
    saved = replica.prefill_ns[0] * (1.0 + waiting / there) - own * there
    queues = state.policy.queues
    return own * (there + waiting) * queues.P0.weight < saved * queues.P1.weight


def _waiting_for(state: State, models: Collection[str]) -> float:
    """How many of P0 wait for the models, of which each card of their sets has its part."""
    waiting, sets = state.queues.waiting, state.layout.sets
    return sum(
        waiting[model, 0] / (sum(map(len, sets.get((model, 0), ()))) or 1)
        for model in models
        if (model, 0) in waiting
    )


def prefill_of(state: State, request: Request, replica: Replica) -> float:
    """ns that the replica will need until the request's first token, with nothing beside it."""
    ticket, name, tokens = request.ticket, replica.facts.name, request.ticket.prompt
    if request.produced:
        known = state.estimates.resumes.get((ticket.model, name))
        if not ticket.blocks or (known is not None and name == request.last):
            return float(state.estimates.resuming(ticket, name, request.produced))
        tokens += request.produced
        if name == request.last:
            # What it left there followed its prompt.
            tokens -= state.prefixes.behind(name, ticket.blocks)
    if ticket.blocks:
        tokens = max(1, tokens - state.prefixes.tokens(name, ticket.blocks))
    return state.estimates.prefill(ticket.model, name, tokens)


def wait_in_set(state: State, model: str, lane: int) -> float:
    """ns until a request that comes behind all that wait for the model, in this lane and those
    above, gets a slot of its placement set, by the rate at which these come free."""
    waiting = state.queues.waiting
    ahead = sum(waiting.get((model, other), 0) for other in range(lane + 1))
    rate = sum(group.turnover for group in state.layout.sets.get((model, lane), ()))
    return ahead / rate if rate else float(state.service)
