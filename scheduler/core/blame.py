"""Whose doing it is that attempts fail: the replica's, or the business's.

A replica is judged model by model, by what became of attempts *there*. It is the replica when

- several businesses' attempts fail there in a row and nobody's go well in between;
- at least half of all attempts of late fail, those of the worst business left out;
- one business's fail in a row and one of them goes well on another replica, or half of them
  fail and fewer elsewhere;
- one business's fail in a row and nobody else uses the replica: on its word alone.

It is the business when its attempts fail where others' go well. Whoever is seen to fail so
somewhere is no witness against a replica elsewhere, and a replica that others were served well
by since is not doubted for those that fail.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .conduct import Conduct
from .replica import Replica
from .request import Request
from .standing import Standing, Trouble

if TYPE_CHECKING:
    from .state import State

NS = 1_000_000_000
# Attempts that a share of failures is told by, or as many as open a breaker in a row.
FEW = 10
# What runs so many times as long as others took to fail, and for so long (ns), goes well.
LIVES, LEAST_LIFE = 4, 10_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """A replica fails with a model: why, and the one business's ``word`` that it rests on."""

    cause: str
    word: str = ""


def window(state: "State") -> int:
    """How far back (ns) outcomes count."""
    return int(state.policy.tenant_breaker.window_s * NS)


def note_well(state: "State", request: Request, replica: Replica) -> None:
    """An attempt has gone well there."""
    business, began = request.ticket.business, request.dispatched
    standing = replica.standing(request.ticket.model)
    standing.witness.note(business, began)
    standing.served.note(state.now, window(state), failed=False)
    request.conduct.witness.note(replica.facts.name, began)
    replica.witness.note(request.conduct, began)
    for name, generation in request.tried:
        _note_saved(state, request, name, generation)
    if standing.failing:
        trouble = standing.failing.get(business)
        if trouble is not None:
            trouble.attempts.note(state.now, window(state), failed=False)
            if began >= trouble.since:
                trouble.row = trouble.again = 0


def _note_saved(state: "State", request: Request, name: str, generation: int) -> None:
    """What failed on that replica has gone well elsewhere."""
    failed = state.replicas.get(name)
    if failed is not None and failed.generation == generation:
        standing = failed.standings.get(request.ticket.model)
        trouble = standing.failing.get(request.ticket.business) if standing is not None else None
        if trouble is not None:
            trouble.saved = state.now


def note_trouble(state: "State", request: Request, replica: Replica) -> Trouble:
    """An attempt has failed there."""
    business, span = request.ticket.business, window(state)
    standing = replica.standing(request.ticket.model)
    _forget(state, request.conduct, standing)
    trouble = standing.failing.get(business)
    if trouble is None:
        trouble = standing.failing[business] = Trouble(standing, state.now)
    request.conduct.troubles[replica.facts.name] = trouble
    proof = proof_at(state, request.conduct, business, replica.facts.name, trouble)
    trouble.settle(proof, state.now, span)
    trouble.fail(request, state.now, span, standing.witness.others(business))
    return trouble


def _forget(state: "State", conduct: Conduct, standing: Standing) -> None:
    """Let go of troubles of longer ago than a window."""
    recent = state.now - window(state)
    for troubles in (conduct.troubles, standing.failing):
        for name in [name for name, found in troubles.items() if found.last < recent]:
            del troubles[name]


def clear_troubles(conduct: Conduct, business: str) -> None:
    """What a business's requests for a model failed by is over."""
    for found in conduct.troubles.values():
        found.standing.failing.pop(business, None)
    conduct.troubles.clear()
    conduct.outcomes.clear()


def clear_standing(state: "State", replica: Replica, model: str) -> None:
    """What failed there was no business's doing, and nothing more is to be made of it."""
    standing, name = replica.standing(model), replica.facts.name
    for business, trouble in standing.failing.items():
        conduct = _conduct(state, business, model)
        if conduct is not None and conduct.troubles.get(name) is trouble:
            del conduct.troubles[name]
    standing.failing.clear()
    standing.served.clear()


def finding(state: "State", request: Request, replica: Replica, trouble: Trouble) -> Finding | None:
    """What a failed attempt shows of the replica, with those before it."""
    found = _of_many(state, request.ticket.model, trouble.standing)
    found = found or _flaky(state, trouble.standing)
    if found is None and trusted(state, request.ticket.business, request.ticket.model):
        found = _of_one(state, request, replica, trouble)
    return found


def _of_many(state: "State", model: str, standing: Standing) -> Finding | None:
    """Failures in a row of several businesses; also of such as are known to fail by their own
    doing, if there are several that fail often enough to tell by themselves."""
    least = state.policy.failover.fail_threshold
    rows = _doubts(state, model, standing)
    if len(rows) < 2 or sum(rows) < least:
        rows = [found.again for found in standing.failing.values() if found.again >= least]
    if len(rows) < 2:
        return None
    return Finding(f"{sum(rows)} failures in a row, of {len(rows)} businesses")


def _doubts(state: "State", model: str, standing: Standing, mine: str = "") -> list[int]:
    """By business, failures in a row that may be the replica's doing. One business that fails
    wherever it goes does not count, unless it is ``mine``."""
    plain, odd = list[int](), list[int]()
    recent = state.now - window(state)
    for name, found in standing.failing.items():
        if found.last < recent or not is_doubt(state, found, name):
            continue
        if trusted(state, name, model):
            (odd if name != mine and _suspect(state, name, model) else plain).append(found.row)
    return plain + odd if len(odd) > 1 else plain


