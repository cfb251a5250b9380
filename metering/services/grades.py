"""Asking for a better grade, and deciding about it."""

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import IntegrityError, transaction

from metering.errors import GradeRequestError
from metering.models import Business, ChangeVersion, Grade, GradeRequest
from metering.services import audit, petitions
from metering.services.changes import announce


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
    word = petitions.word(reason, GradeRequestError)
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
        petitions.close(request, GradeRequest.Status.WITHDRAWN, "", actor, GradeRequestError)
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
    word = petitions.word(answer, GradeRequestError)
    with transaction.atomic():
        status = GradeRequest.Status.APPROVED if approve else GradeRequest.Status.DECLINED
        petitions.close(request, status, word, actor, GradeRequestError)
        _record(request, "grade.approve" if approve else "grade.decline", actor, source)
        if approve:
            Business.objects.filter(pk=request.business_id).update(grade=request.grade)
            announce(ChangeVersion.Topic.ACCESS)
    return request


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
