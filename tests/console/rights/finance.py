"""Finance's pages, and what owners see of their own bills and usage."""

import uuid
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal

from django.utils import timezone

from metering.core.prices import ModelPrices, PriceList
from metering.models import Bill, BillArchive, BillLine, DailyStatement, MonthClose, UsageRecord
from metering.services.prices import set_prices

from ..conftest import People  # noqa: TID252 - the tests' own people
from .kinds import (
    EVERYBODY,
    FINANCE,
    OPERATIONS,
    OWNERS,
    Right,
    api_list,
    api_of_alpha,
    api_write,
    page,
)

MONTH = date(2026, 1, 1)


def objects(people: People) -> dict[str, object]:
    """Usage, a statement and a bill of alpha; prices; a zip."""
    now = timezone.now()
    prices = PriceList(models={"": ModelPrices(request=Decimal(1))})
    set_prices(prices)
    set_prices(prices, starts_at=now + timedelta(days=1))
    row = UsageRecord.objects.create(
        id=uuid.uuid4(),
        business="alpha",
        operation="chat",
        status="ok",
        received_at=now,
        finished_at=now,
    )
    statement = DailyStatement.objects.create(business="alpha", day=MONTH, settled_at=now)
    close = MonthClose.objects.create(month=MONTH, starts_at=now, ends_at=now, closed_at=now)
    bill = Bill.objects.create(
        number=1,
        business="alpha",
        month=MONTH,
        starts_at=now,
        ends_at=now,
        timezone="UTC",
        currency="CNY",
        total=Decimal(100),
        exact=Decimal(100),
        lines_count=1,
        issued_at=now,
    )
    BillLine.objects.create(
        bill=bill,
        position=1,
        kind="usage",
        usage_month=MONTH,
        model="m",
        lane="P1",
        rounded=Decimal(100),
        charge=Decimal(100),
        amount=Decimal(100),
    )
    close.billed_at = now
    close.save()
    archive = BillArchive.objects.create(month=MONTH, state="ready", content=b"PK")
    return {
        "usage": str(row.pk),
        "statement": statement.pk,
        "archive": archive.pk,
        "closed": "2026-01",
    }


def of_alpha(name: str, path: str) -> Right:
    """A page of alpha's bill: for its people and for finance."""
    return page(name, path, OWNERS | FINANCE).but(outsider=404)


NOT_OPERATIONS = EVERYBODY - OPERATIONS
CLOSE = {"month": "2026-01"}
CREDIT = {"bill": "B-000001", "amount": "1", "reason": "because"}


def posts(name: str, path: str, data: Mapping[str, object], granted: int) -> Right:
    """A change that finance alone makes."""
    right = page(name, path, FINANCE).but(finance=granted)
    return Right(name, path, right.status, method="post", data=data)


RIGHTS = [
    page("finance-usage", "/finance/usage/", FINANCE),
    page("finance-bills", "/finance/bills/", FINANCE),
    posts("finance-close", "/finance/bills/close/", CLOSE, 302),
    page("finance-closing", "/finance/bills/close/{closed}/", FINANCE),
    posts("finance-archive-make", "/finance/bills/archive/", CLOSE, 302),
    page("finance-archive", "/finance/bills/archive/{archive}/", FINANCE),
    page("finance-prices", "/finance/prices/", FINANCE),
    posts("finance-prices-withdraw", "/finance/prices/2/withdraw/", {"sure": 1}, 302),
    page("finance-credit-notes", "/finance/credit-notes/", FINANCE),
    posts("finance-credit-notes", "/finance/credit-notes/", CREDIT, 302),
    page("finance-reconciliation", "/finance/reconciliation/", FINANCE),
    posts("finance-reconciliation", "/finance/reconciliation/", CLOSE, 302),
    page("bills", "/bills/", OWNERS, hidden="B-000001"),
    of_alpha("bill", "/bills/1/"),
    of_alpha("bill-download", "/bills/1/csv/"),
    api_list("api-businesses-list", "/api/v1/businesses/", EVERYBODY, hidden='"alpha"'),
    api_of_alpha("api-businesses-detail", "/api/v1/businesses/alpha/", EVERYBODY),
    api_list("api-usage-list", "/api/v1/usage/", EVERYBODY, hidden="{usage}"),
    api_of_alpha("api-usage-detail", "/api/v1/usage/{usage}/", EVERYBODY),
    api_list("api-statements-list", "/api/v1/statements/", NOT_OPERATIONS, hidden="alpha"),
    api_of_alpha("api-statements-detail", "/api/v1/statements/{statement}/", NOT_OPERATIONS),
    api_list("api-bills-list", "/api/v1/bills/", NOT_OPERATIONS, hidden="alpha"),
    api_of_alpha("api-bills-detail", "/api/v1/bills/1/", NOT_OPERATIONS),
    api_write(
        "api-bills-credit",
        "/api/v1/bills/1/credit/",
        {"amount": "1", "reason": "because"},
        roles=FINANCE,
        granted=201,
    ),
    api_list("api-prices-list", "/api/v1/prices/", EVERYBODY),
    api_list("api-prices-detail", "/api/v1/prices/1/", EVERYBODY),
    api_write(
        "api-prices-list",
        "/api/v1/prices/",
        {"prices": [{"model": "", "prompt": "2.5"}], "starts_at": "2099-01-01T00:00:00Z"},
        roles=FINANCE,
        granted=201,
    ),
]
