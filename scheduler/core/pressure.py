"""Backpressure: what is done when P0 waits too long, and when that is over.

Looked at no more often than ``LOOK`` while P0 waits or pressure lasts. P0's wait is the
longer of what the longest-waiting of its requests has waited, and what a new one would wait
by the rate at which slots come free; the latter only where no running work can be stopped for
it. Mode fifo knows no lanes, and so no pressure.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING

from .decisions import Decision, Kind, Notice, Scale
from .line import Line
from .throttle import slow_p2

if TYPE_CHECKING:
    from .request import Request
    from .state import State

MS = 1_000_000
NS = 1_000_000_000
LOOK = 100 * MS


@dataclass(slots=True)
class Growth:
    """A pool that was asked for more cards. ``base`` is how many it had before, ``kept`` of them
    for a cold start, which are given back by themselves; ``since`` when
    the first were asked for, ``calm`` since when they are needed no more (ns; 0: they are).
    ``given_up``: they have not helped, and no more will be asked for until it is calm."""

    base: int
    desired: int
    since: int
    kept: int = 0
    calm: int = 0
    given_up: bool = False


@dataclass(slots=True)
class Pressure:
    """``wait`` is P0's as seen last (ns), ``since`` when pressure began, ``calm`` when it ended
    last. P2's rates are at ``share`` of what they are, and not below ``least`` soon; that changes
    next at ``turn`` (ns)."""

    active: bool = False
    wait: int = 0
    since: int = 0
    calm: int = 0
    share: float = 1.0
    least: float = 1.0
    turn: int = 0
    grown: dict[str, Growth] = field(default_factory=dict)


def look(state: "State", out: list[Decision]) -> None:
    """See how long P0 waits, and act on it."""
    pressure, rules = state.pressure, state.policy.backpressure
    pressure.wait = wait = _wait(state)
    state.press_at = state.now + LOOK
    if not pressure.active and wait > rules.p0_wait_ms * MS:
        pressure.active, pressure.since = True, state.now
        out.append(Notice(Kind.PRESSED, "P0", f"waits {wait // MS} ms", wait))
    elif pressure.active and wait < rules.clear_ms * MS:
        pressure.active, pressure.calm = False, state.now
        out.append(Notice(Kind.RELIEVED, "P0", f"waits {wait // MS} ms", wait))
    if pressure.active or pressure.share < 1.0:
        slow_p2(state, out)
    if "scale_gpu" in rules.action:
        if pressure.active and rules.scale.by_p0_backlog:
            _grow(state, out)
        elif pressure.grown:
            _shrink(state, out)
    state.watching = pressure.active or pressure.share < 1.0 or bool(pressure.grown or state.cold)


def _wait(state: "State") -> int:
    if not state.lane_queued[0] or state.policy.mode == "fifo":
        return 0
    longest = 0
    waiting: dict[str, int] = {}
    for models in state.queues.lanes[0].values():
        for model, line in models.items():
            if (model, 0) not in state.layout.sets:
                continue  # it waits for a replica, not for others' work
            waiting[model] = waiting.get(model, 0) + _eligible(state, line)
            for request in line.foremost(1):
                if request.tenant.may_run:
                    longest = max(longest, state.now - _since(state, request))
    if state.yielding or (state.stoppable and state.policy.preemption.enabled):
        return longest
    for model, count in waiting.items():
        ends = state.turnover(model, 0)
        longest = max(longest, int(count / ends) if ends else 0)
    return longest


def _since(state: "State", request: "Request") -> int:
    """Since when (ns) a request waits for others' work: not while its replica was started."""
    start = state.cold.get(request.ticket.model) if request.cold else None
    return request.since if start is None else max(request.since, start.came or state.now)


def _eligible(state: "State", line: Line) -> int:
    """Requests that wait for a slot: what its own business's limit holds back is no sign of
    too few cards."""
    held = sum(
        len(heap) for business, heap in line.heaps.items() if not state.tenants[business].may_run
    )
    return max(0, line.live - held)


def backlog(state: "State", lane: int, models: Collection[str]) -> float:
    """Slot time (ns) of the lane's eligible requests that wait for some models."""
    found = 0.0
    for levels in state.queues.lanes[lane].values():
        for model, line in levels.items():
            if model in models:
                for first in line.foremost(1)[:1]:
                    service = state.estimates.typical(first.ticket, first.work)
                    found += _eligible(state, line) * service
    return found


def cards_short(state: "State", pool: str) -> int:
    """Cards that the pool lacks to work P0's backlog off within the time for it:
    ceil(backlog / (slots of a card x that time) x (1 + headroom)), backlog in slot time (ns)."""
    scale = state.policy.backpressure.scale
    members = [r for r in state.replicas.values() if r.pool.name == pool and r.serving()]
    if not members:
        return 0
    work = backlog(state, 0, {model for replica in members for model in replica.facts.models})
    slots = sum(r.facts.slots for r in members) / len(members)
    return ceil(work / (slots * scale.drain_s * NS) * (1.0 + scale.headroom))


def _grow(state: "State", out: list[Decision]) -> None:
    """Ask for cards in elastic pools."""
    scale = state.policy.backpressure.scale
    for name, use in state.pools.items():
        ready = sum(r.pool.name == name and r.serving() for r in state.replicas.values())
        if use.dedicated or not ready:
            continue
        grown = state.pressure.grown.get(name)
        if grown is not None:
            grown.calm = 0
        if grown is not None and _no_help(state, grown, ready):
            grown.given_up = True
            cause = f"{ready} cards, and P0 waits {state.pressure.wait // MS} ms"
            out.append(Notice(Kind.NO_HELP, name, cause, ready))
        if grown is not None and grown.given_up:
            continue
        desired = ready + cards_short(state, name)
        if scale.max_cards is not None:
            desired = min(desired, max(ready, scale.max_cards))
        if desired > (ready if grown is None else max(ready, grown.desired)):
            if grown is None:
                kept = sum(bool(s.came) and s.pool == name for s in state.cold.values())
                state.pressure.grown[name] = Growth(ready, desired, state.now, kept)
            else:
                grown.desired = desired
            cause = f"P0 waits {state.pressure.wait // MS} ms, {ready} cards are ready"
            out.append(Notice(Kind.SCALED, name, cause, desired))
            out.append(Scale(name, ready, desired))


def _no_help(state: "State", grown: Growth, ready: int) -> bool:
    """Whether P0 still waits, though cards have come and had the time to help."""
    window = int(state.policy.backpressure.scale.help_window_s * NS)
    asked = max(grown.since, state.pressure.since)
    return not grown.given_up and ready > grown.base and state.now - asked > window


def _shrink(state: "State", out: list[Decision]) -> None:
    """Give cards back when they have not been needed for long enough."""
    cooldown = int(state.policy.backpressure.scale.cooldown_s * NS)
    for name, grown in list(state.pressure.grown.items()):
        grown.calm = grown.calm or state.now
        if state.now - grown.calm >= cooldown:
            del state.pressure.grown[name]
            ready = sum(r.pool.name == name and r.serving() for r in state.replicas.values())
            cause = f"P0 has not waited for {cooldown // NS} s"
            desired = grown.base - grown.kept
            out.append(Notice(Kind.SCALED, name, cause, desired))
            out.append(Scale(name, ready, desired))
