"""What waits for a slot and may run: what its own business's limit holds back is no sign of too
few cards.

All that pressure and scaling know of queues and of service times they know from here.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .line import Line

if TYPE_CHECKING:
    from .request import Request
    from .state import State


def slot_time(state: "State", lane: int, model: str, slots: float) -> float:
    """Slot time (ns) that the lane's waiting requests of a model will take on cards of so many
    slots. A prompt has the card for itself while it is computed, and so all of its slots."""
    found = 0.0
    for line in _lines(state, lane, model):
        head = line.peek(state.tenants)
        if head is not None:
            count, _ = _survey(state, line)
            found += count * _held(state, head[1], slots)
    for request in _aside(state, lane, model):
        found += _held(state, request, slots)
    return found


def p0_waits(state: "State") -> dict[str, tuple[int, int]]:
    """Of each model for which P0 waits for others' work: how many requests do, and for how long
    (ns) the longest of them has. Who waits for a replica to be started is not among them, nor who
    has failed somewhere: what others leave free it may have to avoid."""
    found: dict[str, tuple[int, int]] = {}
    for model, lane in state.queues.waiting:
        if lane or (model, 0) not in state.layout.sets:
            continue
        total = most = 0
        for line in _lines(state, 0, model):
            count, longest = _survey(state, line)
            total, most = total + count, max(most, longest)
        for request in _aside(state, 0, model):
            total, most = total + 1, max(most, state.now - _since(state, request))
        found[model] = total, most
    return found


def _lines(state: "State", lane: int, model: str) -> Iterator[Line]:
    """The lines of a lane's requests for a model, but for those that failed somewhere."""
    for table in (state.queues.lanes, state.queues.missed):
        for models in table[lane].values():
            line = models.get(model)
            if line is not None:
                yield line


def _aside(state: "State", lane: int, model: str) -> "Iterator[Request]":
    """Requests that have left these lines because room is made for them, and may run."""
    for found in state.queues.aside.values():
        request = found.request
        here = (request.lane, request.ticket.model) == (lane, model)
        if here and not request.tried and request.tenant.may_run:
            yield request


def _survey(state: "State", line: Line) -> tuple[int, int]:
    """How many requests of a line may run, and the longest wait (ns) of those that come first of
    their businesses."""
    held = longest = 0
    for request in line.foremost(1):
        if request.tenant.may_run:
            longest = max(longest, state.now - _since(state, request))
        else:
            held += len(line.heaps[request.ticket.business])
    return max(0, line.live - held), longest


def _held(state: "State", request: "Request", slots: float) -> float:
    ticket, estimates = request.ticket, state.estimates
    held = float(estimates.typical(ticket, request.answer))
    if not request.generative:
        return held
    return max(held, slots * estimates.prefill(ticket.model, "", ticket.prompt))


def _since(state: "State", request: "Request") -> int:
    """Since when (ns) a request waits for others' work: not while its replica was started."""
    start = state.cold.get(request.ticket.model) if request.cold else None
    return request.since if start is None else max(request.since, start.came or state.now)
