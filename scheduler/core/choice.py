"""Whom a free slot belongs to: guard, lanes and their limits, then sets and spills."""

from collections.abc import Sequence

from .layout import NOBODY
from .pool import PoolUse
from .replica import Replica
from .request import Request
from .state import State

MS = 1_000_000
LANES = (0, 1, 2)


def choose(
    state: State, replica: Replica, *, preempted: bool = False
) -> tuple[Request, str] | None:
    """The waiting request that this replica's free slot belongs to, and why: "guard", "set",
    "late", "spill" or "lent". A slot that was ``preempted`` is for the lanes as numbered."""
    queued = state.lane_queued
    if not (queued[0] or queued[1] or queued[2]):
        return None
    if state.policy.mode == "fifo":
        return _by_arrival(state, replica)
    pool = replica.use
    if queued[2]:
        overdue = _overdue(state, replica, pool)
        if overdue is not None:
            return overdue, "guard"
    strict = preempted or state.policy.mode == "strict"
    lanes: Sequence[int] = LANES if strict else _order(state, pool)
    if queued[2] and not allowed(state, pool, 2):
        lanes = [lane for lane in lanes if lane < 2]
    if preempted:
        gaining = _gaining(state, replica, lanes)
        if gaining is not None:
            return gaining, "set"
    return _in_set(state, replica, lanes) or _beyond(state, replica, pool, lanes)


def _gaining(state: State, replica: Replica, lanes: Sequence[int]) -> Request | None:
    """Whoever may stop others, be the replica in its set or not: it has had one stopped here."""
    for lane in lanes:
        if state.policy.queue(lane).preempt:
            found = _first(state, replica, lane, tuple(replica.serves[lane]))
            if found is not None:
                return found
    return None


def _in_set(state: State, replica: Replica, lanes: Sequence[int]) -> tuple[Request, str] | None:
    queued, wanted = state.lane_queued, state.layout.wanted.get(replica.facts.name, NOBODY)
    for lane in lanes:
        if not queued[lane]:
            continue
        found = _first(state, replica, lane, wanted[lane])
        if found is not None:
            return found, "set"
        late = _late(state, replica, lane) if lane < 2 else None
        if late is not None:
            return late, "late"
    return None


def _beyond(
    state: State, replica: Replica, pool: PoolUse, lanes: Sequence[int]
) -> tuple[Request, str] | None:
    """Nobody whose set the replica is in wants it: who else may have it."""
    spare = state.layout.spare.get(replica.facts.name, NOBODY)
    for lane in lanes:
        found = _first(state, replica, lane, spare[lane])
        if found is not None:
            return found, "spill"
    if _lends(state, pool):
        models = tuple(m for m in replica.facts.models if m not in replica.rest[2])
        found = _first(state, replica, 2, models)
        if found is not None:
            return found, "lent"
    if state.queues.retries and any(replica.rest):
        found = _stranded(state, replica, lanes)
        if found is not None:
            return found, "spill"
    return None


def _stranded(state: State, replica: Replica, lanes: Sequence[int]) -> Request | None:
    """A request that all replicas in use for its model have failed, and this one may help."""
    least, most = replica.facts.levels
    for request in state.queues.retries:
        ticket, lane = request.ticket, request.lane
        if (
            lane in lanes
            and lane in replica.lanes
            and ticket.model in replica.rest[lane]
            and least <= ticket.level <= most
            and not request.avoids(replica)
            and request.tenant.may_run
            and not any(
                other.serving()
                and other.takes(ticket.model, lane, ticket.level)
                and not request.avoids(other)
                for other in state.replicas.values()
            )
        ):
            return request
    return None


def _first(state: State, replica: Replica, lane: int, models: tuple[str, ...]) -> Request | None:
    if not models or not state.lane_queued[lane]:
        return None
    return state.queues.first(replica, lane, models, state.policy.by_level(lane), state.tenants)


def _by_arrival(state: State, replica: Replica) -> tuple[Request, str] | None:
    """Mode fifo: whoever came first, whatever pool the replica is in."""
    heads = [
        head
        for lane in LANES
        if (head := _first(state, replica, lane, tuple(replica.serves[lane]))) is not None
    ]
    if not heads:
        return None
    return min(heads, key=lambda head: (head.ticket.arrived, head.sequence)), "set"


def _overdue(state: State, replica: Replica, pool: PoolUse) -> Request | None:
    """The starvation guard: the oldest overdue request that may run here."""
    before = state.now - state.policy.queues.P2.max_wait_ms * MS
    if before < state.queues.oldest or 2 not in replica.lanes:
        return None
    if not pool.promotable(state.policy.starvation.pool_share):
        return None
    return state.queues.overdue(replica, before, state.tenants)


def _order(state: State, pool: PoolUse) -> list[int]:
    """Lanes by turn in mode weighted: the one that is furthest behind its share first, but P0
    below its reserve before, and P2 above its bound behind all."""
    queues = state.policy.queues
    reserve = not pool.dedicated and pool.under(0, queues.P0.min_bandwidth)
    full = not pool.under(2, queues.P2.max_occupy)
    return sorted(
        LANES, key=lambda lane: (lane == 2 and full, lane != 0 or not reserve, state.passes[lane])
    )


def allowed(state: State, pool: PoolUse, lane: int) -> bool:
    """Whether the lane's hard limit in the pool leaves room for one more."""
    p2 = state.policy.queues.P2
    if lane != 2 or p2.borrow or state.policy.mode == "fifo":
        return True
    # A pool too small for the share still lets one run: nobody is shut out by rounding.
    return pool.running[2] == 0 or pool.under(2, p2.max_occupy)


def _late(state: State, replica: Replica, lane: int) -> Request | None:
    """A request outside whose set the replica is, but which would miss its budget by
    waiting for one that is, and would not here."""
    name, layout = replica.facts.name, state.layout
    for table in (layout.spare, layout.strange):
        for model in table.get(name, ((), (), ()))[lane]:
            if (model, lane) not in state.queues.waiting:
                continue
            head = _first(state, replica, lane, (model,))
            if head is None or head.ticket.budget is None:
                continue
            due = head.ticket.arrived + head.ticket.budget
            here = state.now + state.estimates.expected(head.ticket, name, head.produced)
            there = state.now + next_slot(state, model, lane) + _soonest(state, head)
            if here <= due < there:
                return head
            late = state.now + due - there + 1
            if here < there <= due and not state.now < state.late_at <= late:
                state.late_at = late
    return None


def next_slot(state: State, model: str, lane: int) -> int:
    """Time (ns) until one more slot of the flow's set comes free, on average."""
    return state.service // max(1, state.layout.slots.get((model, lane), 0))


def _soonest(state: State, request: Request) -> int:
    """Service (ns) to expect in the request's set."""
    tiers = state.layout.sets.get((request.ticket.model, request.lane), ())
    if not tiers:
        return state.estimates.typical(request.ticket, request.work)
    name = tiers[0][0].facts.name
    return state.estimates.expected(request.ticket, name, request.produced)


def _lends(state: State, pool: PoolUse) -> bool:
    lending = state.policy.lending
    return (
        lending.enabled
        and pool.dedicated
        and state.lane_queued[2] > 0
        and pool.free > lending.keep_free
    )
