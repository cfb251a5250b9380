"""Months: closed once, bills that add up and never change, late rows on the next one."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth import get_user_model
from django.db import Error, connection, connections, transaction
from django.db.models import ProtectedError, Sum

from metering.errors import BillingRequestError
from metering.models import (
    Adjustment,
    AuditEntry,
    Bill,
    BillLine,
    CreditNote,
    DailyStatement,
    MonthClose,
    PriceBook,
    UsageRecord,
)
from metering.services.bills import credit
from metering.services.month_close import (
    Closed,
    begin_close,
    close_due,
    close_month,
    finish_closes,
)
from metering.services.settlement import settle_due

from .world import PRICES, price_all, table, used

SHANGHAI = ZoneInfo("Asia/Shanghai")
MARCH, APRIL, MAY = date(2026, 3, 1), date(2026, 4, 1), date(2026, 5, 1)
NOON = datetime(2026, 3, 10, 12, tzinfo=SHANGHAI)
APRIL_2 = datetime(2026, 4, 2, tzinfo=SHANGHAI)
MAY_2 = datetime(2026, 5, 2, tzinfo=SHANGHAI)


@pytest.mark.django_db
def test_a_month_becomes_bills() -> None:
    price_all()
    for day in range(20):
        for business in ("risk-audit", "doc-qa"):
            at = NOON + timedelta(days=day)
            used(at, business=business, lane=f"P{day % 3}", preempted=day % 2)
            used(at, business=business, status="refused", dispatched_at=None)
    assert close_month(MARCH, now=APRIL_2) == [Closed(MARCH, 2)]
    assert sorted(Bill.objects.values_list("number", "business")) == [
        (1, "doc-qa"),
        (2, "risk-audit"),
    ]
    bill = Bill.objects.get(business="risk-audit")
    assert (bill.label, bill.currency, bill.first_price) == ("B-000002", "CNY", 1)
    lines = list(bill.lines.all())
    assert [(line.lane, line.model) for line in lines] == [
        ("P0", "chat"),
        *(("P1", ""), ("P1", "chat"), ("P2", "chat")),
    ]
    assert sum(line.rounded for line in lines) == bill.total
    assert sum(line.requests for line in lines) == 40
    of = DailyStatement.objects.filter(business="risk-audit")
    assert of.aggregate(all=Sum("amount"))["all"] == bill.exact
    before = table("metering_bill"), table("metering_billline")
    assert close_month(MARCH, now=APRIL_2) == []
    assert (table("metering_bill"), table("metering_billline")) == before


@pytest.mark.django_db
def test_a_month_that_is_not_over_is_refused() -> None:
    with pytest.raises(BillingRequestError, match="not over"):
        close_month(MARCH, now=datetime(2026, 3, 31, 23, 59, 59, tzinfo=SHANGHAI))
    assert close_month(MARCH, now=datetime(2026, 4, 1, tzinfo=SHANGHAI)) == [Closed(MARCH, 0)]


@pytest.mark.django_db
def test_a_grace_period_passes_first() -> None:
    assert close_due(now=MAY_2) == []
    used(NOON)
    end = datetime(2026, 4, 1, tzinfo=SHANGHAI)
    assert close_due(now=end + timedelta(hours=5, minutes=59)) == []
    # Two hours late, and still on its own bill.
    used(end - timedelta(seconds=1))
    assert close_due(now=end + timedelta(hours=6)) == [Closed(MARCH, 1)]
    assert BillLine.objects.get().requests == 2
    # And a beat that was away for months makes up for all of them.
    used(end + timedelta(days=40))
    later = datetime(2026, 7, 3, tzinfo=SHANGHAI)
    assert [closed.month.month for closed in close_due(now=later)] == [4, 5, 6]
    assert close_due(now=later) == []


@pytest.mark.django_db
def test_rows_that_come_after_the_bill_go_on_the_next() -> None:
    """E11."""
    price_all()
    last = datetime(2026, 3, 31, 23, 59, 50, tzinfo=SHANGHAI)
    used(last, finished_at=last + timedelta(seconds=30))
    close_month(MARCH, now=APRIL_2)
    march = Bill.objects.get()
    before = table("metering_dailystatement")
    late = [used(last, business=name) for name in ("risk-audit", "risk-audit", "quiet")]
    assert [row.billed_in for row in late] == [APRIL] * 3
    used(NOON + timedelta(days=31))
    settle_due(now=APRIL_2)
    assert table("metering_dailystatement") == before
    assert Adjustment.objects.get(business="risk-audit").requests == 2
    close_month(APRIL, now=MAY_2)
    april = Bill.objects.get(business="risk-audit", month=APRIL)
    assert [(line.kind, line.usage_month, line.requests) for line in april.lines.all()] == [
        ("usage", APRIL, 1),
        ("adjustment", MARCH, 2),
    ]
    # A business that did nothing else in April gets its bill for them all the same.
    assert Bill.objects.get(business="quiet").lines.get().kind == "adjustment"
    march.refresh_from_db()
    assert march.lines.get().requests == 1
    assert sum(BillLine.objects.values_list("requests", flat=True)) == UsageRecord.objects.count()
    # Late for both months: it goes on the first that is open.
    assert used(last).billed_in == MAY


@pytest.mark.django_db
def test_a_month_closed_by_hand_gets_its_bills_in_the_background() -> None:
    """Rows that come in between are late already; and it names who closed it."""
    price_all()
    used(NOON)
    finance = get_user_model().objects.create_user("finance")
    assert begin_close(MARCH, actor=finance, now=APRIL_2) == 1
    assert begin_close(MARCH, actor=finance, now=APRIL_2) == 0
    assert not Bill.objects.exists()
    used(NOON)
    assert finish_closes() == [Closed(MARCH, 1)]
    assert finish_closes() == []
    assert BillLine.objects.get().requests == 1
    assert close_month(APRIL, now=MAY_2) == [Closed(APRIL, 1)]
    assert sum(BillLine.objects.values_list("requests", flat=True)) == 2
    (entry,) = AuditEntry.objects.filter(action="month.begin_close")
    assert (entry.actor_name, entry.target) == ("finance", "2026-03")
    with pytest.raises(BillingRequestError, match="not over yet"):
        begin_close(MAY, actor=finance, now=MAY_2)


@pytest.mark.django_db(transaction=True)
def test_a_row_written_while_the_month_closes_is_on_exactly_one_bill() -> None:
    """Writers and the close at once: whatever the order, nothing is lost or doubled."""
    price_all()
    moments = [NOON + timedelta(minutes=n) for n in range(200)]

    def write(part: list[datetime]) -> None:
        try:
            for at in part:
                used(at)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(5) as pool:
        writing = [pool.submit(write, moments[n::4]) for n in range(4)]
        closing = pool.submit(in_thread, lambda: close_month(MARCH, now=APRIL_2))
        closing.result()
        for done in writing:
            done.result()
    close_month(APRIL, now=MAY_2)
    assert sum(BillLine.objects.values_list("requests", flat=True)) == 200
    late = UsageRecord.objects.exclude(billed_in=None).count()
    on_april = BillLine.objects.filter(kind="adjustment").aggregate(all=Sum("requests", default=0))
    assert on_april["all"] == late


def in_thread(work: Callable[[], object]) -> object:
    try:
        return work()
    finally:
        connections.close_all()


@pytest.mark.django_db(transaction=True)
def test_numbers_have_no_gaps_whoever_closes() -> None:
    """H05: four workers settle and close the same months at once."""
    price_all()
    for n in range(12):
        for month in range(2):
            used(NOON + timedelta(days=31 * month), business=f"tenant-{n}")
    with ThreadPoolExecutor(4) as pool:
        works = [pool.submit(in_thread, lambda: close_due(now=MAY_2)) for _ in range(4)]
        for work in works:
            work.result()
    assert sorted(Bill.objects.values_list("number", flat=True)) == list(range(1, 25))
    assert Bill.objects.values("business", "month").distinct().count() == 24
    assert sum(BillLine.objects.values_list("requests", flat=True)) == 24
    assert MonthClose.objects.exclude(billed_at=None).count() == 2
    bill = Bill.objects.first()
    assert bill is not None
    # Two notes at once that together exceed the bill: one is given.
    assert bill.total == Decimal("0.01")

    def give() -> object:
        try:
            return credit(bill, Decimal("0.01"), "sorry", actor=None)
        except BillingRequestError as error:
            return error

    with ThreadPoolExecutor(4) as pool:
        notes = [work.result() for work in [pool.submit(in_thread, give) for _ in range(4)]]
    assert sum(isinstance(note, CreditNote) for note in notes) == 1
    assert CreditNote.objects.get().number == 1


def one_more(name: str, changes: str) -> str:
    """SQL that adds a copy of a row, with ``changes`` to it."""
    return (
        f"INSERT INTO {name} SELECT (jsonb_populate_record(held, '{{\"id\": 99999, {changes}}}')).*"
        f" FROM {name} AS held LIMIT 1"
    )


CHANGES = [
    "UPDATE metering_bill SET total = total + 1",
    "UPDATE metering_bill SET business = 'somebody-else'",
    "DELETE FROM metering_bill",
    one_more("metering_bill", '"number": 99, "business": "more", "lines_count": 0'),
    "UPDATE metering_billline SET rounded = 0",
    "DELETE FROM metering_billline",
    one_more("metering_billline", '"position": 9, "model": "more", "rounded": 0, "amount": 0'),
    "UPDATE metering_dailystatement SET requests = 0",
    "DELETE FROM metering_dailystatement",
    one_more("metering_dailystatement", '"model": "more"'),
    one_more("metering_adjustment", '"model": "more"'),
    "DELETE FROM metering_adjustment",
    "DELETE FROM metering_monthclose",
    "UPDATE metering_monthclose SET billed_at = NULL",
    "UPDATE metering_creditnote SET amount = 0.005",
    "DELETE FROM metering_creditnote",
    "UPDATE metering_modelprice SET prompt = 0",
    "DELETE FROM metering_modelprice",
    one_more("metering_modelprice", '"model": "more"'),
    "UPDATE metering_pricebook SET preemption_credit = 9",
    "DELETE FROM metering_pricebook",
    "TRUNCATE metering_creditnote",
    "TRUNCATE metering_bill CASCADE",
    "TRUNCATE metering_dailystatement",
]


@pytest.mark.django_db
def test_what_is_closed_cannot_be_changed_in_any_way() -> None:
    price_all()
    used(NOON)
    close_month(MARCH, now=APRIL_2)
    used(NOON)
    used(NOON + timedelta(days=31))
    close_month(APRIL, now=MAY_2)
    bill = Bill.objects.get(month=MARCH)
    note = credit(bill, Decimal("0.01"), "by mistake", actor=None)

    def attempt(change: str) -> int:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL fairlane.may_truncate = 'no'; SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(change)
            rows = int(cursor.rowcount)
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        return rows

    for change in CHANGES:
        with pytest.raises(Error, match=r"is never|is closed|its total|are complete|are not"):
            pytest.fail(f"{attempt(change)} rows: {change}")
    bill.total += 1
    book = PriceBook.objects.get()
    book.note = "other"
    for act in (bill.save, note.delete, book.save):
        with pytest.raises(Error), transaction.atomic():
            act()
    with pytest.raises(ProtectedError):
        bill.delete()


@pytest.mark.django_db
@pytest.mark.parametrize(("currency", "total"), [("JPY", "4"), ("KWD", "4.365"), ("CNY", "4.37")])
def test_totals_are_in_the_currency_s_smallest_unit(
    currency: str, total: str, settings: Any
) -> None:
    settings.BILLING_CURRENCY = currency
    price_all()
    for n in range(30):
        used(NOON, completion_tokens=36_127, gpu_seconds=0, requested_model="m", lane=f"P{n % 3}")
    close_month(MARCH, now=APRIL_2)
    bill = Bill.objects.get()
    assert bill.exact == Decimal("4.36524")
    assert sum(line.rounded for line in bill.lines.all()) == bill.total
    assert bill.total == Decimal(total)


@pytest.mark.django_db
def test_credit_notes_are_bounded_by_their_bill() -> None:
    price_all()
    used(NOON, completion_tokens=10_000)
    close_month(MARCH, now=APRIL_2)
    bill = Bill.objects.get()
    assert bill.total == Decimal("0.11")
    note = credit(bill, Decimal("0.04"), "slow that day", actor=None)
    assert note.label == "C-000001"
    for wrong in ("0", "-1", "0.001", "0.08", "NaN"):
        with pytest.raises(BillingRequestError):
            credit(bill, Decimal(wrong), "reason", actor=None)
    with pytest.raises(BillingRequestError, match="reason"):
        credit(bill, Decimal("0.01"), "  ", actor=None)
    assert credit(bill, Decimal("0.07"), "the rest", actor=None).number == 2
    assert PRICES.preemption_credit == PriceBook.objects.get().preemption_credit
