"""Monthly budgets: never below nothing, whole at the month's end, in step with the books."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from metering.core.bucket import NEVER
from metering.core.prices import NO_PRICES, ModelPrices, PriceList, Used, cost
from metering.core.purse import Purse, amount, parts, rates_of
from metering.core.usage import Consumed
from scheduler.testing import MemoryBooks

SECOND = 1_000_000_000
MONTH = MemoryBooks().month


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * SECOND


NOW = ns("2026-05-20T12:00:00+00:00")
JUNE = ns("2026-06-01T00:00:00+00:00")


def test_exactly_the_limit_may_be_spent() -> None:
    purse = Purse(parts(Decimal("0.3")), MONTH, NOW)
    for _ in range(3):
        assert purse.wait_for(parts(Decimal("0.1")), NOW) == 0
        purse.take(parts(Decimal("0.1")))
    assert purse.left(NOW) == 0
    assert purse.wait_for(parts(Decimal("0.000001")), NOW) == JUNE - NOW
    # Nothing at all costs nothing.
    assert purse.wait_for(0, NOW) == 0


def test_a_month_later_all_of_it_is_there_again() -> None:
    purse = Purse(1, MONTH, NOW)
    month = purse.take(1)
    wait = purse.wait_for(1, NOW)
    assert purse.wait_for(1, NOW + wait - 1) == 1
    assert purse.wait_for(1, NOW + wait) == 0
    # What May's request came to is not June's matter.
    purse.settle(month, 1, 5)
    assert purse.left(NOW + wait) == 1


def test_more_than_the_limit_is_never_granted_and_zero_blocks() -> None:
    assert Purse(1, MONTH, NOW).wait_for(parts(Decimal("1.01")), NOW) == NEVER
    assert Purse(0, MONTH, NOW).wait_for(0, NOW) == NEVER


def test_the_books_are_right_where_they_are_whole_and_at_least_so_much_otherwise() -> None:
    purse = Purse(10, MONTH, NOW)
    month = purse.take(2)
    purse.settle(month, 2, 1)
    # An earlier process had spent 4, and ours is in the books as well.
    purse.rebase(month, 5, 1, whole=True)
    assert purse.left(NOW) == 5
    month = purse.take(3)
    purse.settle(month, 3, 3)
    # Our last 3 are not there yet.
    purse.rebase(month, 5, 4, whole=False)
    assert purse.left(NOW) == 2
    # A credit was given.
    purse.rebase(month, 7, 4, whole=True)
    assert purse.left(NOW) == 3
    purse.rebase(month - 1, 0, 0, whole=True)
    assert purse.left(NOW) == 3


def test_the_price_of_a_request_is_the_bill_s() -> None:
    """E10's figures: cached tokens at their own price, or once at the full one."""
    prices = PriceList(
        models={
            "chat": ModelPrices(
                prompt=Decimal(2),
                cached=Decimal("0.5"),
                completion=Decimal(8),
                gpu_second=Decimal("0.001"),
                request=Decimal("0.0001"),
                multipliers=(Decimal("1.125"), Decimal(1), Decimal("0.5")),
            ),
            "": ModelPrices(prompt=Decimal("0.000001")),
        }
    )
    for model in ("chat", "other"):
        for lane in ("P0", "P1", "P2"):
            for prompt, cached in ((20_212, 16_298), (3, 5)):
                used = Consumed(prompt, cached, 931, 1.5)
                billed = Used(prompt, cached, 931, Decimal("1.5"))
                found = rates_of(prices, model, lane).cost(used)
                assert amount(found) == cost(prices, model, lane, billed).amount
    exact = Decimal("0.007828") + Decimal("0.008149") + Decimal("0.007448") + Decimal("0.0016")
    used = Consumed(20_212, 16_298, 931, 1.5)
    assert amount(rates_of(prices, "chat", "P1").cost(used)) == exact
    assert rates_of(prices, "chat", "P1").cost(replace(used, billed=False)) == 0
    assert rates_of(NO_PRICES, "chat", "P1").cost(used) == 0


def test_a_wall_clock_that_crosses_the_month_s_edge_and_comes_back_gives_nothing_away() -> None:
    purse = Purse(10, MONTH, NOW)
    may = purse.take(6)
    purse.settle(may, 6, 6)
    held = purse.take(2)
    day = 86_400 * SECOND
    assert purse.left(JUNE + day) == 10
    june = purse.take(3)
    assert june == JUNE
    # Back in May: what was spent there is spent, and what has ended meanwhile as well.
    purse.settle(held, 2, 1)
    assert purse.left(JUNE - day) == 3
    purse.settle(june, 3, 4)
    assert purse.left(JUNE) == 6
    # Two months on it is nobody's matter any more.
    assert purse.left(ns("2026-07-02T00:00:00+00:00")) == 10
    purse.settle(may, 0, 5)
    assert purse.left(ns("2026-07-02T00:00:00+00:00")) == 10
