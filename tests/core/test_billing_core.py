"""Prices, rounding and periods, without a database."""

from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from zoneinfo import ZoneInfo

from hypothesis import example, given, settings
from hypothesis import strategies as st

from metering.core.periods import day_bounds, day_of, days_of, month_bounds, next_month
from metering.core.prices import ModelPrices, PriceList, Used, cost, is_billed
from metering.core.rounding import lines_of, rounded, total

CENT = Decimal("0.01")
# As exact as the settlement's sums are: 18 places.
amounts = st.lists(
    st.integers(-(10**24), 10**24).map(lambda units: Decimal(units).scaleb(-18)), max_size=60
)


@settings(max_examples=1000)
@given(amounts, st.sampled_from([0, 2, 3]))
@example([Decimal("0.005")] * 81, 2)
def test_lines_add_up_to_the_total(exact: list[Decimal], places: int) -> None:
    unit = Decimal(1).scaleb(-places)
    lines = lines_of(exact, places)
    assert total(lines) == rounded(total(exact), places)
    for amount, line in zip(exact, lines, strict=True):
        assert line % unit == 0
        assert abs(line - amount) < unit
        if amount % unit == 0:
            assert line == amount


def test_drift_goes_where_rounding_went_furthest() -> None:
    """E08: 81 lines below a cent, and one credit that is exact."""
    exact = [Decimal("0.0149") + n * Decimal("0.00001") for n in range(81)] + [Decimal("-100.00")]
    lines = lines_of(exact, 2)
    assert lines[-1] == Decimal("-100.00")
    assert total(lines) == total(exact).quantize(CENT, ROUND_HALF_UP) == Decimal("-98.76")
    # By itself each of the first ten is 0.01 and each other 0.02: too much by 28 cents, which
    # come off those that were rounded up furthest.
    assert lines[:-1] == [CENT] * 38 + [2 * CENT] * 43


def test_no_lines_are_nothing() -> None:
    assert lines_of([], 2) == []


@given(st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=20))
def test_a_sum_costs_what_its_parts_cost(parts: list[tuple[int, int, int]]) -> None:
    prices = PriceList(
        models={
            "": ModelPrices(
                Decimal("1.234567"),
                Decimal("0.000001"),
                Decimal("9.5"),
                multipliers=(Decimal("1.5"),) * 3,
            )
        }
    )
    each = [cost(prices, "m", "P0", Used(a, min(a, b), c)).amount for a, b, c in parts]
    whole = Used(
        sum(a for a, _, _ in parts), sum(min(a, b) for a, b, _ in parts), sum(c for *_, c in parts)
    )
    assert total(each) == cost(prices, "m", "P0", whole).amount


def test_a_credit_never_exceeds_what_it_is_taken_off() -> None:
    prices = PriceList(
        models={"": ModelPrices(request=Decimal("0.5"))},
        preemption_credit=Decimal("0.2"),
        preemption_surcharge=Decimal("0.1"),
    )
    assert cost(prices, "m", "P1", Used(preempted=2)).amount == Decimal("0.1")
    assert cost(prices, "m", "P1", Used(preempted=9)).amount == 0
    assert cost(prices, "m", "P1", Used(displaced=1)).amount == Decimal("0.6")


def test_what_is_billed() -> None:
    assert is_billed("ok", dispatched=True, completion_tokens=0)
    assert is_billed("client_disconnect", dispatched=True, completion_tokens=3)
    assert not is_billed("upstream_error", dispatched=True, completion_tokens=0)
    assert not is_billed("ok", dispatched=False, completion_tokens=0)


ZONES = ["UTC", "Asia/Shanghai", "Europe/Berlin", "America/Havana", "America/Sao_Paulo"]


@given(
    st.integers(946_684_800, 2_208_988_800).map(lambda s: datetime.fromtimestamp(s, UTC)),
    st.sampled_from([*ZONES, "Asia/Kathmandu", "America/Scoresbysund", "Pacific/Apia"]),
)
@example(datetime(2025, 11, 2, 4, 30, tzinfo=UTC), "America/Havana")
@example(datetime(2023, 10, 29, 0, 30, tzinfo=UTC), "America/Scoresbysund")
def test_every_moment_is_in_exactly_one_day(moment: datetime, name: str) -> None:
    zone = ZoneInfo(name)
    day = day_of(moment, zone)
    start, end = day_bounds(day, zone)
    assert start <= moment < end
    assert end == day_bounds(day + timedelta(days=1), zone)[0]


def test_months() -> None:
    assert next_month(date(2026, 12, 1)) == date(2027, 1, 1)
    assert len(days_of(date(2028, 2, 1))) == 29
    start, end = month_bounds(date(2026, 2, 1), ZoneInfo("Asia/Shanghai"))
    assert (start, end) == (
        datetime(2026, 1, 31, 16, tzinfo=UTC),
        datetime(2026, 2, 28, 16, tzinfo=UTC),
    )
