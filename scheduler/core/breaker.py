"""A business's breaker: whoever's requests keep failing is suspended, then tried again.

Counted are requests that broke off in a replica's hands for no reason that others share:
never a caller's own error, a disconnect, a refusal or a preemption. Above ``failure_rate`` in
``window_s``, while the other businesses' requests go well, the business is suspended for
``open_s``. Then a ``trickle`` of its requests is let in under observation, and how those end
decides.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .decisions import Decision, Kind, Notice
from .request import Request
from .tenant import Outcomes

if TYPE_CHECKING:
    from .state import State

NS = 1_000_000_000
# Requests of the trickle that must have ended before it is judged.
OBSERVED = 5


@dataclass(slots=True)
class Breaker:
    """Of a business that is suspended since ``opened`` (ns), or ``trickling``: let in little by
    little, its ``outcomes`` being counted anew. ``passed`` is what is left of its share."""

    opened: int
    trickling: bool = False
    passed: float = 0.0
    outcomes: Outcomes = field(default_factory=Outcomes)


def note_outcome(state: "State", request: Request, out: list[Decision], *, failed: bool) -> None:
    """A request has ended; its business may be suspended or restored for it."""
    mine, everybody = request.tenant.outcomes, state.outcomes
    mine.note(failed=failed)
    everybody.note(failed=failed)
    rules, business = state.policy.tenant_breaker, request.ticket.business
    breaker = state.breakers.get(business)
    if breaker is not None:
        breaker.outcomes.note(failed=failed)
        ended, bad = breaker.outcomes.total()
        if breaker.trickling and ended >= OBSERVED:
            _judge(state, business, breaker, out, good=bad < rules.failure_rate * ended)
    elif failed:
        ended, bad = mine.total()
        if ended >= rules.min_requests and bad >= rules.failure_rate * ended:
            others, their_bad = everybody.total()
            others, their_bad = others - ended, their_bad - bad
            # Where everybody fails it is not the business's doing.
            shared = others >= rules.min_requests and 2 * their_bad >= rules.failure_rate * others
            if not shared:
                _suspend(state, business, mine, out)


def turn_windows(state: "State") -> None:
    """Let outcomes go that are older than the window. Called every few seconds."""
    window = int(state.policy.tenant_breaker.window_s * NS)
    state.outcomes.turn(state.now, window)
    for tenant in state.tenants.values():
        tenant.outcomes.turn(state.now, window)


def _judge(
    state: "State", business: str, breaker: Breaker, out: list[Decision], *, good: bool
) -> None:
    if good:
        ended, failed = breaker.outcomes.total()
        del state.breakers[business]
        state.tenant(business).outcomes.clear()
        out.append(Notice(Kind.RESTORED, business, f"{failed} of {ended} requests failed"))
    else:
        _suspend(state, business, breaker.outcomes, out)


def _suspend(state: "State", business: str, seen: Outcomes, out: list[Decision]) -> None:
    ended, failed = seen.total()
    state.breakers[business] = Breaker(state.now)
    until = state.now + int(state.policy.tenant_breaker.open_s * NS)
    out.append(Notice(Kind.SUSPENDED, business, f"{failed} of {ended} requests failed", until))


def held_back(state: "State", business: str) -> int:
    """Time (ns) for which the business's new request must wait; 0: let it in."""
    breaker = state.breakers.get(business)
    if breaker is None:
        return 0
    rules = state.policy.tenant_breaker
    until = breaker.opened + int(rules.open_s * NS)
    if not breaker.trickling:
        if state.now < until:
            return until - state.now
        breaker.trickling, breaker.passed = True, 1.0
        breaker.outcomes.clear()
    # The first of the trickle comes in at once, the others as their share allows.
    if breaker.passed >= 1.0:
        breaker.passed -= 1.0
        return 0
    breaker.passed += max(rules.trickle, 0.01)
    return state.service
