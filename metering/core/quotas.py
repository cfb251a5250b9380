"""Limits as people set them: checked field by field, and held to an envelope. None is
unlimited and 0 blocks, for every one of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isfinite

# What a limit may be given as; a sum of money also as text, as JSON keeps it.
Value = int | float | str | Decimal | None
Changes = Mapping[str, Value]

MOST_INT = 2**31 - 1
MOST_BIG = 2**63 - 1
MOST_RATE = 1e9
MOST_MONEY = Decimal(10) ** 14
MONEY_STEP = Decimal("0.000001")

# Whole numbers, and the most that each may be.
WHOLE = {"burst": MOST_INT, "tokens_per_min": MOST_BIG, "running": MOST_INT, "queued": MOST_INT}
# Other numbers.
NUMBERS = {"requests_per_s": MOST_RATE, "gpu_share": 1.0}
FIELDS = (
    "requests_per_s",
    "burst",
    "tokens_per_min",
    "running",
    "queued",
    "gpu_share",
    "monthly_budget",
)


class LimitsError(ValueError):
    """Limits that cannot be set. ``problems``: what is wrong, by field."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__("; ".join(f"{name}: {text}" for name, text in self.problems.items()))


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits of one party. ``gpu_share`` is a ratio, ``monthly_budget`` money of the
    billing currency."""

    requests_per_s: float | None = None
    burst: int | None = None
    tokens_per_min: int | None = None
    running: int | None = None
    queued: int | None = None
    gpu_share: float | None = None
    monthly_budget: Decimal | None = None


def cleaned(changes: Changes) -> dict[str, int | float | Decimal | None]:
    """The same limits as numbers of the right kind. Raises LimitsError naming each field."""
    problems: dict[str, str] = {}
    found: dict[str, int | float | Decimal | None] = {}
    for name, value in changes.items():
        try:
            found[name] = None if value is None else _cleaned(name, value)
        except ValueError as error:
            problems[name] = str(error)
    if problems:
        raise LimitsError(problems)
    return found


def _cleaned(name: str, value: float | str | Decimal) -> int | float | Decimal:
    if name in WHOLE:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= WHOLE[name]:
            raise ValueError(f"must be a whole number from 0 to {WHOLE[name]}, or blank")
        return value
    if name in NUMBERS:
        if (
            isinstance(value, bool | str)
            or not isfinite(value)
            or not 0 <= float(value) <= NUMBERS[name]
        ):
            raise ValueError(f"must be a number from 0 to {NUMBERS[name]:g}, or blank")
        return float(value)
    if name != "monthly_budget":
        raise ValueError("there is no such limit")
    return _money(value)


def _money(value: float | str | Decimal) -> Decimal:
    try:
        amount = value if isinstance(value, Decimal) else Decimal(str(value))
        exact = amount.is_finite() and amount == amount.quantize(MONEY_STEP)
    except InvalidOperation:
        exact = False
        amount = Decimal(0)
    if isinstance(value, bool) or not exact or not 0 <= amount < MOST_MONEY:
        raise ValueError("must be an amount of at least 0 with at most 6 decimals, or blank")
    return amount


def beyond(
    changes: Mapping[str, int | float | Decimal | None], envelope: Limits | None
) -> dict[str, str]:
    """What of ``changes`` an owner may not set alone, by field; without an envelope nothing."""
    found = {}
    for name, value in changes.items():
        if envelope is None:
            found[name] = "is set by operations"
            continue
        most = getattr(envelope, name)
        if most is not None and (value is None or value > most):
            found[name] = f"may be {most} at most; ask operations for more"
    return found
