"""A monthly budget: what is spent, what is reserved, what is left. Never below nothing.

What a request costs belongs to the month in which it was accepted.
"""

from collections.abc import Callable
from decimal import Decimal

from metering.core.bucket import NEVER

# The first ns of the month that a moment (ns) lies in, and of the month after it.
Month = Callable[[int], tuple[int, int]]
NOTHING = Decimal(0)


class Purse:
    """One party's money for a month. Amounts are in the billing currency, times in ns.

    ``spent`` counts what has been settled since ``base`` was read from the books. Spending
    exactly the limit is allowed.
    """

    __slots__ = ("_month", "base", "begins", "ends", "held", "limit", "spent")

    def __init__(self, limit: Decimal, month: Month, now: int) -> None:
        self.limit = limit
        self._month = month
        self.begins, self.ends = month(now)
        self.base = self.spent = self.held = NOTHING

    def left(self, now: int) -> Decimal:
        """What may still be reserved; below zero where the limit was lowered, or an answer
        came out dearer than what was reserved for it."""
        self._turn(now)
        return self.limit - self.base - self.spent - self.held

    def wait_for(self, cost: Decimal, now: int) -> int:
        """0 where there is so much; else the ns until the month is over, NEVER where the limit
        itself is less."""
        left = self.left(now)
        if cost <= left and self.limit:
            return 0
        return self.ends - now if 0 < self.limit >= cost else NEVER

    def take(self, cost: Decimal, now: int) -> int:
        """Reserve ``cost``, which is there; returns the month (its first ns) for ``settle``."""
        self._turn(now)
        self.held += cost
        return self.begins

    def settle(self, month: int, reserved: Decimal, cost: Decimal) -> None:
        """What was reserved has come to ``cost``. A month that is over is no matter any more."""
        if month == self.begins:
            self.held -= reserved
            self.spent += cost

    def rebase(self, month: int, total: Decimal, known: Decimal, *, whole: bool) -> None:
        """The books say ``total`` for the month, at a moment when ``spent`` was ``known``.

        Where ``whole`` all of that is in them, so they are right, whichever way they differ.
        Else the newest may be missing there: they can only show that more was spent.
        """
        if month == self.begins:
            base = total - known
            self.base = base if whole else max(self.base, base)

    def _turn(self, now: int) -> None:
        if now >= self.ends:
            self.begins, self.ends = self._month(now)
            self.base = self.spent = self.held = NOTHING
