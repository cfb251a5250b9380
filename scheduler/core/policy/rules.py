"""What a policy must hold to: each field's own limits, and combinations that can work.

Pure functions over the tree; nothing is raised here, every problem is returned.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from .limits import fits, leaves
from .problems import Problem
from .spec import MOST_LEVEL
from .tree import Policy

# Sums of shares are sums of binary fractions.
TOLERANCE = 1e-9


def problems(policy: Policy) -> list[Problem]:
    """Everything that is wrong with a policy, however it was built."""
    found = [
        Problem(path, f"must be {spec.allowed()}")
        for path, spec, value in leaves(policy)
        if not fits(spec, value)
    ]
    return found + broken_rules(policy, skip={problem.path for problem in found})


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition on several fields, judged only where each of them is well by itself."""

    paths: tuple[str, ...]
    check: Callable[[Policy], Iterator[Problem]]


def broken_rules(policy: Policy, skip: Collection[str] = ()) -> list[Problem]:
    """Combinations that can't work. Rules that look at a path in ``skip`` are left out."""
    return [
        problem
        for rule in RULES
        if not any(_touches(bad, path) for bad in skip for path in rule.paths)
        for problem in rule.check(policy)
    ]


def _touches(bad: str, path: str) -> bool:
    return bad == path or path.startswith(f"{bad}.") or bad.startswith(f"{path}.")


LANES = ("scheduler.lanes.P0", "scheduler.lanes.P1", "scheduler.lanes.P2")
MINIMA = (
    "scheduler.queues.P0.min_bandwidth",
    "scheduler.queues.P1.min_share",
    "scheduler.queues.P2.min_share",
)


def _gapless(policy: Policy) -> Iterator[Problem]:
    ranges = (policy.lanes.P0, policy.lanes.P1, policy.lanes.P2)
    due = 0
    for path, (least, most) in zip(LANES, ranges, strict=True):
        if least != due:
            yield Problem(path, f"must begin at level {due}: ranges have no gap and no overlap")
        due = most + 1
    if due != MOST_LEVEL + 1:
        yield Problem(LANES[-1], f"must end at level {MOST_LEVEL}: every level has a lane")


def _minimum_shares(policy: Policy) -> Iterator[Problem]:
    queues = policy.queues
    values = (queues.P0.min_share, queues.P1.min_share, queues.P2.min_share)
    total = sum(values)
    if total > 1 + TOLERANCE:
        worst = MINIMA[values.index(max(values))]
        yield Problem(
            worst,
            f"the minimum shares {' + '.join(MINIMA)} must be at most 100% together; "
            f"they are {total * 100:g}%",
        )


def _room_for_p2(policy: Policy) -> Iterator[Problem]:
    reserved, queue = policy.queues.P0.min_bandwidth, policy.queues.P2
    if not queue.borrow and reserved + queue.max_occupy > 1 + TOLERANCE:
        yield Problem(
            "scheduler.queues.P2.max_occupy",
            f"must be at most {(1 - reserved) * 100:g}% with borrow: false, "
            f"what {MINIMA[0]} ({reserved * 100:g}%) leaves",
        )


def _clears(policy: Policy) -> Iterator[Problem]:
    trigger = policy.backpressure.p0_wait_ms
    if policy.backpressure.clear_ms > trigger:
        yield Problem(
            "scheduler.backpressure.clear_ms",
            f"must be at most scheduler.backpressure.p0_wait_ms ({trigger} ms)",
        )


def _weighs(policy: Policy) -> Iterator[Problem]:
    weights = policy.placement.weights
    if not weights.gpu + weights.memory + weights.queue > 0:
        yield Problem("scheduler.placement.weights", "at least one weight must be above 0")


def _window_holds_a_reading(policy: Policy) -> Iterator[Problem]:
    every = policy.placement.metrics_every_s
    if policy.placement.metrics_window_s < every:
        yield Problem(
            "scheduler.placement.metrics_window_s",
            f"must be at least scheduler.placement.metrics_every_s ({every:g} s)",
        )


RULES = (
    Rule(LANES, _gapless),
    Rule(MINIMA, _minimum_shares),
    Rule((MINIMA[0], "scheduler.queues.P2.max_occupy", "scheduler.queues.P2.borrow"), _room_for_p2),
    Rule(("scheduler.backpressure.p0_wait_ms", "scheduler.backpressure.clear_ms"), _clears),
    Rule(("scheduler.placement.weights",), _weighs),
    Rule(
        ("scheduler.placement.metrics_every_s", "scheduler.placement.metrics_window_s"),
        _window_holds_a_reading,
    ),
)


@dataclass(frozen=True, slots=True)
class NamedPool:
    """A pool that a policy names, for which lane (0 most urgent), and in which field."""

    path: str
    pool: str
    lane: int


def named_pools(policy: Policy) -> list[NamedPool]:
    """The pools that a policy needs in the fleet."""
    named = (
        ("scheduler.queues.P0.dedicated_pool", policy.queues.P0.dedicated_pool),
        ("scheduler.queues.P1.shared_pool", policy.queues.P1.shared_pool),
        ("scheduler.queues.P2.shared_pool", policy.queues.P2.shared_pool),
    )
    return [NamedPool(path, pool, lane) for lane, (path, pool) in enumerate(named) if pool]
