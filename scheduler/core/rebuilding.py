"""A state built anew from what is known outside it, after a step has failed half-way.

What gateways hold is the truth about requests, what the fleet's watchers said about replicas, what
the database said about limits. Carried over from the state that failed is what nobody else knows:
what was measured, how work has fared, what was begun and is to be ended. Counts and queues are
never carried: they are what a half-done step leaves wrong. In order: ``carried_over`` or a new
``State``, ``know`` for each replica, limit and card, ``lay``, ``adopt`` for each request, and then
any event, which starts whoever can be started.
"""

from collections.abc import Mapping

from . import events
from .cards import as_they_are, standing_orders
from .counters import Active
from .decisions import Decision
from .demand import renew_layout
from .dispatch import occupy
from .fleet import PoolFacts
from .membership import count_slots, set_limits
from .outstanding import beside, leave
from .placement import served
from .queues import Aside
from .replica import Replica
from .request import QUEUED, YIELDING, Request
from .shares import ledger_of
from .state import State
from .throttle import eased, held
from .waiting import line_up

# Of the state, as whole objects.
CARRIED = (
    *("policy", "seed", "now", "sequence", "dispatches"),
    *(
        "estimates",
        "service",
        "demand",
        "arrived",
        "generative",
        "laid_out",
        "layout",
        "loads",
        "prefixes",
    ),
    *("tenants", "markets", "market_ids", "passes", "shares", "weights", "reviewed", "review_at"),
    *("breakers", "retries", "arrivals", "hopeless", "paths", "busy_until"),
    *("pressure", "watching", "cold", "rests", "plans", "news"),
)
# And why the rest is not.
MADE_ANEW = {
    "replicas": "told by the fleet's watchers; what was learned of each is carried (below)",
    "cards": "told by the driver",
    "requests": "told by the gateways",
    "queues": "lined up again",
    "expiries": "noted again as requests are lined up",
    "active": "counted again as requests are adopted; how far each ledger has come is carried",
    "lane_queued": "counted again",
    "lane_tokens": "counted again",
    "queuers": "counted again",
    "gates": "noted again as requests are adopted",
    "lane_running": "counted again",
    "free": "counted again",
    "stoppable": "counted again",
    "yielding": "counted again",
    "broken": "counted again",
    "plan_at": "the next look may come early",
    "picks": "a second's memory, of replicas that are other objects now",
    "wake": "asked for anew by the next event",
    "turn_at": "the next look at what is due may come early",
    "lay_out_at": "laid out at once",
    "looked": "the next look may come early",
    "look_again": "the next look may come early",
    "overdue_at": "the next look may come early",
    "late_at": "the next look may come early",
    "press_at": "the next look may come early",
}
# Of a replica that is still the same generation.
REPLICA_CARRIED = (
    *("busy_until", "busy_for", "witness", "standings", "circuits"),
    *("gpu", "memory", "queue", "measured", "stopping", "speed_class", "cache_tokens"),
)
# Of a request, what the core alone knows: where it stands in which lane, and by what it was let in.
REQUEST_CARRIED = ("lane", "key", "sequence", "answer", "since", "least", "last", "delayed")


def carried_over(old: State) -> State:
    """A state with all that the old one had learned, and nobody in it. Businesses keep what they
    have used and how their work has fared; what runs and waits of theirs is counted anew."""
    state = State()
    for name in CARRIED:
        setattr(state, name, getattr(old, name))
    for tenant in state.tenants.values():
        tenant.running = tenant.queued = 0
        tenant.active = [0, 0, 0]
        tenant.served = dict(tenant.used)
        for conduct in tenant.conducts.values():
            conduct.queued, conduct.queued_tokens = [0, 0, 0], [0, 0, 0]
    for ledger, active in old.active.items():
        state.active[ledger] = Active(ledger, virtual=active.virtual)
    return state


def know(
    state: State,
    told: events.ReplicaChanged | events.QuotaChanged | events.CardsChanged,
    before: Mapping[str, Replica],
) -> None:
    """Take in a part of the world, without laying out anew. ``before`` are the old state's
    replicas; empty where nothing of theirs is to be carried."""
    if isinstance(told, events.QuotaChanged):
        set_limits(state.tenant(told.business), told.facts)
    elif isinstance(told, events.CardsChanged):
        state.cards = {card.name: card for card in told.cards}
    else:
        replica = Replica(
            told.facts,
            told.pool,
            told.generation,
            told.ready,
            warm=told.warm,
        )
        old = before.get(told.facts.name)
        if old is not None and old.generation == told.generation:
            for name in REPLICA_CARRIED:
                setattr(replica, name, getattr(old, name))
        state.replicas[told.facts.name] = replica


