"""What is done when a step of the core has raised: its state is built anew.

What was learned is carried over from the state that failed, at most once a minute: should the
carried state fail as well within that time, what was carried may be what is wrong, and the next
one starts clean. So a fault of an event costs its request, a fault of the state what was learned.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .calls import Call
from .core import events, rebuilding
from .core.decisions import Decision
from .core.policy import Policy
from .core.state import State
from .core.step import step

log = logging.getLogger(__name__)

SOON_NS = 60_000_000_000
Told = events.ReplicaChanged | events.QuotaChanged | events.CardsChanged


@dataclass(slots=True)
class Rebuilt:
    """The new state, what it decides at once, orders to drivers that stand or are taken back
    among it, and the calls that it could not take in or keep. ``clean``: nothing that was
    learned is in it."""

    state: State
    clean: bool = False
    decisions: list[Decision] = field(default_factory=list)
    lost: list[Call] = field(default_factory=list)


class Rescue:
    """Remembers when it carried something over last (ns). Belongs to the scheduler."""

    def __init__(self) -> None:
        self._carried_at: int | None = None

    def rebuild(
        self, old: State, policy: Policy, told: Iterable[Told], calls: Iterable[Call], now: int
    ) -> Rebuilt:
        """A state under this policy, told of fleet, limits and cards, and of the calls that are
        open; its slots are filled at ``now`` (ns). Raises nothing."""
        told, calls = list(told), sorted(calls, key=_order)
        carried = self._carried_at
        if carried is None or now - carried >= SOON_NS:
            self._carried_at = now
            try:
                return _carried(old, policy, told, calls, now)
            except Exception:  # what is carried may be what is wrong
                log.exception("what the scheduler has learned cannot be carried over")
        self._carried_at = None
        log.warning("the scheduler starts clean: nothing that it has learned is carried over")
        return _clean(old, policy, told, calls, now)


def _order(call: Call) -> tuple[bool, int, int]:
    """Who runs first, as they started; then who waits, as they came."""
    if call.replica is not None:
        return False, 0, call.dispatched
    return True, call.ticket.lane, call.ticket.arrived


def _carried(
    old: State, policy: Policy, told: Sequence[Told], calls: Sequence[Call], now: int
) -> Rebuilt:
    requests = old.requests
    state = rebuilding.carried_over(old)
    state.policy = policy
    for change in told:
        rebuilding.know(state, change, old.replicas)
    rebuilding.lay(state)
    for call in calls:
        rebuilding.adopt(state, call.adoption(), requests.get(call.ticket.id))
    rebuilding.claim_again(state, old)
    decisions = [*rebuilding.standing(state), *step(state, events.Tick(), now)]
    return Rebuilt(state, decisions=decisions)


def _clean(
    old: State, policy: Policy, told: Sequence[Told], calls: Sequence[Call], now: int
) -> Rebuilt:
    """Whatever raises is left out: a fault in the core must not keep the rest from going on."""
    state = State(policy=policy, now=old.now)
    found = Rebuilt(state, clean=True)
    for change in told:
        try:
            rebuilding.know(state, change, {})
        except Exception:  # as above
            log.exception("a rebuilt scheduler does not know of %s", change)
    try:
        rebuilding.lay(state)
        found.decisions += rebuilding.given_up(old, state)
    except Exception:  # as above
        log.exception("a rebuilt scheduler is not laid out")
    for call in calls:
        try:
            rebuilding.adopt(state, call.adoption())
        except Exception:  # as above
            log.exception("a rebuilt scheduler does not know of request %s", call.ticket.id)
            found.lost.append(call)
    try:
        found.decisions += step(state, events.Tick(), now)
    except Exception:  # nobody else would tell those who wait
        log.exception("a rebuilt scheduler does not start anybody")
        found.lost += [call for call in calls if call.replica is None]
    return found
