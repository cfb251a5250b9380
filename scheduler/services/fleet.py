"""Writes of the fleet file: pools, models, replicas and businesses, all or nothing."""

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction

from metering.models import ChangeVersion
from metering.services import audit
from metering.services.changes import announce
from scheduler.addresses import check_publisher, check_url
from scheduler.core.policy import NamedPool, PolicyError, Problem
from scheduler.fleet_checks import broken_references
from scheduler.fleet_diff import ADDED, CHANGED, FleetDiff, plan
from scheduler.fleet_document import FleetDocument
from scheduler.fleet_file import FleetError, to_plain, with_lines
from scheduler.selectors.fleet_document import load_document
from scheduler.selectors.policy import pools_in_use
from scheduler.services.fleet_rows import write
from scheduler.services.policy import lock_policy

__all__ = ["FleetDiff", "apply_fleet", "export_fleet", "held_fleet"]

_VERBS = {ADDED: "add", CHANGED: "change"}
_ADDRESSES = {
    "url": check_url,
    "metrics_url": check_url,
    "dcgm_url": check_url,
    "kv_events_url": check_publisher,
}


def apply_fleet(
    document: FleetDocument,
    *,
    prune: bool,
    source: str,
    actor: AbstractBaseUser | None = None,
) -> FleetDiff:
    """Make the fleet what the document says; returns what that changed, which may be nothing.

    Entries that the document doesn't name stay, unless ``prune``: then each part that it has
    loses them. Keys of a business go with it; what it used stays on record. Running
    processes follow within 2 s of the commit. Raises FleetError, with nothing changed, for
    addresses that replicas may not have and references that lead nowhere.
    """
    found = _address_problems(document)
    if found:
        raise FleetError(with_lines(found, document))
    with transaction.atomic():
        # Also keeps two of these apart, and a policy from naming a pool that goes meanwhile.
        lock_policy()
        held = load_document()
        found = broken_references(document, held, prune=prune, in_use=_in_use(prune))
        if found:
            raise FleetError(with_lines(found, document))
        planned = plan(held, document, prune=prune)
        diff = planned.diff()
        write(planned)
        for change in diff.changes:
            audit.record(
                f"{change.kind}.{_VERBS.get(change.what, 'remove')}",
                actor=actor,
                source=source,
                business=change.name if change.kind == "business" else "",
                target=change.name,
                before=change.before,
                after=change.after,
            )
        if diff.touches("business"):
            announce(ChangeVersion.Topic.ACCESS)
        if diff.touches("pool", "model", "replica"):
            announce(ChangeVersion.Topic.FLEET)
    return diff


def export_fleet() -> dict[str, list[dict[str, object]]]:
    """The fleet in the file's form, as of one moment; applying it changes nothing."""
    return to_plain(held_fleet())


def held_fleet() -> FleetDocument:
    """The fleet as a document, not in the middle of a change by another."""
    with transaction.atomic():
        lock_policy()
        return load_document()


def _in_use(prune: bool) -> list[NamedPool]:
    if not prune:
        return []
    try:
        return pools_in_use()
    except PolicyError as error:
        problem = Problem("", f"the active policy cannot be read: {error.problems[0]}")
        raise FleetError([problem]) from None


def _address_problems(document: FleetDocument) -> list[Problem]:
    found = []
    for place, spec in enumerate(document.replicas or ()):
        for name, check in _ADDRESSES.items():
            url = getattr(spec, name)
            if url is None:
                continue
            try:
                check(url, settings.FAIRLANE_REPLICA_CIDRS)
            except ValueError as error:
                found.append(Problem(f"replicas[{place}].{name}", str(error)))
    return found
