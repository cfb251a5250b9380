"""What requests to operations have in common: a word that comes with them, and one decision."""

from django.contrib.auth.base_user import AbstractBaseUser
from django.utils import timezone

from metering.errors import RefusedError
from metering.models import GradeRequest, QuotaRequest

LONGEST_WORD = 500


def word(text: str, error: type[RefusedError]) -> str:
    """A reason or an answer as it is kept. Raises ``error`` for one that is too long."""
    found = text.strip()
    if len(found) > LONGEST_WORD:
        raise error(f"at most {LONGEST_WORD} characters, please")
    return found


def close(
    request: GradeRequest | QuotaRequest,
    status: GradeRequest.Status | QuotaRequest.Status,
    answer: str,
    actor: AbstractBaseUser | None,
    error: type[RefusedError],
) -> None:
    """Compare and set: two people who decide at once are one decision and one refusal."""
    table = GradeRequest if isinstance(request, GradeRequest) else QuotaRequest
    changed = table.objects.filter(pk=request.pk, status=table.Status.OPEN).update(
        status=status,
        answer=answer,
        decided_at=timezone.now(),
        decided_by_id=None if actor is None else actor.pk,
    )
    if not changed:
        raise error("the request is not open any more")
    request.refresh_from_db()
