"""A monthly budget: what is spent, what is reserved, what is left. Never below nothing.

What a request costs belongs to the month in which it was accepted. Money is counted in whole
parts of 10^-18, which every product of a price, a multiplier and what is measured is made of:
exact, and cheap enough for each request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from metering.core.bucket import NEVER
from metering.core.prices import EXACT, LANE_INDEX, PriceList
from metering.core.usage import Consumed

# The first ns of the month that a moment (ns) lies in, and of the month after it.
Month = Callable[[int], tuple[int, int]]
UNIT = Decimal(10) ** 18
NANO = 1_000_000_000


def parts(amount: Decimal) -> int:
    """An amount of the billing currency in parts of 10^-18; what is finer is dropped."""
    return int(EXACT.multiply(amount, UNIT))


def amount(parts: int) -> Decimal:
    """The same as an amount."""
    return EXACT.multiply(Decimal(parts), EXACT.divide(Decimal(1), UNIT))


@dataclass(frozen=True, slots=True)
class Rates:
    """What one model costs in one lane, in parts: per token, per ns of GPU time, per request."""

    prompt: int
    cached: int
    completion: int
    gpu_ns: int
    request: int

    def cost(self, used: Consumed) -> int:
        """What it comes to, but for preemptions: those are settled by the bill."""
        if not used.billed:
            return 0
        cached = min(used.cached, used.prompt)
        return (
            (used.prompt - cached) * self.prompt
            + cached * self.cached
            + used.completion * self.completion
            + round(used.gpu_seconds * NANO) * self.gpu_ns
            + self.request
        )


def rates_of(prices: PriceList, model: str, lane: str) -> Rates:
    """The prices of one model in one lane (P0, P1, P2)."""
    found = prices.of(model)
    times = found.multipliers[LANE_INDEX[lane]]

    def part(price: Decimal, per: int) -> int:
        return parts(EXACT.multiply(price, times)) // per

    return Rates(
        part(found.prompt, 10**6),
        part(found.prompt if found.cached is None else found.cached, 10**6),
        part(found.completion, 10**6),
        part(found.gpu_second, NANO),
        part(found.request, 1),
    )


@dataclass(slots=True)
class Account:
    """One month's money, in parts, and the month's first ns and that of the next one. ``spent``
    counts what has been settled since ``base`` was read from the books, ``held`` is reserved."""

    begins: int
    ends: int
    base: int = 0
    spent: int = 0
    held: int = 0


class Purse:
    """One party's money for a month, in parts. Times are dates (ns): where the wall clock crosses
    the month's edge and comes back, what was spent there is still known.

    Spending exactly the limit is allowed.
    """

    __slots__ = ("_month", "account", "limit", "other")

    def __init__(self, limit: int, month: Month, wall: int) -> None:
        self.limit = limit
        self._month = month
        self.account = Account(*month(wall))
        self.other: Account | None = None

    @property
    def begins(self) -> int:
        """The present month's first ns."""
        return self.account.begins

    @property
    def spent(self) -> int:
        """What was settled in it since the books were read."""
        return self.account.spent

    @property
    def held(self) -> int:
        """What is reserved in it."""
        return self.account.held

    def left(self, wall: int) -> int:
        """What may still be reserved; below zero where the limit was lowered, or an answer
        came out dearer than what was reserved for it."""
        account = self.account
        if not account.begins <= wall < account.ends:
            account = self._turn(wall)
        return self.limit - account.base - account.spent - account.held

    def wait_for(self, cost: int, wall: int) -> int:
        """0 where there is so much; else the ns until the month is over, NEVER where the limit
        itself is less."""
        if cost <= self.left(wall) and self.limit:
            return 0
        return self.account.ends - wall if 0 < self.limit >= cost else NEVER

    def take(self, cost: int) -> int:
        """Reserve ``cost``, which is there; returns the month (its first ns) for ``settle``."""
        self.account.held += cost
        return self.account.begins

    def settle(self, month: int, reserved: int, cost: int) -> None:
        """What was reserved has come to ``cost``. A month that is long over is no matter any
        more."""
        for account in (self.account, self.other):
            if account is not None and account.begins == month:
                account.held -= reserved
                account.spent += cost

    def rebase(self, month: int, total: int, known: int, *, whole: bool) -> None:
        """The books say ``total`` for the month, at a moment when ``spent`` was ``known``.

        Where ``whole`` all of that is in them, so they are right, whichever way they differ.
        Else the newest may be missing there: they can only show that more was spent.
        """
        account = self.account
        if month == account.begins:
            base = total - known
            account.base = base if whole else max(account.base, base)

    def _turn(self, wall: int) -> Account:
        begins, ends = self._month(wall)
        found = self.other
        if found is None or found.begins != begins:
            found = Account(begins, ends)
        self.other, self.account = self.account, found
        return found
