"""Zips of all bills of a month, made in the background."""

import io
import zipfile
from datetime import date, timedelta

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from metering.core.periods import first_of
from metering.errors import BillingRequestError
from metering.exports import FORMATS, filename, render
from metering.models import Bill, BillArchive, MonthClose
from metering.selectors.bills import bill_document
from metering.services import audit
from metering.services.background import start
from metering.services.bills import places_of

TASK = "metering.make_archives"
# Progress is told after each bill; without a word for so long, whoever made it has died.
SILENCE = timedelta(minutes=5)
KEPT = timedelta(days=7)
State = BillArchive.State


def request_archive(
    month: date, *, actor: AbstractBaseUser | None, source: str = "console"
) -> BillArchive:
    """Ask for a zip of a month's bills; one that is being made already is returned instead.

    Raises BillingRequestError for a month whose bills are not issued.
    """
    month = first_of(month)
    if not MonthClose.objects.filter(month=month).exclude(billed_at=None).exists():
        raise BillingRequestError(f"the bills of {month:%Y-%m} are not issued yet")
    waiting = BillArchive.objects.filter(month=month, state__in=(State.WAITING, State.RUNNING))
    if (held := waiting.first()) is not None:
        return held
    with transaction.atomic():
        archive = BillArchive.objects.create(
            month=month,
            total=Bill.objects.filter(month=month).count(),
            created_by_id=None if actor is None else actor.pk,
        )
        audit.record("bills.archive", actor=actor, source=source, target=f"{month:%Y-%m}")
        transaction.on_commit(lambda: start(TASK))
    return archive


def make_archives() -> int:
    """Make every zip that waits, or whose maker has died; returns how many."""
    made = 0
    while (archive := _claim()) is not None:
        _make(archive)
        made += 1
    return made


def drop_old_archives() -> int:
    """Forget zips that are older than a week: they can be made again."""
    return BillArchive.objects.filter(created_at__lt=timezone.now() - KEPT).delete()[0]


def _claim() -> BillArchive | None:
    """One that nobody makes, now ours."""
    now = timezone.now()
    free = Q(state=State.WAITING) | Q(state=State.RUNNING, touched_at__lt=now - SILENCE)
    for archive in BillArchive.objects.filter(free).defer("content").order_by("pk"):
        ours = BillArchive.objects.filter(free, pk=archive.pk).update(
            state=State.RUNNING, done=0, touched_at=now
        )
        if ours:
            return archive
    return None


def _make(archive: BillArchive) -> None:
    ours = BillArchive.objects.filter(pk=archive.pk)
    bills = list(Bill.objects.filter(month=archive.month).order_by("number"))
    ours.update(total=len(bills))
    finished = False
    try:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as pack:
            for done, bill in enumerate(bills, 1):
                document = bill_document(bill, places_of(bill.currency))
                for suffix in FORMATS:
                    pack.writestr(filename(document, suffix), render(document, suffix))
                ours.update(done=done, touched_at=timezone.now())
        ours.update(state=State.READY, content=file.getvalue(), touched_at=timezone.now())
        finished = True
    finally:
        if not finished:
            ours.update(state=State.FAILED, error="a bill could not be made into a file, see log")
