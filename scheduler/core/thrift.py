"""Cards that the load does not need: given back in calm hours, taken again as it grows.

Looked at with each new layout. Only cards of the scaler are ever given back, and no more is
taken again than the pool had at rest: beyond that only P0's wait asks for cards (``pressure``).
Cards are taken again at once as work of any lane fills those that serve; they are given back
when P0 has not waited for ``cooldown_s``, and fewer would have been enough for all of
``settle_s``, which is looked at in a few parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, exp
from typing import TYPE_CHECKING

from .decisions import Decision, Kind, Notice, Scale
from .pressure import backlog

if TYPE_CHECKING:
    from .replica import Replica
    from .state import State

MS = 1_000_000
NS = 1_000_000_000
# The slots held are a mean over about so long (ns).
MEMORY = 20 * NS
# Fewer cards are enough only with so much (cards) to spare, and too few only when so much is
# lacking, so that they do not come and go.
SPARE = 0.25
LACK = 0.1
PARTS = 4


@dataclass(slots=True)
class Thrift:
    """Of one pool: ``cards`` are those of the scaler that it has at rest, ``asked`` the
    replicas of any kind that it is to have, of which ``ready`` were seen last. Slots held by P0
    and P1 (``urgent``) and by P2 (``patient``) are means as of ``looked`` (ns). ``most``
    is the largest need (cards) in each of the last parts of ``settle_s``, the one that began at
    ``part`` (ns) first. ``ordered``: others than it had at rest have been asked for."""

    cards: int
    asked: int
    ready: int
    urgent: float
    patient: float
    looked: int
    part: int
    most: list[float] = field(default_factory=lambda: [0.0])
    ordered: bool = False


def follow(state: "State", out: list[Decision]) -> None:
    """See how many cards each elastic pool needs, and say so where it should have others."""
    rules = state.policy.backpressure
    if not (state.cards and rules.scale.by_load and "scale_gpu" in rules.action):
        return
    for name, pool in state.pools.items():
        if not pool.dedicated:
            members = [r for r in state.replicas.values() if r.pool.name == name]
            serving = [r for r in members if r.serving()]
            fixed = sum(r.facts.name not in state.cards for r in members)
            if serving and (name in state.thrift or len(members) > fixed):
                _follow(state, name, fixed, serving, out)


def _follow(
    state: "State", name: str, fixed: int, serving: "Sequence[Replica]", out: list[Decision]
) -> None:
    # A card that a cold start keeps comes and goes with that.
    kept = sum(bool(start.came) and start.pool == name for start in state.cold.values())
    known = _seen(state, name, fixed, len(serving) - kept)
    grown = state.pressure.grown.get(name)
    if grown is not None:
        # What it had before is what it will have again, and counts from there.
        if not known.ordered:
            known.cards = min(known.cards, max(0, grown.base - grown.kept - fixed))
        known.asked, known.ordered, known.most = grown.base - grown.kept, True, [0.0]
        return
    need = _need(state, known, serving)
    desired = _desired(state, known, need, fixed, fixed + known.cards)
    if desired != known.asked:
        more = desired > known.ready
        known.asked, known.ordered = desired, True
        cause = f"work for {need:.1f} cards, {known.ready} are ready"
        out.append(Notice(Kind.SCALED, name, cause, desired))
        out.append(Scale(name, len(serving), desired + kept * more))


def _desired(state: "State", known: Thrift, need: float, fixed: int, rest: int) -> int:
    """How many replicas the pool should have, from those that are fixed to those at rest."""
    scale = state.policy.backpressure.scale
    least = min(rest, max(scale.least_cards, fixed))
    if state.now - known.part >= scale.settle_s * NS / PARTS:
        known.part, known.most = state.now, [0.0, *known.most[:PARTS]]
    known.most[0] = max(known.most[0], need)
    wanted = min(rest, max(least, ceil(need - LACK)))
    if wanted > known.asked:
        return wanted
    if len(known.most) > PARTS and known.most[0] <= max(known.most[1:]) and _calm(state):
        # Not while the need still grows.
        return min(known.asked, max(least, ceil(max(known.most) + SPARE)))
    return known.asked


def _seen(state: "State", name: str, fixed: int, ready: int) -> Thrift:
    """The pool as it is now: what it holds, and replicas that came or went by themselves."""
    now, running = state.now, state.pools[name].running
    urgent, patient = float(running[0] + running[1]), float(running[2])
    known = state.thrift.get(name)
    if known is None:
        known = Thrift(ready - fixed, ready, ready, urgent, patient, now, now)
        state.thrift[name] = known
    keep = exp((known.looked - now) / MEMORY)
    known.urgent = known.urgent * keep + urgent * (1.0 - keep)
    known.patient = known.patient * keep + patient * (1.0 - keep)
    if ready > max(known.ready, known.asked) or ready < min(known.ready, known.asked):
        known.asked = ready
    if not known.ordered:
        known.cards = max(known.cards, ready - fixed)
    known.ready, known.looked = ready, now
    return known


def _calm(state: "State") -> bool:
    """Whether P0 has not waited for long enough, if ever."""
    pressure, cooldown = state.pressure, state.policy.backpressure.scale.cooldown_s
    since = state.now - pressure.calm
    return not pressure.active and (not pressure.calm or since >= cooldown * NS)


def _need(state: "State", known: Thrift, serving: "Sequence[Replica]") -> float:
    """Cards for what runs and for what waits: the backlog of P0 is to be gone within
    ``drain_s``, that of P1 within half its latency budget, and that of P2 before it is overdue.
    What P2 holds is headroom for the others, to whom it yields."""
    scale, queues = state.policy.backpressure.scale, state.policy.queues
    models = {model for replica in serving for model in replica.facts.models}
    drain, budget = scale.drain_s * NS, queues.P1.latency_budget_ms
    times = (
        drain,
        drain if budget is None else max(drain, budget * MS / 2),
        max(1, queues.P2.max_wait_ms * MS),
    )
    first, second, last = (backlog(state, lane, models) / times[lane] for lane in range(3))
    urgent, patient = known.urgent + first + second, known.patient + last
    slots = sum(replica.facts.slots for replica in serving) / len(serving)
    return (urgent + max(urgent * scale.headroom, patient)) / slots
