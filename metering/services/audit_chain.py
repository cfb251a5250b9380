"""Sealing the audit in batches, each over the hash of the one before, and checking the chain."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from itertools import groupby

from django.db import connection, transaction
from django.utils import timezone

from metering.core.chain import FIRST, Sealed, digest_of, hash_of
from metering.models import AuditBatch, AuditEntry

log = logging.getLogger(__name__)

# One number for this application's advisory lock; any would do.
CHAIN_LOCK = 0x666C_6368_6169
MOST_ENTRIES = 5_000
# Counts of escalations are added to for a minute and a little.
SETTLED = timedelta(minutes=3)
CHUNK = 2_000


def seal() -> int:
    """Seal what is not sealed yet, as the next batch; returns the number of its entries.

    One writer at a time: while another is at it, this does nothing. Entries of transactions
    that commit later come into a later batch. Raises django.db.Error.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [CHAIN_LOCK])
        row = cursor.fetchone()
        if row is None or not row[0]:
            return 0
        entries = list(_open_entries())
        if not entries:
            return 0
        last = AuditBatch.objects.first()
        number = 1 if last is None else last.number + 1
        previous = FIRST if last is None else bytes(last.hash)
        digests = [digest_of(_sealed(entry)) for entry in entries]
        found = hash_of(previous, number, digests)
        AuditBatch.objects.create(
            number=number, entries=len(entries), previous=previous, hash=found
        )
        cursor.execute(
            "UPDATE metering_auditentry AS entry SET batch_id = %s, digest = sealed.digest"
            " FROM unnest(%s::bigint[], %s::bytea[]) AS sealed (id, digest)"
            " WHERE entry.id = sealed.id",
            [number, [entry.pk for entry in entries], digests],
        )
    # Outside the database too: whoever can rewrite all of it can't rewrite the log. In parts,
    # for what looks like the digest of a key is cut out of logs.
    log.info("audit batch %d sealed, %d entries, hash %s", number, len(entries), found.hex("-", 8))
    return len(entries)


def _open_entries() -> Iterator[AuditEntry]:
    """What can be sealed now, in order of the ids."""
    settled = timezone.now() - SETTLED
    rows = AuditEntry.objects.filter(batch=None).order_by("pk")[:MOST_ENTRIES]
    return (row for row in rows if row.action != "priority.escalation" or row.at < settled)


def _sealed(entry: AuditEntry) -> Sealed:
    return Sealed(
        id=entry.pk,
        at=entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        actor_name=entry.actor_name,
        source=entry.source,
        action=entry.action,
        business=entry.business,
        target=entry.target,
        data=entry.data,
    )


@dataclass(slots=True)
class Report:
    """What a check found: ``problems`` is empty where the chain holds. ``head`` is the hash of
    the last batch, in hex; ``waiting`` entries are not sealed yet."""

    batches: int = 0
    entries: int = 0
    waiting: int = 0
    head: str = ""
    problems: list[str] = field(default_factory=list)


def verify(head: str = "") -> Report:
    """Compute the whole chain again. ``head`` is a hash known from elsewhere, as the log has it,
    that must be one of its batches': otherwise its end was cut off or all of it rewritten.
    """
    report = Report(waiting=AuditEntry.objects.filter(batch=None).count())
    groups = _by_batch()
    held = next(groups, None)
    previous, heads = FIRST, set()
    for batch in AuditBatch.objects.order_by("number").iterator(CHUNK):
        report.batches += 1
        if batch.number != report.batches:
            report.problems.append(f"batch {report.batches} is missing before {batch.number}")
            return report
        entries: list[AuditEntry] = []
        if held is not None and held[0] == batch.number:
            entries, held = held[1], next(groups, None)
        report.entries += len(entries)
        _check(batch, entries, previous, report)
        previous = bytes(batch.hash)
        report.head = previous.hex()
        heads.add(report.head)
    if head and head.replace("-", "").lower() not in heads:
        report.problems.append(f"no batch has the hash {head}: the chain's end is missing")
    return report


def _by_batch() -> Iterator[tuple[int, list[AuditEntry]]]:
    rows = AuditEntry.objects.exclude(batch=None).order_by("batch_id", "pk").iterator(CHUNK)
    for number, entries in groupby(rows, key=lambda entry: entry.batch_id):
        assert number is not None, "those without a batch were left out"
        yield number, list(entries)


def _check(batch: AuditBatch, entries: list[AuditEntry], previous: bytes, report: Report) -> None:
    name, before = f"batch {batch.number}", len(report.problems)
    if bytes(batch.previous) != previous:
        report.problems.append(f"{name} does not follow the one before it")
    if len(entries) != batch.entries:
        report.problems.append(f"{name} had {batch.entries} entries and has {len(entries)}")
    digests = [digest_of(_sealed(entry)) for entry in entries]
    for entry, digest in zip(entries, digests, strict=True):
        if digest != bytes(entry.digest or b""):
            report.problems.append(f"{name}: entry {entry.pk} ({entry.action}) was changed")
    whole = hash_of(previous, batch.number, digests) == bytes(batch.hash)
    if not whole and len(report.problems) == before:
        report.problems.append(f"{name} does not have the hash of its entries")
