"""Whom a free slot belongs to: guard, lanes and their limits, then sets and spills."""

from collections.abc import Collection, Sequence

from .completion import shut, wait_in_set
from .layout import NOBODY
from .pool import PoolUse
from .replica import Replica
from .request import Request
from .state import State

MS = 1_000_000
LANES = (0, 1, 2)


NOTHING: frozenset[tuple[str, int]] = frozenset()


def choose(
    state: State, replica: Replica, skip: Collection[tuple[str, int]] = NOTHING
) -> tuple[Request, str] | None:
    """The waiting request that this replica's free slot belongs to, and why: "guard", "set",
    "late", "spill" or "lent". Models of lanes in ``skip`` are left out."""
    queued = state.lane_queued
    if not (queued[0] or queued[1] or queued[2]):
        return None
    if state.policy.mode == "fifo":
        return _by_arrival(state, replica)
    pool = replica.use
    if queued[2]:
        overdue = overdue_here(state, replica)
        if overdue is not None and replica.fits(overdue.context, overdue.variance):
            return overdue, "guard"
    lanes: Sequence[int] = LANES if state.policy.mode == "strict" else _order(state, pool)
    if queued[2] and (kept_for_p0(state, replica) or not allowed(state, pool, 2)):
        lanes = [lane for lane in lanes if lane < 2]
    return _in_set(state, replica, lanes, skip) or _beyond(state, replica, pool, lanes, skip)


def _in_set(
    state: State, replica: Replica, lanes: Sequence[int], skip: Collection[tuple[str, int]]
) -> tuple[Request, str] | None:
    queued, wanted = state.lane_queued, state.layout.wanted.get(replica.group_key, NOBODY)
    for lane in lanes:
        if not queued[lane]:
            continue
        found = _first(state, replica, lane, wanted[lane], skip)
        if found is not None:
            return found, "set"
        late = _late(state, replica, lane, skip) if lane < 2 else None
        if late is not None:
            return late, "late"
    return None


def _beyond(
    state: State,
    replica: Replica,
    pool: PoolUse,
    lanes: Sequence[int],
    skip: Collection[tuple[str, int]],
) -> tuple[Request, str] | None:
    """Nobody whose set the replica is in wants it: who else may have it."""
    spare = state.layout.spare.get(replica.group_key, NOBODY)
    for lane in lanes:
        found = _first(state, replica, lane, spare[lane], skip)
        if found is not None:
            return found, "spill"
    if _lends(state, pool) and not kept_for_p0(state, replica):
        models = tuple(m for m in replica.facts.models if m not in replica.rest[2])
        found = _first(state, replica, 2, models, skip)
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
    here = (replica.facts.name, replica.generation)
    for (lane, level, model, tried), line in state.queues.retries.items():
        if (
            lane in lanes
            and lane in replica.lanes
            and model in replica.rest[lane]
            and least <= level <= most
            and here not in tried
            and replica.admits(model)
            and not any(
                other.serving()
                and other.takes(model, lane, level)
                and (other.facts.name, other.generation) not in tried
                for other in state.replicas.values()
            )
        ):
            head = line.peek(state.tenants)
            if head is not None:
                return head[1]
    return None


def _first(
    state: State,
    replica: Replica,
    lane: int,
    models: tuple[str, ...],
    skip: Collection[tuple[str, int]] = NOTHING,
) -> Request | None:
    if not models or not state.lane_queued[lane]:
        return None
    if replica.circuits:
        models = tuple(model for model in models if replica.admits(model))
    if skip:
        models = tuple(model for model in models if (model, lane) not in skip)
    by_level, now, tenants = state.policy.by_level(lane), state.now, state.tenants
    while models:
        found = state.queues.first(replica, lane, models, now, tenants, by_level=by_level)
        if found is None or not shut(state, found, replica):
            return found
        # Its prompt would wait for others there; one for another model may not.
        models = tuple(model for model in models if model != found.ticket.model)
    return None


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


def overdue_here(state: State, replica: Replica) -> Request | None:
    """The starvation guard: the overdue request that may run here and has waited longest."""
    before = state.now - state.policy.queues.P2.max_wait_ms * MS
    if before < state.queues.oldest or 2 not in replica.lanes or state.policy.mode == "fifo":
        return None
    if not replica.use.promotable(state.policy.starvation.pool_share):
        return None
    for request in state.queues.overdue(replica, before, state.tenants):
        if not shut(state, request, replica):
            return request
    return None


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


def kept_for_p0(state: State, replica: Replica) -> bool:
    """Whether P2 stays queued for P0 that may run on the replica and waits too long. Where no P0
    waits at all any more nobody may have looked yet."""
    return replica.held and state.lane_queued[0] > 0


def could_use(state: State, replica: Replica, lane: int) -> bool:
    """Whether a waiting request of the lane may have a slot of the replica: its business's limit,
    the lane's bounds there, and replicas that it must avoid being what they are."""
    pool = replica.use
    if not state.lane_queued[lane] or not allowed(state, pool, lane):
        return False
    if lane == 2 and not pool.under(2, state.policy.queues.P2.max_occupy):
        return False
    return _first(state, replica, lane, tuple(replica.serves[lane])) is not None


def _late(
    state: State, replica: Replica, lane: int, skip: Collection[tuple[str, int]]
) -> Request | None:
    """A request outside whose set the replica is, but which would miss its budget by waiting for
    one that is, behind all that wait for the same."""
    layout = state.layout
    for table in (layout.spare, layout.strange):
        for model in table.get(replica.group_key, NOBODY)[lane]:
            if (model, lane) in state.queues.waiting:
                head = _first(state, replica, lane, (model,), skip)
                if head is None or head.latest < state.now:
                    continue
                left = head.latest - state.now - wait_in_set(state, model, lane)
                if left < 0:
                    return head
                if not state.now < state.late_at <= state.now + left:
                    state.late_at = state.now + int(left) + 1
    return None


def next_slot(state: State, model: str, lane: int) -> int:
    """Time (ns) until one more slot of the flow's set comes free, on average."""
    return state.service // max(1, state.layout.slots.get((model, lane), 0))


def _lends(state: State, pool: PoolUse) -> bool:
    lending = state.policy.lending
    return (
        lending.enabled
        and pool.dedicated
        and state.lane_queued[2] > 0
        and pool.free > lending.keep_free
    )
