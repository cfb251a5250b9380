"""What a pool's slots are used for, and what the lane limits leave."""

from dataclasses import dataclass, field
from math import ceil, floor


@dataclass(slots=True)
class PoolUse:
    """Slots of the pool's ready replicas, and requests running there by lane."""

    slots: int = 0
    dedicated: bool = False
    running: list[int] = field(default_factory=lambda: [0, 0, 0])
    promoted: int = 0
    lent: int = 0

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
