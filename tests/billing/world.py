"""Usage rows, prices and moments that the billing tests share."""

import secrets
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db import connection

from metering.core.prices import ModelPrices, PriceList
from metering.models import UsageRecord
from metering.services.prices import set_prices

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
CHAT = ModelPrices(
    prompt=Decimal("2.5"),
    cached=Decimal("0.5"),
    completion=Decimal(10),
    gpu_second=Decimal("0.0125"),
    request=Decimal("0.0001"),
    multipliers=(Decimal("1.5"), Decimal(1), Decimal("0.5")),
)
OTHERS = ModelPrices(prompt=Decimal(1), completion=Decimal(4))
PRICES = PriceList(
    models={"chat": CHAT, "": OTHERS},
    preemption_credit=Decimal("0.002"),
    preemption_surcharge=Decimal("0.003"),
)


def price_all(prices: PriceList = PRICES, starts_at: datetime = LONG_AGO) -> None:
    """Prices from long ago on."""
    set_prices(prices, starts_at=starts_at, source="test")


def row_id(at: datetime) -> uuid.UUID:
    """A UUIDv7 of that moment."""
    milliseconds = int(at.timestamp() * 1000) << 80
    return uuid.UUID(int=milliseconds | 7 << 76 | 2 << 62 | secrets.randbits(62))


def plain_row(at: datetime, **fields: Any) -> UsageRecord:
    """A finished request, accepted at ``at``, not saved."""
    plain: dict[str, Any] = {
        "id": row_id(at),
        "business": "risk-audit",
        "operation": "chat",
        "requested_model": "chat",
        "served_model": "org/Model-7B",
        "lane": "P1",
        "status": "ok",
        "http_status": 200,
        "received_at": at,
        "dispatched_at": at,
        "first_byte_at": at,
        "finished_at": at,
        "prompt_tokens": 1000,
        "cached_tokens": 200,
        "completion_tokens": 100,
        "gpu_seconds": 0.5,
    }
    return UsageRecord(**{**plain, **fields})


def used(at: datetime, **fields: Any) -> UsageRecord:
    """A finished request on record, as the database took it."""
    row = plain_row(at, **fields)
    row.save(force_insert=True)
    row.refresh_from_db()
    return row


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def table(name: str, where: str = "true") -> list[str]:
    """Everything in a table, to the last digit."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT t::text FROM {name} AS t WHERE {where} ORDER BY 1")
        return [row for (row,) in cursor.fetchall()]
