"""What a serving process does beside serving: entries of the audit are sealed by themselves."""

import asyncio

import pytest
from asgiref.sync import sync_to_async
from django import db

from console import upkeep
from console.upkeep import Upkeep
from metering.models import AuditEntry
from metering.services import audit
from metering.services.audit_chain import verify

pytestmark = pytest.mark.django_db(transaction=True)


def recorded() -> None:
    try:
        for number in range(3):
            audit.record("key.create", actor=None, source="test", target=str(number))
    finally:
        db.connections.close_all()


def waiting() -> int:
    try:
        return AuditEntry.objects.filter(batch=None).count()
    finally:
        db.connections.close_all()


def chained() -> tuple[int, list[str]]:
    try:
        report = verify()
        return report.entries, report.problems
    finally:
        db.connections.close_all()


async def test_entries_are_sealed_while_the_process_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "EVERY_S", 0.05)
    keeper = Upkeep()
    await sync_to_async(recorded)()
    keeper.start()
    for _ in range(600):
        if not await sync_to_async(waiting)():
            break
        await asyncio.sleep(0.05)
    await keeper.stop()
    assert await sync_to_async(chained)() == (3, [])
