"""Breakers of replicas, one for each model there: opened, tried again, closed.

A model that is left alone on a replica is laid out for nobody there, the replica's other models
are. When its time is over ``failover.half_open_probes`` requests at a time try it: one that
goes well closes the breaker, one that fails opens it again. A breaker that rests on one
business's word lets another's request try at once: no client takes a replica from the others.
"""

from typing import TYPE_CHECKING

from .blame import NS, Finding, clear_standing, trusted
from .decisions import Decision, Kind, Notice
from .replica import Replica
from .request import Request
from .standing import Circuit

if TYPE_CHECKING:
    from .state import State


def open_circuit(
    state: "State", replica: Replica, model: str, found: Finding, out: list[Decision]
) -> None:
    """Leave the model alone there for a time."""
    rules = state.policy.failover
    until = state.now + int(rules.open_s * NS)
    replica.circuits[model] = Circuit(until, rules.half_open_probes, found.word)
    clear_standing(state, replica, model)
    count_broken(state)
    state.busy_until = max(state.busy_until, until)
    out.append(Notice(Kind.BROKEN, replica.facts.name, f"{model}: {found.cause}", until))


def close_circuit(state: "State", replica: Replica, model: str, out: list[Decision]) -> None:
    """The model is served there as before."""
    del replica.circuits[model]
    count_broken(state)
    cause = f"{model}: an attempt has gone well"
    out.append(Notice(Kind.MENDED, replica.facts.name, cause))


def is_trial(request: Request, circuit: Circuit) -> bool:
    """Whether the request's attempt, or its last one, tries what was left alone."""
    return circuit.trying and request.dispatched >= circuit.until


def failed_trial(state: "State", request: Request, replica: Replica, out: list[Decision]) -> bool:
    """Whether an attempt that failed while the breaker is open has opened it again."""
    business, model = request.ticket.business, request.ticket.model
    circuit = replica.circuits[model]
    # Who fails where others do not shows nothing.
    if not is_trial(request, circuit) or not trusted(state, business, model):
        return False
    word = business if circuit.word in ("", business) else ""
    found = Finding("a request that tried it has failed", word)
    open_circuit(state, replica, model, found, out)
    if state.now < circuit.due:
        replica.circuits[model].asked |= circuit.asked
    return True


def count_broken(state: "State") -> None:
    """Count the open breakers of replicas."""
    state.broken = sum(len(replica.circuits) for replica in state.replicas.values())


def try_again(state: "State") -> int:
    """Let those be tried whose time is over; when the next one's is (ns; 0: there is none)."""
    for replica in state.replicas.values() if state.broken else ():
        for circuit in replica.circuits.values():
            circuit.trying |= circuit.until <= state.now
    return min(back_at(state), default=0)


def back_at(state: "State") -> list[int]:
    """When (ns) models that are left alone now may be tried again."""
    return [
        circuit.until
        for replica in (state.replicas.values() if state.broken else ())
        if replica.circuits
        for circuit in replica.circuits.values()
        if circuit.until > state.now
    ]


def _open_for(state: "State", request: Request) -> list[Circuit] | None:
    """The breakers that keep a request from running, if no replica may take it for them."""
    ticket, lane = request.ticket, request.lane
    found = []
    for replica in state.replicas.values():
        if not (replica.serving() and replica.could_take(ticket.model, lane, ticket.level)):
            continue
        circuit = replica.circuits.get(ticket.model)
        if circuit is None or circuit.trying:
            return None
        found.append(circuit)
    return found


def all_broken(state: "State", request: Request) -> int:
    """Time (ns) until a replica for the request may be tried again, if all of them have open
    breakers; else 0."""
    found = _open_for(state, request)
    return max(0, min(circuit.until for circuit in found) - state.now) if found else 0


def second_opinion(state: "State", request: Request) -> bool:
    """Whether a request that could run nowhere may try a replica now, because it was another
    business on whose word alone that is left alone: once, for what it tries may show nothing.
    The layout must follow then."""
    business = request.ticket.business
    for circuit in _open_for(state, request) or ():
        if circuit.word not in ("", business) and business not in circuit.asked:
            circuit.asked.add(business)
            circuit.until = state.now
            return True
    return False
