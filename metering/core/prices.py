"""What a request costs. Everything is Decimal and exact; nothing here rounds.

The settlement computes the same in SQL, over sums: the price is linear in each figure, so a sum
costs what its parts cost. Only the credit for preemptions is bounded, by what it is taken off.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal

LANE_INDEX = {"P0": 0, "P1": 1, "P2": 2}
MILLIONTH = Decimal("0.000001")
ONE = Decimal(1)
ZERO = Decimal(0)
# The default context of 28 digits would round sums of money with 18 places.
EXACT = Context(prec=100)


@dataclass(frozen=True, slots=True)
class ModelPrices:
    """One model's prices: tokens per million, GPU time per second, and per request.

    ``cached`` None: cached prompt tokens cost what others do. ``multipliers`` are of P0, P1, P2.
    """

    prompt: Decimal = ZERO
    cached: Decimal | None = None
    completion: Decimal = ZERO
    gpu_second: Decimal = ZERO
    request: Decimal = ZERO
    multipliers: tuple[Decimal, Decimal, Decimal] = (ONE, ONE, ONE)


FREE = ModelPrices()


@dataclass(frozen=True, slots=True)
class PriceList:
    """One version of all prices. ``models`` by public name; the empty name is for all others."""

    version: int | None = None
    models: Mapping[str, ModelPrices] = field(default_factory=dict)
    preemption_credit: Decimal = ZERO
    preemption_surcharge: Decimal = ZERO

    def of(self, model: str) -> ModelPrices:
        """The prices of ``model``; free where neither it nor the empty name has any."""
        return self.models.get(model) or self.models.get("") or FREE


NO_PRICES = PriceList()


@dataclass(frozen=True, slots=True)
class Used:
    """What one request used, or the sums of several. ``cached_tokens`` are part of
    ``prompt_tokens``; more than those are clamped. ``preempted`` counts pauses suffered,
    ``displaced`` requests that made others pause."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    gpu_seconds: Decimal = ZERO
    requests: int = 1
    preempted: int = 0
    displaced: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What it comes to, unrounded. ``credit`` is never more than the other two together."""

    charge: Decimal
    surcharge: Decimal
    credit: Decimal

    @property
    def amount(self) -> Decimal:
        """To be paid."""
        return EXACT.subtract(EXACT.add(self.charge, self.surcharge), self.credit)


def is_billed(status: str, dispatched: bool, completion_tokens: int) -> bool:
    """Whether a request is charged at all: it ran, and either succeeded or had some output."""
    return dispatched and (status == "ok" or completion_tokens > 0)


def cost(prices: PriceList, model: str, lane: str, used: Used) -> Cost:
    """What ``used`` of ``model`` costs in ``lane`` (P0, P1, P2; any other: multiplier 1)."""
    of = prices.of(model)
    cached = min(used.cached_tokens, used.prompt_tokens)
    at = EXACT.multiply
    tokens = EXACT.add(
        EXACT.add(
            at(Decimal(used.prompt_tokens - cached), of.prompt),
            at(Decimal(cached), of.prompt if of.cached is None else of.cached),
        ),
        at(Decimal(used.completion_tokens), of.completion),
    )
    rest = EXACT.add(at(used.gpu_seconds, of.gpu_second), at(Decimal(used.requests), of.request))
    multiplier = of.multipliers[LANE_INDEX[lane]] if lane in LANE_INDEX else ONE
    charge = at(EXACT.add(at(tokens, MILLIONTH), rest), multiplier)
    surcharge = at(Decimal(used.displaced), prices.preemption_surcharge)
    credit = at(Decimal(used.preempted), prices.preemption_credit)
    return Cost(charge, surcharge, min(credit, EXACT.add(charge, surcharge)))
