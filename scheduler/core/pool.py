"""What a pool's slots are used for, and what the lane limits leave."""

from dataclasses import dataclass, field
from math import ceil, floor

from .fleet import PoolFacts
from .policy import Policy

EVERY_LANE = frozenset({0, 1, 2})


def lanes_let_in(pool: PoolFacts, policy: Policy) -> frozenset[int]:
    """The lanes whose work the pool takes: of those it is open to the ones that the policy
    sends there. A lane for which a pool is named uses that; P0 overflows to elastic pools if
    it may. Mode fifo knows no lanes."""
    if policy.mode == "fifo":
        return EVERY_LANE
    p0, p1, p2 = policy.queues.P0, policy.queues.P1, policy.queues.P2
    own = pool.dedicated if p0.pool is None else pool.name == p0.pool
    sent = {
        0: own or (p0.overflow and not pool.dedicated),
        1: p1.pool in {None, pool.name},
        2: p2.pool in {None, pool.name},
    }
    return frozenset(lane for lane in pool.lanes if sent[lane])


@dataclass(slots=True)
class PoolUse:
    """Slots of ready replicas of a pool among which work can move, and requests running there by
    lane."""

    slots: int = 0
    dedicated: bool = False
    running: list[int] = field(default_factory=lambda: [0, 0, 0])
    promoted: int = 0

    @property
    def free(self) -> int:
        """Slots nobody holds; negative while slots leave."""
        return self.slots - sum(self.running)

    def promotable(self, share: float) -> bool:
        """Whether one more overdue request may be promoted here."""
        return self.promoted < ceil(share * self.slots)

    def under(self, lane: int, share: float) -> bool:
        """Whether the lane holds less than this share of the slots."""
        return self.running[lane] < floor(share * self.slots + 1e-9)
