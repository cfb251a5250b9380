"""A difference that a task finds shows in the metrics of the process that serves."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections

from console.config.books import BooksNews
from metering.changes import ChangeListener
from metering.models import UsageRecord
from metering.selectors.reconciliation import open_differences
from metering.services.month_close import close_month
from metering.services.reconciliation import reconcile
from scheduler.metrics import Metrics

from .world import price_all, used

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


def books_that_disagree() -> None:
    price_all()
    used(NOON)
    row = used(NOON + timedelta(days=1))
    close_month(NOON.date(), now=NOON + timedelta(days=60))
    UsageRecord.objects.filter(pk=row.pk).delete()
    assert connection.connection is not None
    reconcile(NOON.date())


def differences() -> int:
    try:
        return open_differences()
    finally:
        connections.close_all()


@pytest.mark.django_db(transaction=True)
async def test_a_difference_shows_in_the_metrics() -> None:
    metrics, heard = Metrics(), []

    async def on_change(topic: str) -> None:
        heard.append(topic)

    news = BooksNews(ChangeListener(), differences)
    news.show = metrics.reconciliation_differences.set
    listening = asyncio.create_task(news.run(on_change))
    await sync_to_async(books_that_disagree)()
    deadline = time.monotonic() + 30
    while b"fairlane_reconciliation_differences 1.0" not in metrics.text():
        assert time.monotonic() < deadline, metrics.text()
        await asyncio.sleep(0.02)
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert "books" not in heard
    await sync_to_async(connections.close_all)()
