"""Cold start: P0 whose model no replica serves may have a card started, and waits for it.

A model is asked for once, whoever waits for it; ``cards`` sees to a card for each. What is not
there within ``cold_start.wait_s`` is given up: its card is given back, who waits is refused, and
the model is left alone for ``failover.open_s``, as a replica is whose breaker opens. A card that
came is kept until P0 has not needed it for ``backpressure.scale.cooldown_s``, and from then on as
long as the load needs it. P1 and P2 start nothing for a model that no replica serves, and do not
wait for a start, which may fail: they are told when to come again.
"""

from typing import TYPE_CHECKING

from .cards import let_go
from .decisions import Decision, Kind, Notice, Reason, Reject
from .estimates import Mean
from .placement import served
from .pool import lanes_let_in
from .request import QUEUED, Request
from .starts import Start
from .waiting import end

if TYPE_CHECKING:
    from .state import State

NS = 1_000_000_000
# How many starts of a model their mean time goes back.
MEMORY = 4


def may_wait(state: "State", request: Request, refusal: Reject, out: list[Decision]) -> bool:
    """Whether a new request that would be refused waits for a start instead, which is asked
    for unless it has been."""
    if request.lane or refusal.reason is not Reason.NO_CAPACITY or served(state, request):
        return False
    request.cold = _under_way(state, request.ticket.model, out)
    return request.cold


def time_to_start(state: "State", model: str) -> int:
    """An estimate (ns) of when there may be a replica for the model, for who is refused."""
    start, patience = state.cold.get(model), _patience(state)
    known = state.loads.get(model)
    load = patience if known is None else int(known.value)
    if start is not None and not start.came:
        if state.now - start.since >= patience:
            return int(state.policy.failover.open_s * NS)
        return max(state.service, start.since + load - state.now)
    return max(state.service, state.rests.get(model, 0) - state.now)


def note_use(state: "State") -> None:
    """P0 needs these starts still. Called every few seconds, before arrivals are folded in."""
    for model, start in state.cold.items():
        if _needed(state, model):
            start.used = state.now


def tend(state: "State", out: list[Decision]) -> None:
    """Ask for what P0 waits for, and see what has become of what was asked for."""
    for (model, lane), _ in list(state.queues.waiting.items()) if state.lane_queued[0] else ():
        # One that is not warm yet will take it.
        if lane == 0 and (model, 0) not in state.layout.levels:
            _under_way(state, model, out)
    cooldown = int(state.policy.backpressure.scale.cooldown_s * NS)
    for model, start in list(state.cold.items()):
        if start.came:
            if state.now - start.used >= cooldown:
                del state.cold[model]
                cause = f"P0 has not needed it for {cooldown / NS:g} s"
                out.append(Notice(Kind.COLD_OVER, model, cause))
                state.plan_at = 0
        elif (model, 0) in state.layout.sets:
            start.came = start.used = state.now
            took = start.came - start.since
            state.loads.setdefault(model, Mean(took)).learn(took, MEMORY)
            out.append(Notice(Kind.WARM, model, f"started within {took / NS:.1f} s", took))
        elif state.now - start.since >= _patience(state):
            _give_up(state, model, start, out)


def _patience(state: "State") -> int:
    return int(state.policy.cold_start.wait_s * NS)


def _under_way(state: "State", model: str, out: list[Decision]) -> bool:
    """Whether a card for the model is coming, having been asked for now or before."""
    if not state.policy.cold_start.enabled or state.now < state.rests.get(model, 0):
        return False
    pool = _where(state, model)
    if pool is None:
        return False
    start = state.cold.get(model)
    if start is None or start.came:
        state.cold[model] = Start(pool, state.now, used=state.now)
        state.watching = True
        state.plan_at = 0
        cause = f"P0 waits and no replica serves it, a card of {pool} is asked for"
        out.append(Notice(Kind.COLD_START, model, cause))
    return True


def _where(state: "State", model: str) -> str | None:
    """The pool of a card for P0 of the model that is coming or may be started, dedicated ones
    first; None where there is none."""
    found: list[tuple[bool, bool, str]] = []
    for card in state.cards.values():
        pool = card.pool
        if model not in card.models or 0 not in lanes_let_in(pool, state.policy):
            continue
        coming = card.on and not _serves(state, card.name)
        if coming or (card.startable and _room(state, pool.name)):
            found.append((not coming, not pool.dedicated, pool.name))
    return min(found)[2] if found else None


def _serves(state: "State", name: str) -> bool:
    replica = state.replicas.get(name)
    return replica is not None and replica.serving()


def _room(state: "State", pool: str) -> bool:
    """Whether the policy allows the pool a card for one more model, others giving way to it."""
    most = state.policy.backpressure.scale.max_cards
    if most is None:
        return True
    fixed = sum(
        replica.pool.name == pool and replica.serving() and name not in state.cards
        for name, replica in state.replicas.items()
    )
    return fixed + sum(start.pool == pool for start in state.cold.values()) < most


def _needed(state: "State", model: str) -> bool:
    """Whether P0 of the model came, waits or runs, and the fleet's own replicas serve none."""
    own = any(
        replica.serving() and 0 in replica.lanes and model in replica.facts.models
        for name, replica in state.replicas.items()
        if name not in state.cards
    )
    if own:
        return False
    return (
        (model, 0) in state.arrived
        or (model, 0) in state.queues.waiting
        or any(
            request.lane == 0 and request.ticket.model == model
            for replica in state.replicas.values()
            for request in replica.holds.values()
        )
    )


def _give_up(state: "State", model: str, start: Start, out: list[Decision]) -> None:
    """No replica came: refuse who waits for it, and leave the model alone for a while."""
    del state.cold[model]
    rest = int(state.policy.failover.open_s * NS)
    state.rests[model] = state.now + rest
    cause = f"no replica of it was ready within {_patience(state) / NS:g} s"
    out.append(Notice(Kind.COLD_FAILED, model, cause, state.rests[model]))
    let_go(state, start.pool, model)
    for request in list(state.requests.values()):
        if request.cold and request.phase is QUEUED and request.ticket.model == model:
            end(state, request)
            out.append(Reject(request.ticket.id, Reason.NO_CAPACITY, rest))
