"""The audit is only added to, its chain verifies, and whoever edits a row is found out."""

import logging
import threading
from datetime import timedelta
from io import StringIO

import pytest
from django import db
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from console.models import User
from metering.core.chain import digest_of
from metering.core.escalations import EscalationMinute
from metering.models import AuditBatch, AuditEntry
from metering.redaction import redact
from metering.services import audit
from metering.services.audit_chain import _sealed, seal, verify

pytestmark = pytest.mark.django_db


def entries(count: int, action: str = "key.create") -> list[AuditEntry]:
    return [
        audit.record(action, actor=None, source="test", target=f"t{n}", before=0.1, after={"n": n})
        for n in range(count)
    ]


def past_the_trigger(sql: str, *values: int | bytes) -> None:
    """As somebody with all rights on the database would."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(sql, list(values))
        cursor.execute("SET LOCAL session_replication_role = origin")


def three_batches() -> list[list[AuditEntry]]:
    made = []
    for _ in range(3):
        made.append(entries(4))
        assert seal() == 4
    return made


def test_a_chain_that_nobody_has_touched_holds() -> None:
    three_batches()
    entries(2)
    report = verify()
    assert report.problems == []
    assert (report.batches, report.entries, report.waiting) == (3, 12, 2)
    assert report.head == bytes(AuditBatch.objects.get(number=3).hash).hex()
    assert seal() == 2
    assert seal() == 0


EDITS = {
    "data": ("UPDATE metering_auditentry SET data = '{}' WHERE id = %s", "was changed"),
    "who": ("UPDATE metering_auditentry SET actor_name = 'x' WHERE id = %s", "was changed"),
    "when": (
        "UPDATE metering_auditentry SET at = at + interval '1 microsecond' WHERE id = %s",
        "was changed",
    ),
    "digest too": (
        "UPDATE metering_auditentry SET action = 'other', digest = sha256('x') WHERE id = %s",
        "was changed",
    ),
    "gone": ("DELETE FROM metering_auditentry WHERE id = %s", "had 4 entries and has 3"),
    "out of its batch": (
        "UPDATE metering_auditentry SET batch_id = NULL WHERE id = %s",
        "had 4 entries and has 3",
    ),
}


@pytest.mark.parametrize("how", EDITS)
def test_an_edited_row_is_found(how: str) -> None:
    sql, said = EDITS[how]
    target = three_batches()[1][2]
    past_the_trigger(sql, target.pk)
    problems = verify().problems
    assert any(said in problem and "batch 2" in problem for problem in problems), problems
    if said == "was changed":
        assert f"entry {target.pk} " in problems[0]


def test_an_edit_with_a_matching_digest_breaks_the_batch() -> None:
    target = three_batches()[0][1]
    target.target = "another"
    past_the_trigger(
        "UPDATE metering_auditentry SET target = 'another', digest = %s WHERE id = %s",
        digest_of(_sealed(target)),
        target.pk,
    )
    assert verify().problems == ["batch 1 does not have the hash of its entries"]


def test_a_batch_that_is_gone_or_forged_breaks_the_chain() -> None:
    three_batches()
    head = verify().head
    AuditBatch.objects.filter(number=2).update(hash=b"x" * 32)
    assert "batch 3 does not follow the one before it" in verify().problems
    past_the_trigger("DELETE FROM metering_auditentry WHERE batch_id = 3")
    AuditBatch.objects.filter(number=3).delete()
    assert any("end is missing" in problem for problem in verify(head).problems)


def test_the_log_has_what_the_chain_can_be_held_against(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "metering.services.audit_chain")
    three_batches()
    line = redact(caplog.messages[-1])
    assert "audit batch 3 sealed, 4 entries" in line
    assert verify(line.rpartition(" ")[2]).problems == []


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE metering_auditentry SET data = '{}'",
        "UPDATE metering_auditentry SET target = 'other'",
        "DELETE FROM metering_auditentry",
    ],
)
def test_the_database_refuses_to_change_an_entry(sql: str, sealed: bool) -> None:
    entries(1)
    if sealed:
        seal()
    with (
        pytest.raises(db.IntegrityError, match="only ever added to"),
        connection.cursor() as cursor,
    ):
        cursor.execute(sql)


def test_a_person_may_go_and_their_name_stays() -> None:
    person = User.objects.create(username="somebody")
    row = audit.record("key.create", actor=person, source="console")
    seal()
    person.delete()
    row.refresh_from_db()
    assert (row.actor, row.actor_name) == (None, "somebody")
    assert verify().problems == []


def test_escalations_are_counted_until_they_are_sealed_and_then_anew() -> None:
    now = timezone.now()
    old, new = (int((now - timedelta(minutes=m)).timestamp()) // 60 for m in (10, 0))

    def claims(minute: int, count: int) -> None:
        audit.record_escalations([EscalationMinute("b", minute, count, "P0", "P1", "clamp", "r")])

    claims(old, 2)
    past_the_trigger("UPDATE metering_auditentry SET at = at - interval '10 minutes'")
    claims(new, 1)
    assert seal() == 1
    claims(new, 4)
    claims(old, 3)
    counts = [row.data["count"] for row in AuditEntry.objects.order_by("pk")]
    assert counts == [2, 5, 3]
    assert verify().problems == []


@pytest.mark.django_db(transaction=True)
def test_writers_at_once_make_one_chain() -> None:
    entries(300)

    def work() -> None:
        try:
            seal()
        finally:
            db.connections.close_all()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = verify()
    assert (report.problems, report.entries, report.batches) == ([], 300, 1)


def test_the_command_says_so_and_fails_where_it_must(capsys: pytest.CaptureFixture[str]) -> None:
    made = three_batches()
    out = StringIO()
    call_command("audit", "verify", stdout=out)
    assert "3 batches, 12 entries, 0 not sealed yet" in out.getvalue()
    assert "the chain holds" in out.getvalue()
    past_the_trigger("UPDATE metering_auditentry SET source = 'x' WHERE id = %s", made[0][0].pk)
    errors = StringIO()
    with pytest.raises(SystemExit):
        call_command("audit", "verify", stdout=StringIO(), stderr=errors)
    assert f"batch 1: entry {made[0][0].pk} (key.create) was changed" in errors.getvalue()
    call_command("audit", "seal", stdout=out)
