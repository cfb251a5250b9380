"""What a request costs by the prices of now: to reserve a budget by, not to bill by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

MILLION = Decimal(1_000_000)
ONE = Decimal(1)


@dataclass(frozen=True, slots=True)
class ModelRates:
    """One model's prices: tokens per million (``cached`` None: as others of the prompt), a
    GPU-second, a request; and what each lane (P0, P1, P2) multiplies them by."""

    prompt: Decimal = Decimal(0)
    cached: Decimal | None = None
    completion: Decimal = Decimal(0)
    gpu_second: Decimal = Decimal(0)
    request: Decimal = Decimal(0)
    lanes: tuple[Decimal, Decimal, Decimal] = (ONE, ONE, ONE)


@dataclass(frozen=True, slots=True)
class Used:
    """What a request used, or is expected to use. ``counted`` False: as if it had never been
    made."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    gpu_seconds: float = 0.0
    counted: bool = True

    @property
    def tokens(self) -> int:
        """Of prompt and answer together."""
        return self.prompt + self.completion


UNUSED = Used()


@dataclass(frozen=True, slots=True)
class Tariff:
    """Prices by model; those under the empty name are for all others."""

    models: Mapping[str, ModelRates] = field(default_factory=dict)

    def cost(self, model: str, lane: int, used: Used, requests: int = 1) -> Decimal:
        """What so many requests to a model come to that used so much together. A model without
        a price costs nothing."""
        rates = self.models.get(model) or self.models.get("")
        if rates is None or not used.counted:
            return Decimal(0)
        cached = rates.prompt if rates.cached is None else rates.cached
        tokens = (
            (used.prompt - used.cached) * rates.prompt
            + used.cached * cached
            + used.completion * rates.completion
        )
        seconds = Decimal(repr(used.gpu_seconds)) * rates.gpu_second
        return (tokens / MILLION + seconds + requests * rates.request) * rates.lanes[lane]


NO_PRICES = Tariff()
