"""A write that is sent again, because the answer to it got lost, happens once.

The row that stands for the key is written in the transaction of the write itself. A second
request with the same key waits at the unique constraint until the first has committed (and
gets its answer) or was rolled back (and takes its place).
"""

import hashlib
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from console.models import IdempotentWrite, User

from .errors import ConflictError

HEADER = "Idempotency-Key"
KEPT = timedelta(hours=24)
MOST = 255
# Shown once, so also not to one who repeats the request.
SECRETS = frozenset({"secret", "token"})


class RepeatedError(Exception):
    """The write has happened; ``response`` is what was said about it."""

    def __init__(self, response: Response) -> None:
        super().__init__("repeated")
        self.response = response


def claim(request: Request, user: User) -> IdempotentWrite | None:
    """The row for this write, in the caller's transaction; None for requests without a key.

    Raises RepeatedError where it has happened already, ConflictError where the key stands for
    another write.
    """
    key = request.headers.get(HEADER, "").strip()
    if not key:
        return None
    if len(key) > MOST or not key.isprintable():
        raise ValidationError({HEADER: [_("At most 255 printable characters.")]})
    now = timezone.now()
    IdempotentWrite.objects.filter(at__lte=now - KEPT).delete()
    fingerprint = _fingerprint(request)
    try:
        with transaction.atomic():
            return IdempotentWrite.objects.create(
                user=user, key=key, fingerprint=fingerprint, at=now
            )
    except IntegrityError:
        held = IdempotentWrite.objects.get(user=user, key=key)
    if held.fingerprint != fingerprint:
        raise ConflictError(_("This Idempotency-Key stands for another request."))
    response = Response(held.answer, status=held.status)
    response.headers["Idempotent-Replay"] = "true"
    raise RepeatedError(response)


def settle(row: IdempotentWrite, response: Response) -> None:
    """Keep the answer; a refusal is not kept, and its request may be tried again."""
    if response.status_code >= 400:
        if connection.in_atomic_block:
            transaction.set_rollback(True)
        return
    row.status = response.status_code
    row.answer = _without_secrets(response.data)
    row.save(update_fields=["status", "answer"])


def _fingerprint(request: Request) -> str:
    whole = b"\0".join(
        ((request.method or "").encode(), request.get_full_path().encode(), request.body)
    )
    return hashlib.sha256(whole).hexdigest()


def _without_secrets(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    return {name: None if name in SECRETS else value for name, value in data.items()}
