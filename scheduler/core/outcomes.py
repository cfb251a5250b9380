"""How attempts end, and what is done about it: breakers, paths, and whether one is made again.

**Retries.** One that a replica can take which nobody has reason to doubt is always made; so is
one that makes no work twice, for it goes on from what the caller has, or its replica was gone.
The budget is for the others: attempts on replicas that may fail as well, or for a business
whose requests fail wherever they go. These keep to ``failover.retry_budget`` of the traffic, so
that what is broken as a whole is not sent everything several times over.
"""

from collections.abc import Iterator

from . import events
from .blame import finding, is_well, note_trouble, note_well, trusted
from .breaker import note_request
from .circuits import close_circuit, failed_trial, is_trial, open_circuit
from .decisions import Decision, Trip
from .demand import renew_layout
from .dispatch import fill_all
from .membership import count_slots
from .paths import note_attempt
from .placement import served
from .replica import Replica
from .request import Request
from .standing import Trouble
from .state import State

# An attempt that failed may be made elsewhere, but not without end.
MOST_FAILURES = 3
# What the retry budget comes to at most, however long all has gone well.
MOST_RETRIES = 10.0


def note_finished(
    state: State,
    request: Request,
    replica: Replica,
    event: events.Finished,
    out: list[Decision],
) -> None:
    """The request's last attempt has ended at the replica, whatever came of it."""
    if event.failed:
        trouble = _failed_at(state, request, replica, out)
        note_request(state, request, trouble, out, lost=True)
    elif event.answered:
        if request.dispatched >= replica.busy_until:
            replica.busy_for = 0
        _went_well(state, request, replica, out)
        note_request(state, request, None, out, lost=False)
    else:
        return
    if state.paths and note_attempt(state, request, replica, event.output, failed=event.failed):
        _switched(state, out)


def note_failed(
    state: State, request: Request, replica: Replica, event: events.Failed, out: list[Decision]
) -> bool:
    """An attempt has failed at the replica, which it has left; whether another is made."""
    fault = event.fault
    if fault is events.Fault.BUSY:
        replica.hold_off(state.now)
        state.busy_until = max(state.busy_until, replica.busy_until)
        return not request.tried or served(state, request)
    request.tried |= {(replica.facts.name, replica.generation)}
    trouble = None
    if fault is events.Fault.UNREACHABLE:
        if replica.ready and state.replicas.get(replica.facts.name) is replica:
            replica.ready = False
            count_slots(state)
            renew_layout(state)
            out.append(Trip(replica.facts.name, replica.generation))
    else:
        request.failures += 1
        trouble = _failed_at(state, request, replica, out)
        if state.paths and note_attempt(state, request, replica, 0, failed=True):
            _switched(state, out)
    if (
        request.failures < MOST_FAILURES
        and served(state, request)
        and _again(state, request, fault)
    ):
        return True
    note_request(state, request, trouble, out, lost=True)
    return False


def _again(state: State, request: Request, fault: events.Fault) -> bool:
    """Whether the request may have one more attempt, and that is noted where it is budgeted."""
    ticket, others = request.ticket, _others(state, request)
    if request.produced or fault is events.Fault.UNREACHABLE:
        return any(True for _ in others)
    trust = trusted(state, ticket.business, ticket.model)
    some = False
    for replica in others:
        some = True
        if trust and is_well(state, replica, request):
            return True
    if not some:
        return False
    earned = state.arrivals * state.policy.failover.retry_budget
    state.arrivals = 0
    state.retries = min(MOST_RETRIES, state.retries + earned)
    if state.retries < 1.0:
        return False
    state.retries -= 1.0
    return True


def _others(state: State, request: Request) -> Iterator[Replica]:
    """Replicas that have not failed the request and may take it. Only an answer that has begun is
    worth the wait until a breaker may close."""
    ticket = request.ticket
    for replica in state.replicas.values():
        if (
            replica.serving()
            and replica.will_take(ticket.model, request.lane, ticket.level)
            and not request.avoids(replica)
            and (request.produced or ticket.model not in replica.circuits)
        ):
            yield replica


def _failed_at(
    state: State, request: Request, replica: Replica, out: list[Decision]
) -> Trouble | None:
    """An attempt has failed at the replica: the model's breaker there may open. What is known of
    the business's failures there, or None where this one is the replica's doing."""
    if state.replicas.get(replica.facts.name) is not replica:
        return None  # a process that is gone
    model = request.ticket.model
    if model in replica.circuits:
        if failed_trial(state, request, replica, out):
            _switched(state, out)
        return None
    trouble = note_trouble(state, request, replica)
    found = finding(state, request, replica, trouble)
    if found is None:
        return trouble
    open_circuit(state, replica, model, found, out)
    _switched(state, out)
    return None


def _went_well(state: State, request: Request, replica: Replica, out: list[Decision]) -> None:
    """An attempt has gone well there."""
    note_well(state, request, replica)
    circuit = replica.circuits.get(request.ticket.model) if replica.circuits else None
    if circuit is not None and is_trial(request, circuit):
        close_circuit(state, replica, request.ticket.model, out)
        _switched(state, out)


def _switched(state: State, out: list[Decision]) -> None:
    """A model is to be served by others."""
    renew_layout(state)
    fill_all(state, out)
