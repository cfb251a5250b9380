"""Writes of canaries: begun by people, ended by people or by their own limits."""

from collections.abc import Sequence

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction
from django.utils import timezone

from metering.models import Business, ChangeVersion
from metering.services import audit, changes
from scheduler.canary import Judgement, Limits, Tally, judge
from scheduler.canary.judging import limits_as_dict, summary
from scheduler.core.policy import PolicyError, Problem, from_stored, pool_wide
from scheduler.models import Canary, PolicyVersion
from scheduler.services.policy import active_policy, lock_policy

SOURCE = "canary"


@transaction.atomic
def start_canary(
    version: PolicyVersion,
    businesses: Sequence[str],
    *,
    actor: AbstractBaseUser | None,
    reason: str,
    limits: Limits | None = None,
) -> Canary:
    """Let the requests of these businesses be decided by a version that is not active.

    Gateways follow within 2 s of the commit. Raises PolicyError, with nothing changed, for a
    version that differs in what can only change for all, for businesses that are not there,
    and while another canary runs.
    """
    lock_policy()
    names = sorted(set(businesses))
    found = _problems(version, names)
    if found:
        raise PolicyError(found)
    row = Canary.objects.create(
        version=version,
        businesses=names,
        limits=limits_as_dict(limits or Limits()),
        author_id=None if actor is None else actor.pk,
        reason=reason,
    )
    audit.record(
        "canary.start",
        actor=actor,
        source="console",
        target=f"policy {version.version}",
        reason=reason,
        businesses=names,
        limits=row.limits,
    )
    changes.announce(ChangeVersion.Topic.POLICY)
    return row


def _problems(version: PolicyVersion, names: list[str]) -> list[Problem]:
    if PolicyVersion.objects.filter(pk=version.pk, active=True).exists():
        return [Problem("", "this version is active already")]
    if Canary.objects.filter(state=Canary.State.RUNNING).exists():
        return [Problem("", "another canary runs: end it first")]
    draft = from_stored(version.document)
    found = [
        Problem(change.path, "can only change for all businesses at once")
        for change in pool_wide(active_policy()[1], draft)
    ]
    known = set(Business.objects.filter(name__in=names).values_list("name", flat=True))
    found += [
        Problem("businesses", f"there is no business {name}") for name in names if name not in known
    ]
    if not names:
        found.append(Problem("businesses", "choose at least one"))
    elif not Business.objects.exclude(name__in=names).exists():
        found.append(Problem("businesses", "leave at least one out, to compare with"))
    return found


@transaction.atomic
def end_canary(canary: Canary, *, actor: AbstractBaseUser | None, reason: str) -> Canary:
    """Let all requests be decided by the active policy again. One that has ended stays so."""
    row = Canary.objects.select_for_update().select_related("version").get(pk=canary.pk)
    if row.state == Canary.State.RUNNING:
        _end(row, Canary.State.ENDED, actor=actor, source="console", reason=reason)
    return row


@transaction.atomic
def report_canary(pk: int, tally: Tally) -> Judgement | None:
    """Add what a gateway counted; roll the canary back if that breaks one of its limits.

    Returns the judgement, None for a canary that has ended. Raises django.db.Error.
    """
    row = Canary.objects.select_for_update().select_related("version").filter(pk=pk).first()
    if row is None or row.state != Canary.State.RUNNING:
        return None
    held = Tally.from_dict(row.tallies)
    held.add(tally)
    row.tallies, row.figures = held.as_dict(), summary(held)
    row.save(update_fields=["tallies", "figures"])
    judgement = judge(held, Limits(**row.limits))
    if judgement.broken:
        row.figures = {**row.figures, "broken": _told(judgement)}
        row.save(update_fields=["figures"])
        _end(
            row,
            Canary.State.ROLLED_BACK,
            actor=None,
            source=SOURCE,
            reason=reason_of(judgement),
        )
    return judgement


def reason_of(judgement: Judgement) -> str:
    """The judgement in one line, for the audit."""
    if judgement.broken == "p95":
        return (
            f"P95 wait of {judgement.lane} {judgement.canary:g} ms, "
            f"control {judgement.control:g} ms, limit {judgement.limit:g} ms"
        )
    what = {"sla": "late or failed", "refusals": "refused"}[judgement.broken]
    return (
        f"{judgement.canary:.1%} {what}, "
        f"control {judgement.control:.1%}, limit {judgement.limit:.1%}"
    )


def _told(judgement: Judgement) -> dict[str, object]:
    return {
        "limit": judgement.broken,
        "lane": judgement.lane,
        "canary": judgement.canary,
        "control": judgement.control,
        "allowed": round(judgement.limit, 4),
    }


def _end(
    row: Canary,
    state: Canary.State,
    *,
    actor: AbstractBaseUser | None,
    source: str,
    reason: str,
) -> None:
    row.state, row.ended_at = state, timezone.now()
    row.save(update_fields=["state", "ended_at"])
    audit.record(
        "canary.rollback" if state == Canary.State.ROLLED_BACK else "canary.end",
        actor=actor,
        source=source,
        target=f"policy {row.version.version}",
        reason=reason,
        businesses=row.businesses,
        figures=row.figures,
    )
    changes.announce(ChangeVersion.Topic.POLICY)
