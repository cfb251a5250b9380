"""Hot and cold path: a model's hot replicas serve it, and its cold ones only where those do not.

The hot path is left after ``paths.failures`` failed attempts in a row, of more than one
business or of the only one that uses it of late, or when its attempts take
``paths.latency_factor`` times as long as usual and the cold ones are quicker. Every
``paths.probe_s`` ``failover.half_open_probes`` requests try it again, and when that many have
gone well it is back. While no hot replica of a model is ready, or all have open breakers, the
cold ones help. That all of them are *busy* is no reason: waiting is what backpressure and
scaling are about, and who goes over for it would take the room that the cold path has for the
others' failures.

All of it acts through the layout: what is not in use *rests* on its replica.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .blame import window
from .decisions import Kind, Notice
from .estimates import Mean
from .replica import NOTHING, Replica
from .request import Request
from .standing import Witness

if TYPE_CHECKING:
    from .state import State

NS = 1_000_000_000
LANES = (0, 1, 2)
# Attempts that the present and the usual latency go back, and are judged by at least.
RECENT, USUAL = 8, 64


@dataclass(slots=True)
class Path:
    """A model's hot path. ``failures`` in a row, of ``failing`` businesses; ``witness`` says who
    was served well there last; ``recent`` and
    ``usual`` slot time per unit of work (ns). It is ``off`` since (ns; 0: on); ``tries`` of
    it may start now and more ``at`` a time; those that began since ``begun`` count, ``good``
    ones did well. ``cold``: that the cold path is in use was told."""

    failures: int = 0
    failing: set[str] = field(default_factory=set)
    witness: Witness = field(default_factory=Witness)
    recent: Mean = field(default_factory=lambda: Mean(0.0, 0))
    usual: Mean = field(default_factory=lambda: Mean(0.0, 0))
    off: int = 0
    tries: int = 0
    at: int = 0
    begun: int = 0
    good: int = 0
    cold: bool = False


def lay_paths(state: "State") -> None:
    """Say for each replica which models rest there, by what is ready and what is left."""
    replicas = state.replicas.values()
    hot, cold = (
        _by_model(r for r in replicas if r.facts.hot),
        _by_model(r for r in replicas if not r.facts.hot),
    )
    both = sorted(hot.keys() & cold.keys())
    for model in [model for model in state.paths if model not in both]:
        del state.paths[model]
    rest: dict[str, tuple[set[str], set[str], set[str]]] = {}
    for model in both:
        path = state.paths.setdefault(model, Path())
        _turn(state, path)
        helped = False
        for lane in LANES:
            here = [r for r in hot[model] if _usable(r, model, lane)]
            there = [r for r in cold[model] if _usable(r, model, lane)]
            helped |= bool(there) and not here and any(lane in r.lanes_warm for r in hot[model])
            used, left = (there, hot[model]) if path.off else (here, cold[model])
            if not path.tries:
                for replica in left:
                    if _covered(replica, used):
                        rest.setdefault(replica.facts.name, (set(), set(), set()))[lane].add(model)
        _tell(state, model, path, helped=helped)
    for replica in replicas:
        found = rest.get(replica.facts.name)
        first, second, third = found if found is not None else NOTHING
        replica.rest = (frozenset(first), frozenset(second), frozenset(third))
        replica.lay(replica.lanes_warm)


def _by_model(replicas: Iterable[Replica]) -> dict[str, list[Replica]]:
    found: dict[str, list[Replica]] = {}
    for replica in replicas:
        for model in replica.facts.models:
            found.setdefault(model, []).append(replica)
    return found


def _usable(replica: Replica, model: str, lane: int) -> bool:
    return replica.serving() and model not in replica.circuits and lane in replica.lanes


def _covered(replica: Replica, others: list[Replica]) -> bool:
    """Whether the others take every level that the replica takes."""
    least, most = replica.facts.levels
    bounds = [other.facts.levels for other in others]
    return all(
        any(low <= level <= high for low, high in bounds) for level in range(least, most + 1)
    )


def _turn(state: "State", path: Path) -> None:
    """A path that was left may be tried again when it is time."""
    if path.off and state.now >= path.at:
        path.begun = path.begun or state.now
        path.at = state.now + int(state.policy.paths.probe_s * NS)
        path.tries = state.policy.failover.half_open_probes


def _tell(state: "State", model: str, path: Path, *, helped: bool) -> None:
    """Note that replicas came or went, where that is why the path in use has changed."""
    cold = bool(path.off) or helped
    if cold != path.cold:
        path.cold = cold
        kind = Kind.PATH_COLD if cold else Kind.PATH_HOT
        cause = "no hot replica is ready" if cold else "a hot replica is ready"
        state.news.append(Notice(kind, model, cause))


def note_start(state: "State", request: Request, replica: Replica) -> None:
    """A request has got a slot: it may be one that tries the hot path."""
    path = state.paths.get(request.ticket.model)
    if path is not None and path.tries and replica.facts.hot:
        path.tries -= 1
        if not path.tries:
            state.lay_out_at = state.turn_at = 0


def note_attempt(
    state: "State", request: Request, replica: Replica, output: int, *, failed: bool
) -> bool:
    """An attempt has ended; whether its model is to be served otherwise for it. ``output``
    tokens, 0 where they are not known."""
    path = state.paths.get(request.ticket.model)
    if path is None or not replica.facts.hot:
        return False
    slow = False
    if not failed and not request.produced:
        size = _size(request, output)
        slow = _measure(state, path, (state.now - request.dispatched) / size)
    if path.off:
        return _judge(state, request, path, well=not (failed or slow))
    if not failed:
        path.failures = 0
        path.failing.clear()
        path.witness.note(request.ticket.business, state.now)
        return _left_for_latency(state, request, path, _size(request, output))
    path.failures += 1
    path.failing.add(request.ticket.business)
    served = path.witness.others(request.ticket.business)
    alone = not served or served < state.now - window(state)
    if path.failures < state.policy.paths.failures or not (alone or len(path.failing) > 1):
        return False
    return _leave(state, request.ticket.model, path, f"{path.failures} failures in a row")


def _size(request: Request, output: int) -> float:
    """What a request came to, to compare it with others of its model: a token of the prompt counts
    as a hundredth of one of the answer, which is near enough for like work."""
    if not request.generative:
        return 1.0
    return (output or request.answer) + request.ticket.prompt / 100


def _measure(state: "State", path: Path, unit: float) -> bool:
    """Learn from an attempt; whether it took far longer than usual. One that did is learnt
    from as usual only once the path was left: what stays slow is usual in the end."""
    usual, recent = path.usual, path.recent
    slow = usual.samples >= RECENT and unit > state.policy.paths.latency_factor * usual.value
    for mean, memory in ((recent, RECENT), (usual, USUAL)):
        if mean is recent or not slow or path.off:
            mean.samples += 1
            mean.value += (unit - mean.value) / min(memory, mean.samples)
    return slow


def _left_for_latency(state: "State", request: Request, path: Path, size: float) -> bool:
    ticket, usual, recent = request.ticket, path.usual.value, path.recent.value
    if path.recent.samples < RECENT or recent <= state.policy.paths.latency_factor * usual:
        return False
    if not usual:
        return False  # of what took no time nothing can be told
    known = [
        state.estimates.expected(ticket, replica.facts.name) / size
        for replica in state.replicas.values()
        if not replica.facts.hot and replica.serving()
        if ticket.model in state.estimates.kinds.get(replica.kind, {})
    ]
    if known and min(known) >= recent:
        return False
    return _leave(state, ticket.model, path, f"takes {recent / usual:.1f} times as long as usual")


def _leave(state: "State", model: str, path: Path, cause: str) -> bool:
    """Leave the hot path, if a cold replica can take over."""
    ready = any(
        not replica.facts.hot
        and model in replica.facts.models
        and any(_usable(replica, model, lane) for lane in LANES)
        for replica in state.replicas.values()
    )
    if not ready:
        return False
    path.off, path.begun, path.good, path.tries = state.now, 0, 0, 0
    path.at = state.now + int(state.policy.paths.probe_s * NS)
    path.cold = True
    state.news.append(Notice(Kind.PATH_COLD, model, cause, path.at))
    return True


def _judge(state: "State", request: Request, path: Path, *, well: bool) -> bool:
    """A request has ended that began on the hot path while that was left, or before."""
    if not path.begun or request.dispatched < path.begun:
        return False
    if not well:
        path.at = state.now + int(state.policy.paths.probe_s * NS)
        path.tries = path.good = 0
        return True
    path.good += 1
    if path.good < state.policy.failover.half_open_probes:
        return False
    path.off = path.tries = path.failures = 0
    path.failing.clear()
    path.recent = Mean(0.0, 0)
    path.cold = False
    cause = f"{path.good} requests that tried it have gone well"
    state.news.append(Notice(Kind.PATH_HOT, request.ticket.model, cause))
    return True
