"""Backpressure: what is done where P0 waits too long for a model, and when that is over.

P0's wait is judged model by model, no more often than every ``LOOK``, while P0 waits or pressure
lasts. It is the longer of what the longest-waiting request of the model has waited, and what a
new one would wait by the rate at which slots for it come free; the latter only where no work
can be stopped on the replicas that it may use. Until it is over P2 stays queued that would
run on these replicas, but for what the starvation guard promotes, and the rates of P2 for
models that share them are slowed (see ``throttle``). Nothing else is touched. Mode weighted
keeps nobody from its share of the slots; mode fifo knows no lanes, and so no pressure.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .backlog import p0_waits
from .decisions import Decision, Kind, Notice
from .throttle import slow_p2

if TYPE_CHECKING:
    from .state import State

MS = 1_000_000
LOOK = 100 * MS


@dataclass(slots=True)
class Pressed:
    """One model whose P0 waits too long (``active``), since ``since`` (ns), or did so lately.
    ``wait`` is P0's as seen last (ns). ``models`` share a replica with it in P2. The rates of
    those ``slowed`` are at ``share`` of what they are, and not below ``least`` soon; that changes
    next at ``turn`` (ns)."""

    since: int
    wait: int = 0
    active: bool = True
    models: frozenset[str] = frozenset()
    slowed: frozenset[str] = frozenset()
    share: float = 1.0
    least: float = 1.0
    turn: int = 0


@dataclass(slots=True)
class Pressure:
    """``models``: those whose P0 waits too long, or whose P2 has not all of its rates back.
    ``held``: models whose P2 may run nowhere at present, and for how long (ns) P0 waits for
    whose sake that is; ``holding``: some replica takes no P2 for that."""

    models: dict[str, Pressed] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    holding: bool = False

    def pressed(self) -> list[str]:
        """The models whose P0 waits too long now, by name."""
        return sorted(name for name, found in self.models.items() if found.active)

    def holds(self, model: str) -> int:
        """How long (ns) P0 waits for whose sake P2 of this model may run nowhere; 0 where some
        replica may still take it."""
        return self.held.get(model, 0)


def look(state: "State", out: list[Decision]) -> bool:
    """See how long P0 waits, and act on it. Returns whether P2 that was held may go on."""
    models, rules = state.pressure.models, state.policy.backpressure
    state.press_at = state.now + LOOK
    waits = {} if state.policy.mode == "fifo" else _waits(state)
    for model in sorted(waits.keys() | models.keys()):
        wait, found = waits.get(model, 0), models.get(model)
        if wait > rules.p0_wait_ms * MS and (found is None or not found.active):
            if found is None:
                found = models[model] = Pressed(state.now)
            found.active, found.since = True, state.now
            state.plan_at = 0
            out.append(Notice(Kind.PRESSED, model, f"P0 waits {wait // MS} ms", wait))
        elif found is not None and found.active and wait < rules.clear_ms * MS:
            found.active = False
            out.append(Notice(Kind.RELIEVED, model, f"P0 waits {wait // MS} ms", wait))
        if found is not None:
            found.wait = wait
    eased = hold_back(state)
    for model, found in list(models.items()):
        slow_p2(state, model, found, out)
        if not found.active and found.share == 1.0:
            del models[model]
    state.watching = bool(models) or any(not start.came for start in state.cold.values())
    return eased


def _waits(state: "State") -> dict[str, int]:
    """P0's wait (ns) by model, foreseen where that is longer and no work gives way."""
    found = {}
    preempts = state.policy.preemption.enabled and state.policy.queues.P0.preempt
    for model, (count, longest) in p0_waits(state).items():
        ends = 0.0 if preempts and _gives_way(state, model) else state.turnover(model, 0)
        found[model] = max(longest, int(count / ends)) if ends else longest
    return found


def _gives_way(state: "State", model: str) -> bool:
    """Whether work that may be stopped runs where P0 of the model may."""
    return any(
        group.stoppable and model in group.members[0].serves[0]
        for group in state.layout.groups.values()
    )


def hold_back(state: "State") -> bool:
    """Mark the replicas whose P2 stays queued, and find the models that this concerns; returns
    whether a replica is free for P2 again. To be called where replicas have changed, too."""
    pressure = state.pressure
    policy = state.policy
    throttles = "throttle_P2" in policy.backpressure.action and policy.mode == "strict"
    shared: dict[str, set[str]] = {model: set() for model in pressure.models}
    waits: dict[str, int] = {}
    elsewhere: set[str] = set()
    eased = pressure.holding = False
    for replica in state.replicas.values():
        urgent = replica.serving() and replica.facts.levels[0] <= policy.lanes.P0[1]
        near = [m for m in shared if m in replica.serves[0]] if urgent else []
        for model in near:
            shared[model].update(replica.serves[2])
        wait = max((pressure.models[m].wait for m in near if pressure.models[m].active), default=0)
        for model in replica.serves[2] if replica.serving() else ():
            waits[model] = max(waits.get(model, 0), wait)
            if not wait:
                elsewhere.add(model)
        eased |= replica.held and not (throttles and wait)
        replica.held = bool(throttles and wait)
        pressure.holding |= replica.held
    for model, found in pressure.models.items():
        found.models = frozenset(shared[model])
    pressure.held = {m: wait for m, wait in waits.items() if wait and m not in elsewhere}
    return eased
