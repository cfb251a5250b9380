"""How long to wait before asking again, where it depends on load.

Reckoned as if nobody else came meanwhile: then whoever asks again after that time finds room,
and its turn before its time is up. Estimates are of the kind that the scheduler goes by.
"""

import logging

from .core.decisions import Reason, Reject
from .core.pressure import LOOK
from .core.request import Phase, Request
from .core.state import State
from .core.ticket import Ticket

log = logging.getLogger(__name__)

MS = 1_000_000
NEVER = 1 << 62
# Estimates are means; and what waits must not come in its last moment.
SAFETY = 1.25
IN_TIME = 0.8
# Refusals come in crowds: what one is told holds for the others a moment later.
GOOD_FOR_NS = 50 * MS
# What depends on load alone. Others name a time of their own.
LOAD = frozenset(
    {
        Reason.QUEUE_FULL,
        Reason.QUEUE_TIMEOUT,
        Reason.CONCURRENCY_EXCEEDED,
        Reason.LATENCY_BUDGET,
        Reason.BACKPRESSURE,
    }
)
MOST_KNOWN = 1000
MOST_LOOKED_AT = 500


class Patience:
    """Remembers what it reckoned lately. Belongs to the scheduler's event loop."""

    def __init__(self) -> None:
        self._lines: dict[tuple[object, ...], tuple[int, Line]] = {}
        self._told: dict[tuple[object, ...], tuple[int, int | None]] = {}

    def told(self, state: State, ticket: Ticket, decision: Reject) -> float | None:
        """The same as ``wait``; the core's own estimate where that cannot be reckoned."""
        try:
            return self.wait(state, ticket, decision)
        except Exception:  # a caller must be told in any case
            log.exception("how long a refused caller should wait was not reckoned")
            return decision.retry_after / 1e9

    def wait(self, state: State, ticket: Ticket, decision: Reject) -> float | None:
        """Seconds; None where waiting does not help."""
        tenant = state.tenant(ticket.business)
        key = (
            *(decision.reason, ticket.business, ticket.model, ticket.lane, ticket.level),
            *(*state.lane_queued, *state.lane_running, tenant.running, tenant.queued),
        )
        known = self._told.get(key)
        if known is None or not _lately(known[0], state.now):
            if len(self._told) > MOST_KNOWN:
                self._told.clear()
            known = self._told[key] = state.now, self._wait(state, ticket, decision)
        return None if known[1] is None else known[1] / 1e9

    def _wait(self, state: State, ticket: Ticket, decision: Reject) -> int | None:
        reason, tenant = decision.reason, state.tenant(ticket.business)
        if tenant.suspended or tenant.running_limit == 0:
            return None
        if reason not in LOAD:
            return max(decision.retry_after, state.service)
        line, lane = self._line(state, ticket), ticket.lane
        # Whoever waits, in whichever lane, takes a slot that comes free meanwhile.
        slot = line.reaches(sum(state.lane_queued) + 1)
        first, last = (0, 0) if tenant.may_run else _turns(state, ticket.business, line.service)
        if reason is Reason.QUEUE_TIMEOUT or tenant.queued_limit == 0:
            return max(slot, first, last)
        queue = state.policy.queue(lane)
        # Those that are left in front then must not take longer than this one may wait.
        longest = ticket.patience or queue.queue_timeout_ms * MS
        patience = min(longest, ticket.budget or NEVER)
        wait = max(slot, last) - int(patience * IN_TIME)
        if reason is Reason.LATENCY_BUDGET:
            return max(wait, int(SAFETY * decision.retry_after))
        if reason is Reason.BACKPRESSURE:
            # Until P0 waits no more, and that has been seen.
            wait = max(wait, line.reaches(max(1, state.lane_queued[0])) + LOOK)
            if tenant.may_wait and state.lane_queued[lane] < queue.max_queue:
                return wait
        # One of those that wait in front must have gone, and where its own may not wait any more,
        # one of these, which may be the last of all.
        everyone = state.policy.mode != "strict" or not tenant.may_wait
        ahead = sum(state.lane_queued if everyone else state.lane_queued[:lane])
        # While a lane is full others may have an even part of it, so that it holds more.
        over = max(0, state.lane_queued[lane] - queue.max_queue)
        held = _held(state, lane, line.service)
        return max(wait, line.reaches(ahead + over + 1), held, first)

    def _line(self, state: State, ticket: Ticket) -> "Line":
        key = (ticket.model, ticket.lane, ticket.level, *state.lane_running)
        known = self._lines.get(key)
        if known is None or not _lately(known[0], state.now):
            if len(self._lines) > MOST_KNOWN:
                self._lines.clear()
            known = self._lines[key] = state.now, Line(state, ticket)
        return known[1]


def _lately(at: int, now: int) -> bool:
    return at <= now < at + GOOD_FOR_NS


class Line:
    """The slots that a request may use, by when each is expected to come free (ns from now)."""

    def __init__(self, state: State, ticket: Ticket) -> None:
        here = [
            replica
            for replica in state.replicas.values()
            if replica.serving() and replica.takes(ticket.model, ticket.lane, ticket.level)
        ]
        held = [request for replica in here for request in replica.holds.values()]
        slots = sum(replica.facts.slots for replica in here)
        self._free = sorted(_left(state, r) for r in held)
        self._free = [0] * max(0, slots - len(self._free)) + self._free
        expected = [r.estimate for r in held]
        mean = sum(expected) // len(expected) if expected else 0
        self.service = int(SAFETY * max(mean, state.estimates.typical(ticket)))

    def reaches(self, number: int) -> int:
        """When the ``number``-th from now on is expected to get its slot."""
        if not self._free:
            return self.service * number
        rounds, place = divmod(number - 1, len(self._free))
        return self._free[place] + rounds * self.service


def _left(state: State, request: Request) -> int:
    """Slot time (ns) that it may still hold. What has outrun its estimate may need half of its
    time again."""
    held = state.now - request.dispatched
    return max(int(SAFETY * request.estimate) - held, held // 2)


def _turns(state: State, business: str, service: int) -> tuple[int, int]:
    """When, by its own limit alone, the first and the last of those of the business's that wait
    have their turn (ns from now), and one more that comes."""
    tenant = state.tenant(business)
    limit = tenant.running_limit or 1
    ends = [0] * max(0, limit - tenant.running) + sorted(
        _left(state, request)
        for replica in state.replicas.values()
        for request in replica.holds.values()
        if request.ticket.business == business
    )
    # What runs on a replica that has left is not seen here.
    ends = ends or [service]
    rounds, place = divmod(tenant.queued, limit)
    return ends[0], ends[min(place, len(ends) - 1)] + rounds * service


def _held(state: State, lane: int, service: int) -> int:
    """How long (ns) the lane's queue may be kept from moving by its businesses' own limits: not
    at all where one of them may start all that it has waiting."""
    waits = []
    waiting = _who_waits(state, lane)
    for name, tenant in state.tenants.items():
        if tenant.queued and tenant.active[lane] and (waiting is None or name in waiting):
            limit = tenant.running_limit
            if limit is None or tenant.running + tenant.queued <= limit:
                return 0
            waits.append(_turns(state, name, service)[1])
    return min(waits, default=0)


def _who_waits(state: State, lane: int) -> set[str] | None:
    """The businesses that have requests waiting in the lane; None where too much would have to
    be looked at: then a business counts that has one in the lane and one that waits."""
    if len(state.requests) > MOST_LOOKED_AT:
        return None
    return {
        request.ticket.business
        for request in state.requests.values()
        if request.phase is Phase.QUEUED and request.lane == lane
    }
