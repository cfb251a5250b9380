"""Setting limits: by owners inside their envelope, by operations beyond it, on request.

Changes name only the limits that are to change; None is unlimited, 0 blocks.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from decimal import Decimal

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import IntegrityError, transaction

from metering.core.quotas import FIELDS, Changes, Limits, LimitsError, beyond, cleaned
from metering.errors import QuotaRequestError
from metering.models import (
    ApiKey,
    Business,
    ChangeVersion,
    KeyQuota,
    Lane,
    Quota,
    QuotaRequest,
)
from metering.services import audit, petitions
from metering.services.changes import announce

Clean = Mapping[str, int | float | Decimal | None]


def set_quota(
    business: Business,
    changes: Changes,
    *,
    actor: AbstractBaseUser | None,
    operations: bool = False,
    source: str = "console",
) -> Quota:
    """Change limits of ``business`` at once; what is as it was counts as no change.

    An owner stays inside the envelope; ``operations`` may go beyond. Raises
    QuotaRequestError with the fields' problems: out of range, or beyond the envelope.
    """
    values = _cleaned(changes)
    with transaction.atomic():
        held = _locked(business)
        values = {n: v for n, v in values.items() if getattr(held, n) != v}
        if not operations:
            _refuse(beyond(values, envelope_of(business)))
        if values:
            _write(held, values, "quota.set", actor, source)
    return held


def set_envelope(
    business: Business,
    limits: Limits | None,
    *,
    actor: AbstractBaseUser | None,
    source: str = "console",
) -> None:
    """Grant ``business`` other bounds for its owner's own changes; None: it may change nothing.
    Limits that are set stay. Raises QuotaRequestError for what is out of range."""
    values = None if limits is None else _cleaned(asdict(limits))
    with transaction.atomic():
        rows = Quota.objects.filter(business=business, kind=Quota.Kind.ENVELOPE)
        if values is None:
            rows.delete()
        else:
            Quota.objects.update_or_create(
                business=business, kind=Quota.Kind.ENVELOPE, defaults=values
            )
        audit.record(
            "quota.envelope",
            actor=actor,
            source=source,
            business=business.name,
            target=business.name,
            limits=None if values is None else _plain(values),
        )


def set_key_quota(
    key: ApiKey,
    changes: Changes,
    *,
    actor: AbstractBaseUser | None,
    models: Collection[str] | None = None,
    ceiling: str | None = None,
    source: str = "console",
) -> KeyQuota:
    """Change limits of one key, the models it may use (None: all of its business's), and its
    most urgent lane (empty: that of its business; None: as it is).

    They bind beside those of its business, so they can only narrow. Raises QuotaRequestError
    for what is out of range, and for a key that is revoked.
    """
    values = _cleaned(changes)
    if ceiling and ceiling not in Lane.values:
        said = f"must be one of {', '.join(Lane.values)}, or blank"
        raise QuotaRequestError(f"ceiling: {said}", {"ceiling": said})
    with transaction.atomic():
        held_key = ApiKey.objects.select_for_update().select_related("business").get(pk=key.pk)
        if held_key.revoked_at is not None:
            raise QuotaRequestError("the key is revoked")
        held, _ = KeyQuota.objects.get_or_create(key=held_key)
        for name, value in values.items():
            setattr(held, name, value)
        held.models = None if models is None else sorted(models)
        held.save()
        if ceiling is not None:
            held_key.ceiling = key.ceiling = ceiling
            held_key.save(update_fields=["ceiling"])
        audit.record(
            "key.quota",
            actor=actor,
            source=source,
            business=held_key.business.name,
            target=held_key.prefix,
            limits=_plain(values),
            models=held.models,
            ceiling=held_key.ceiling,
        )
        announce(ChangeVersion.Topic.ACCESS)
    return held


def request_quota(
    business: Business,
    wanted: Changes,
    *,
    reason: str = "",
    actor: AbstractBaseUser | None,
    source: str = "console",
) -> QuotaRequest:
    """Ask operations for limits beyond the envelope; one request at a time.

    Raises QuotaRequestError for limits out of range, for none that would change anything, for a
    reason that is too long, and while another request of the business is open.
    """
    values = _cleaned(wanted)
    word = petitions.word(reason, QuotaRequestError)
    with transaction.atomic():
        held = _locked(business)
        values = {n: v for n, v in values.items() if getattr(held, n) != v}
        if not values:
            raise QuotaRequestError("these are the limits as they are")
        try:
            with transaction.atomic():
                row = QuotaRequest.objects.create(
                    business=business,
                    wanted=_plain(values),
                    reason=word,
                    asked_by_id=None if actor is None else actor.pk,
                )
        except IntegrityError:
            raise QuotaRequestError("another request is still open") from None
        _audit_request(row, "quota.request", actor, source, wanted=row.wanted, reason=word)
    return row


def withdraw_quota_request(
    request: QuotaRequest, *, actor: AbstractBaseUser | None, source: str = "console"
) -> None:
    """Take an open request back. Raises QuotaRequestError when it was decided meanwhile."""
    with transaction.atomic():
        petitions.close(request, QuotaRequest.Status.WITHDRAWN, "", actor, QuotaRequestError)
        _audit_request(request, "quota.withdraw", actor, source)


def decide_quota_request(
    request: QuotaRequest,
    *,
    approve: bool,
    answer: str = "",
    actor: AbstractBaseUser | None,
    source: str = "console",
) -> QuotaRequest:
    """Approve an open request, which sets its limits and widens the envelope to hold them, or
    decline it with a word. Raises QuotaRequestError for one that was decided already."""
    word = petitions.word(answer, QuotaRequestError)
    business = request.business
    with transaction.atomic():
        status = QuotaRequest.Status.APPROVED if approve else QuotaRequest.Status.DECLINED
        petitions.close(request, status, word, actor, QuotaRequestError)
        action = "quota.approve" if approve else "quota.decline"
        _audit_request(request, action, actor, source, wanted=request.wanted, answer=word)
        if approve:
            values = _cleaned(request.wanted)
            _widen(business, values)
            _write(_locked(business), values, "quota.set", actor, source)
    return request


def envelope_of(business: Business) -> Limits | None:
    """What the owner may set; None: nothing."""
    row = Quota.objects.filter(business=business, kind=Quota.Kind.ENVELOPE).first()
    return None if row is None else Limits(**{name: getattr(row, name) for name in FIELDS})


def _cleaned(changes: Changes) -> dict[str, int | float | Decimal | None]:
    try:
        return cleaned(changes)
    except LimitsError as error:
        raise QuotaRequestError(str(error), error.problems) from None


def _refuse(problems: Mapping[str, str]) -> None:
    if problems:
        text = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        raise QuotaRequestError(text, problems)


def _locked(business: Business) -> Quota:
    """The limits of a business, made if need be, for this transaction alone."""
    held, _ = Quota.objects.select_for_update().get_or_create(
        business=business, kind=Quota.Kind.LIMIT
    )
    return held


def _write(
    held: Quota, values: Clean, action: str, actor: AbstractBaseUser | None, source: str
) -> None:
    before = {name: getattr(held, name) for name in values}
    for name, value in values.items():
        setattr(held, name, value)
    held.save(update_fields=list(values))
    audit.record(
        action,
        actor=actor,
        source=source,
        business=held.business.name,
        target=held.business.name,
        before=_plain(before),
        after=_plain(values),
    )
    announce(ChangeVersion.Topic.ACCESS)


def _widen(business: Business, values: Clean) -> None:
    """Let the envelope hold ``values``. A business without one gets none by this: its owner
    still asks each time."""
    row = Quota.objects.filter(business=business, kind=Quota.Kind.ENVELOPE).first()
    if row is None:
        return
    envelope = Limits(**{name: getattr(row, name) for name in FIELDS})
    more = {name: values[name] for name in beyond(values, envelope)}
    for name, value in more.items():
        setattr(row, name, value)
    if more:
        row.save(update_fields=list(more))


def _audit_request(
    row: QuotaRequest, action: str, actor: AbstractBaseUser | None, source: str, **data: object
) -> None:
    audit.record(
        action,
        actor=actor,
        source=source,
        business=row.business.name,
        target=f"request {row.pk}",
        **data,
    )


def _plain(values: Clean) -> dict[str, int | float | str | None]:
    """As JSON keeps them: money as text, so that nothing of it is lost."""
    return {n: str(v) if isinstance(v, Decimal) else v for n, v in values.items()}
