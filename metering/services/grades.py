"""Asking for a better grade, and deciding about it."""

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.utils import timezone

from metering.errors import GradeRequestError
from metering.models import Business, ChangeVersion, Grade, GradeRequest
from metering.services import audit
from metering.services.changes import announce

LONGEST_WORD = 500


def request_grade(
    business: Business,
    grade: str,
    *,
    reason: str = "",
    actor: AbstractBaseUser | None,
    source: str = "console",
) -> GradeRequest:
    """Ask operations for a better grade; one request at a time.

    Raises GradeRequestError for a grade that is none or no better, a reason over 500 characters,
    and while another request of the business is open.
    """
    if grade not in Grade.values:
        raise GradeRequestError("there is no such grade")
    if Grade.values.index(grade) >= Grade.values.index(business.grade):
        raise GradeRequestError("the business has that grade or a better one")
    word = _word(reason)
    with transaction.atomic():
        try:
            with transaction.atomic():
                row = GradeRequest.objects.create(
                    business=business,
                    grade=grade,
                    reason=word,
                    asked_by_id=None if actor is None else actor.pk,
                )
        except IntegrityError:
            raise GradeRequestError("another request is still open") from None
        _record(row, "grade.request", actor, source)
    return row


def withdraw_grade_request(
    request: GradeRequest, *, actor: AbstractBaseUser | None, source: str = "console"
) -> None:
    """Take an open request back. Raises GradeRequestError when it was decided meanwhile."""
    with transaction.atomic():
        _close(request, GradeRequest.Status.WITHDRAWN, "", actor)
        _record(request, "grade.withdraw", actor, source)


def decide_grade_request(
    request: GradeRequest,
    *,
    approve: bool,
    answer: str = "",
    actor: AbstractBaseUser | None,
    source: str = "console",
) -> GradeRequest:
    """Approve an open request, which gives the business its grade, or decline it with a word.
    Raises GradeRequestError for one that was decided already."""
    word = _word(answer)
    with transaction.atomic():
        status = GradeRequest.Status.APPROVED if approve else GradeRequest.Status.DECLINED
        _close(request, status, word, actor)
        _record(request, "grade.approve" if approve else "grade.decline", actor, source)
        if approve:
            Business.objects.filter(pk=request.business_id).update(grade=request.grade)
            announce(ChangeVersion.Topic.ACCESS)
    return request


def _close(
    request: GradeRequest, status: GradeRequest.Status, answer: str, actor: AbstractBaseUser | None
) -> None:
    """Compare and set: two people who decide at once are one decision and one refusal."""
    changed = GradeRequest.objects.filter(pk=request.pk, status=GradeRequest.Status.OPEN).update(
        status=status,
        answer=answer,
        decided_at=timezone.now(),
        decided_by_id=None if actor is None else actor.pk,
    )
    if not changed:
        raise GradeRequestError("the request is not open any more")
    request.refresh_from_db()


def _record(row: GradeRequest, action: str, actor: AbstractBaseUser | None, source: str) -> None:
    audit.record(
        action,
        actor=actor,
        source=source,
        business=row.business.name,
        target=f"request {row.pk}",
        grade=row.grade,
        reason=row.reason,
        answer=row.answer,
    )


def _word(text: str) -> str:
    word = text.strip()
    if len(word) > LONGEST_WORD:
        raise GradeRequestError(f"at most {LONGEST_WORD} characters, please")
    return word
