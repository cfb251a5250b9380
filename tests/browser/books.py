"""What makes a month with usage, prices and limits beside a fresh demo."""

BOOKS = """
from datetime import timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo
import uuid
from django.conf import settings
from django.utils import timezone
from metering.core.periods import first_of, midnight, month_of
from metering.core.quotas import Limits
from metering.models import Business, ModelPrice, PriceBook, UsageRecord
from metering.services.quotas import set_envelope
business = Business.objects.get(name="risk-audit")
envelope = Limits(requests_per_s=50, running=100, monthly_budget=Decimal(5000))
set_envelope(business, envelope, actor=None)
zone = ZoneInfo(settings.BILLING_TZ)
month = first_of(month_of(timezone.now(), zone) - timedelta(days=1))
start = midnight(month, zone)
if not PriceBook.objects.filter(starts_at=start).exists():
    # As if the installation were older than it is: the services let nobody price the past.
    version = 0 if PriceBook.objects.exists() else 1
    book = PriceBook.objects.create(version=version, starts_at=start, prices_count=1)
    ModelPrice.objects.create(book=book, prompt=2, completion=8, request=Decimal("0.01"))
if not UsageRecord.objects.filter(received_at__lt=start + timedelta(days=28)).exists():
    UsageRecord.objects.bulk_create(
        UsageRecord(
            id=uuid.uuid4(), business=name, operation="chat.completions", status="ok",
            requested_model="chat", served_model="chat", lane=("P0", "P1", "P2")[n % 3], level=1,
            received_at=at, dispatched_at=at, finished_at=at + timedelta(seconds=4),
            prompt_tokens=900 * (n % 7 + 1), completion_tokens=350 * (n % 5 + 1), gpu_seconds=1.5,
        )
        for name in ("risk-audit", "live-service")
        for n, at in enumerate(start + timedelta(hours=7 * each) for each in range(90))
    )
print(f"{month:%Y-%m}")
"""

CLOSE = """
from datetime import date
from metering.services.month_close import close_month
close_month(date.fromisoformat("{month}-01"))
"""