def _of_one(state: "State", request: Request, replica: Replica, trouble: Trouble) -> Finding | None:
    """What one business's failures show: something if they go with success elsewhere, or if it
    is alone."""
    business, conduct = request.ticket.business, request.conduct
    served = conduct.witness.others(replica.facts.name)
    if trouble.row >= state.policy.failover.fail_threshold and is_doubt(state, trouble, business):
        if trouble.saved >= trouble.since or _lives_on(state, trouble):
            return Finding(f"{trouble.row} failures in a row, and none elsewhere")
        if _alone(state, request, replica, trouble):
            return Finding(f"{trouble.row} failures in a row", business)
    ended, failed = trouble.attempts.total(state.now, window(state))
    few = max(FEW, state.policy.failover.fail_threshold)
    if ended < few or 2 * failed < ended or served < trouble.begun:
        return None
    if trouble.standing.witness.others(business) > trouble.begun:
        return None  # others go well there
    for other in conduct.troubles.values():
        ended_there, failed_there = other.attempts.total(state.now, window(state))
        if other is not trouble and 2 * failed_there >= ended_there > 0:
            return None
    return Finding(f"{failed} of {ended} attempts failed, and fewer elsewhere")


def is_doubt(state: "State", trouble: Trouble, business: str) -> bool:
    """Whether the business's attempts fail there and nobody else's are known to have gone well
    since, not too long ago to tell."""
    proof = trouble.standing.witness.others(business)
    return trouble.row > 0 and (proof <= trouble.since or proof < state.now - window(state))


def trusted(state: "State", business: str, model: str) -> bool:
    """Whether the business's failures may be a replica's doing: not while its attempts fail
    somewhere where others' go well."""
    conduct = _conduct(state, business, model)
    if conduct is None:
        return True
    recent = state.now - window(state)
    return not any(
        found.row and found.last >= recent and not is_doubt(state, found, business)
        for found in conduct.troubles.values()
    )


def _suspect(state: "State", business: str, model: str) -> bool:
    """Whether the business's attempts fail on several replicas, and go well on none since."""
    conduct = _conduct(state, business, model)
    if conduct is None:
        return False
    recent = state.now - window(state)
    since = [t.since for t in conduct.troubles.values() if t.row and t.last >= recent]
    return len(since) > 1 and conduct.witness.at < min(since)


def _conduct(state: "State", business: str, model: str) -> Conduct | None:
    tenant = state.tenants.get(business)
    return tenant.conducts.get(model) if tenant is not None else None


def is_well(state: "State", replica: Replica, request: Request) -> bool:
    """Whether nothing speaks against the replica serving the request; one failure does not."""
    model = request.ticket.model
    standing = replica.standings.get(model)
    if standing is None or not standing.failing:
        return True
    return sum(_doubts(state, model, standing, request.ticket.business)) < 2


def _flaky(state: "State", standing: Standing) -> Finding | None:
    """Half of all attempts fail, and half of those that are not the worst business's."""
    span = window(state)
    totals = [found.attempts.total(state.now, span) for found in standing.failing.values()]
    failed = sum(bad for _, bad in totals)
    ended = failed + standing.served.total(state.now, span)[0]
    if ended < FEW or 2 * failed < ended:
        return None
    theirs, bad = max(totals, key=lambda total: total[1])
    rest, bad_rest = ended - theirs, failed - bad
    if rest < state.policy.failover.fail_threshold or 2 * bad_rest < rest:
        return None
    return Finding(f"{failed} of {ended} attempts failed")


def _lives_on(state: "State", trouble: Trouble) -> bool:
    """Whether a request that failed there runs elsewhere, for far longer than it takes to fail:
    long answers are not waited for."""
    moved = trouble.moved
    if moved is None or moved.replica is None or moved.dispatched < trouble.since:
        return False
    return state.now - moved.dispatched >= max(LIVES * trouble.longest, LEAST_LIFE)


def _alone(state: "State", request: Request, replica: Replica, trouble: Trouble) -> bool:
    """Whether nobody else uses the replicas that fail the business, so that its word is all
    there is to go by: and there is no other to be tried, or this one did serve before."""
    business, model, conduct = request.ticket.business, request.ticket.model, request.conduct
    recent = state.now - window(state)
    for name, found in conduct.troubles.items():
        if found.row and 0 < proof_at(state, conduct, business, name, found) >= recent:
            return False
    for held in replica.holds.values():
        if held.ticket.model == model and held.ticket.business != business:
            return False
    return trouble.standing.witness.at > 0 or not any(
        other is not replica
        and other.serving()
        and other.takes(model, request.lane, request.ticket.level)
        for other in state.replicas.values()
    )


def proof_at(state: "State", conduct: Conduct, business: str, name: str, trouble: Trouble) -> int:
    """When an attempt began (ns; 0: none did) that shows the replica to be well where the
    business fails: another's for the model. Where nobody else's fail there, and its own fail on
    more replicas than this, any other tells as much: a model that one of them has lost is served
    by the rest."""
    proof = trouble.standing.witness.others(business)
    replica = state.replicas.get(name)
    several = sum(found.row > 0 for found in conduct.troubles.values()) > 1
    if replica is not None and several and len(trouble.standing.failing) == 1:
        doubted = any(
            is_doubt(state, found, other)
            for standing in replica.standings.values()
            if standing is not trouble.standing
            for other, found in standing.failing.items()
        )
        if not doubted:
            proof = max(proof, replica.witness.others(conduct))
    return proof
