"""A business's breaker: a model is kept from whoever's requests for it fail by its own doing.

Counted are requests that ended badly on replicas where others' requests for the model go well,
or where its own for other models do: never a caller's own error, a disconnect, a refusal, a
preemption, or what a replica has failed. From a share of ``failure_rate`` in ``window_s`` on,
on more than one replica where there are more, the model is kept from the business for
``open_s``. Then a ``trickle`` of its requests is let in under observation, by time, and how
those end decides.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .blame import NS, clear_troubles, proof_at, window
from .decisions import Decision, Kind, Notice
from .request import Request
from .standing import Trouble

if TYPE_CHECKING:
    from .state import State

# Requests of the trickle that must have ended before it is judged.
OBSERVED = 5
# The trickle's places come so many to the time of suspension, at least and at most: who sent
# little must not wait for ever, nor who sent much flood the replicas again.
LEAST, MOST = OBSERVED, 60


@dataclass(slots=True)
class Breaker:
    """Of a business and model: a place in the trickle is free at ``place`` (ns) and one more
    each ``gap`` (ns). Callers were told to come for those up to ``promised`` (ns). Requests that
    began since ``begun`` (ns; 0: none yet) are the trickle: so many ``ended``, some ``failed``.
    ``between`` (ns) is the time from one of its requests to the next, before."""

    place: int
    gap: int
    promised: int
    between: float
    begun: int = 0
    ended: int = 0
    failed: int = 0


def note_request(
    state: "State", request: Request, trouble: Trouble | None, out: list[Decision], *, lost: bool
) -> None:
    """A request has ended, badly if it is ``lost``: then ``trouble`` is its business's on the
    replica that had it last, None where that is the replica's doing."""
    conduct, span = request.conduct, window(state)
    suspicious = lost and trouble is not None
    conduct.outcomes.note(state.now, span, failed=suspicious)
    breaker = state.breakers.get((request.ticket.business, request.ticket.model))
    if breaker is None:
        if suspicious and _is_own_doing(state, request):
            ended, failed = conduct.outcomes.total(state.now, span)
            gap = conduct.outcomes.span(state.now, span) / ended
            _suspend(state, request, gap, f"{failed} of {ended} requests failed", out)
    elif breaker.begun and request.dispatched >= breaker.begun and (suspicious or not lost):
        breaker.ended += 1
        breaker.failed += lost
        if breaker.ended >= OBSERVED:
            _judge_trickle(state, request, breaker, out)


def _is_own_doing(state: "State", request: Request) -> bool:
    """Whether enough of the business's requests for the model have failed by its own doing."""
    ticket, conduct, span = request.ticket, request.conduct, window(state)
    rules, (ended, lost) = state.policy.tenant_breaker, conduct.outcomes.total(state.now, span)
    if ended < rules.min_requests or lost < rules.failure_rate * ended:
        return False
    known = unknown = good = bad = 0
    for name, found in conduct.troubles.items():
        proof = proof_at(state, conduct, ticket.business, name, found)
        found.settle(proof, state.now, span)
        own, _ = found.own.total(state.now, span)
        known += own
        unknown += found.pending + found.fresh
        if own:
            good += found.standing.served.total(state.now, span)[0]
            bad += sum(
                other.attempts.total(state.now, span)[1]
                for other in found.standing.failing.values()
                if other is not found
            )
    # Those of which it is not known are as likely its own as the others, as far as there are any.
    if known + min(known, unknown) < rules.failure_rate * ended:
        return False
    # Where others fail half as often, it is no business's doing.
    if 2 * bad > rules.failure_rate * (good + bad):
        return False
    replicas = sum(
        replica.serving()
        and replica.takes(ticket.model, request.lane, ticket.level)
        and ticket.model not in replica.circuits
        for replica in state.replicas.values()
    )
    return len(conduct.troubles) >= min(2, replicas)


def _judge_trickle(state: "State", request: Request, breaker: Breaker, out: list[Decision]) -> None:
    cause = f"{breaker.failed} of {breaker.ended} requests failed"
    if breaker.failed >= state.policy.tenant_breaker.failure_rate * breaker.ended:
        _suspend(state, request, breaker.between, cause, out)
        return
    business = request.ticket.business
    del state.breakers[business, request.ticket.model]
    clear_troubles(request.conduct, business)
    out.append(Notice(Kind.RESTORED, business, f"{request.ticket.model}: {cause}"))


def _suspend(
    state: "State", request: Request, between: float, cause: str, out: list[Decision]
) -> None:
    """Suspend a business that sends a request each so often (ns)."""
    rules, business, model = (
        state.policy.tenant_breaker,
        request.ticket.business,
        request.ticket.model,
    )
    open_ns = rules.open_s * NS
    gap = min(max(between / max(rules.trickle, 0.01), open_ns / MOST), open_ns / LEAST)
    until = state.now + int(open_ns)
    state.breakers[business, model] = Breaker(until, int(gap), until, between)
    out.append(Notice(Kind.SUSPENDED, business, f"{model}: {cause}", until))


def held_back(state: "State", business: str, model: str) -> int:
    """Time (ns) until a place for a new request of the business is free, counting those that
    others were told to come for; 0: it has one now."""
    breaker = state.breakers.get((business, model))
    if breaker is None:
        return 0
    now, gap = state.now, breaker.gap
    if now >= breaker.place:
        breaker.begun = breaker.begun or now
        # What was not used is kept, but not more than it takes to judge.
        breaker.place = max(breaker.place + gap, now - (OBSERVED - 1) * gap)
        return 0
    # By the last of so many places it is judged, so that later ones need not be told apart.
    at = min(max(breaker.promised, breaker.place), breaker.place + OBSERVED * gap)
    breaker.promised = at + gap
    return at - now
