"""What each single decision must keep to, whatever came before it."""

from math import ceil, floor

from scheduler.core.decisions import Dispatch, Preempt, Promote
from scheduler.core.state import State
from scheduler.core.ticket import Resume


def check_limits(state: State, decision: Dispatch) -> None:
    """No dispatch leaves a replica, a lane or a business over its limit."""
    request = state.requests[decision.request]
    replica = state.replicas[decision.replica]
    pool, policy, lane = replica.use, state.policy, request.lane
    assert replica.running <= replica.facts.slots
    assert replica.serving()
    assert (decision.replica, decision.generation) not in request.tried
    tenant = state.tenant(request.ticket.business)
    if tenant.running_limit is not None:
        assert tenant.running <= tenant.running_limit
    if lane in replica.lanes:
        resting = request.tried and request.ticket.model in replica.rest[lane]
        assert resting or replica.takes(request.ticket.model, lane, request.ticket.level)
        bound = lane == 2 and not policy.queues.P2.borrow and policy.mode != "fifo"
        if bound and not request.promoted:
            share = max(1, floor(policy.queues.P2.max_occupy * pool.slots + 1e-9))
            assert pool.running[2] - pool.promoted <= share
    else:
        assert lane == 2
        assert not request.promoted
        assert replica.pool.dedicated
        assert policy.lending.enabled
        assert pool.free >= policy.lending.keep_free


def check_promoted(state: State, decision: Promote) -> None:
    """Promoted is overdue P2, into a few slots of its pool."""
    request = state.requests[decision.request]
    assert request.lane == 2
    assert state.now - request.since >= state.policy.queues.P2.max_wait_ms * 1_000_000
    assert request.replica is not None
    pool = request.replica.use
    assert pool.promoted <= ceil(state.policy.starvation.pool_share * pool.slots)


def check_preempted(state: State, decision: Preempt) -> None:
    """Stopped is P2 that may be, by who comes before it and could run there."""
    victim, urgent = state.requests[decision.request], state.requests[decision.beneficiary]
    replica, rules = victim.replica, state.policy.preemption
    assert replica is not None
    assert victim.lane == 2
    assert urgent.lane < 2
    assert state.policy.queue(urgent.lane).preempt
    assert not victim.promoted
    assert victim.preempted <= rules.max_per_request
    assert victim.ticket.resume is not Resume.NEVER
    assert victim.ticket.resume is Resume.CONTINUE or not victim.seen
    assert replica.serving()
    assert replica.busy_until <= state.now
    assert replica.takes(urgent.ticket.model, urgent.lane, urgent.ticket.level)
    assert not urgent.avoids(replica)
    assert state.tenant(urgent.ticket.business).may_run
    lent = replica.pool.dedicated and 2 not in replica.lanes
    assert lent or decision.gain - decision.cost >= rules.margin_ms * 1_000_000