def lay(state: State) -> None:
    """The world is known: count its slots and lay it out, once."""
    count_slots(state)
    renew_layout(state)
    state.turn_at = min(state.lay_out_at, state.review_at)


def adopt(state: State, event: events.Adopted, before: Request | None = None) -> None:
    """Take in a request where it is, as it was in the old state (``before``), if it is known."""
    ticket = event.ticket
    if ticket.id in state.requests:
        return
    replica = None if event.replica is None else _holder(state, event)
    if event.replica is not None and replica is None:
        return  # nothing is known of where it runs
    state.sequence += 1
    tenant = state.tenant(ticket.business)
    request = Request(
        ticket,
        state.sequence,
        tenant,
        tenant.conduct(ticket.model),
        state.estimates.tokens(ticket),
        ticket.prompt > 0 or ticket.output > 0,
        lane=ticket.lane,
        attempt=event.attempt,
        failures=event.failures,
        since=event.since or ticket.arrived,
        produced=event.produced,
        preempted=event.preempted,
        stopped=event.stopped,
        promoted=event.promoted,
        tried=event.tried,
    )
    if before is not None:
        for name in REQUEST_CARRIED:
            setattr(request, name, getattr(before, name))
    state.requests[ticket.id] = request
    _join(state, request)
    if replica is None:
        request.cold = ticket.model in state.cold and not served(state, request)
        line_up(state, request)
        return
    passes = list(state.passes)
    occupy(state, request, replica)
    if before is not None:
        state.passes[:] = passes  # its lane has been charged for it
    # Where nobody knows since when it runs, too long is taken for too short: that would look as
    # if it had just begun, and teach that such work is done in no time.
    request.dispatched, request.seen = event.dispatched or ticket.arrived, event.seen
    if event.seen:
        _go_on(state, request, replica, before)
    if event.stopping:
        request.phase = YIELDING
        state.yielding += 1


def _holder(state: State, event: events.Adopted) -> Replica | None:
    """The replica generation that a request runs on; one of its own where that has left."""
    known = state.replicas.get(event.replica or "")
    if known is not None and known.generation == event.generation:
        return known
    facts = event.facts
    if facts is None:
        return None
    # It takes nobody any more: what else is known of its pool is of no use.
    pool = PoolFacts(facts.pool, False, frozenset())
    return Replica(facts, pool, event.generation, ready=False)


def claim_again(state: State, old: State) -> None:
    """Whoever had room made for it in the old state, and waits still, has it made still."""
    for name, found in old.queues.aside.items():
        request = state.requests.get(name)
        if found.until and request is not None and request.phase is QUEUED:
            again = Aside(request, found.replica, found.until, found.bar)
            state.queues.set_aside(request, again)


def _go_on(state: State, request: Request, replica: Replica, before: Request | None) -> None:
    """Its first token has come: when, and beside how many it has run since, as far as is known."""
    leave(replica, request, state.now)
    request.first, beside_it = request.dispatched, float(replica.running)
    if before is not None and before.first and before.replica is not None:
        request.first, request.prefill = before.first, before.prefill
        beside_it = beside(before.replica, before, state.now)
    request.mark = replica.area - beside_it * (state.now - request.first)


def _join(state: State, request: Request) -> None:
    """Count a request in its lane. It was there before: its business neither falls back nor
    catches up by it."""
    business, lane, tenant = request.ticket.business, request.lane, request.tenant
    ledger = request.ledger = ledger_of(state, request)
    active = state.active.setdefault(ledger, Active(ledger))
    if business not in active.requests:
        active.join(business, tenant.used.get(ledger, 0.0))
    active.requests[business] += 1
    tenant.active[lane] += 1


def standing(state: State) -> list[Decision]:
    """What was asked of drivers and still holds: a step that fails may have lost its
    orders."""
    return [*held(state), *standing_orders(state)]


def given_up(old: State, state: State) -> list[Decision]:
    """Orders that take back what the old state had asked for, where nothing of it is carried: rates
    are in full, and pools keep the cards that are on."""
    return [*eased(old), *as_they_are(state, old.plans)]
