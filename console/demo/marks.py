"""What is the demo's own: marked in the database, and all that it may change or take away again.

A replica that somebody has given another address, a business, model or person that was there
before, or was made anew since, is somebody's own, whatever it is called.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Model

from console.models import DemoEntry, User
from metering.models import AuditEntry, Business
from scheduler.models import ModelDeployment, Replica

from .record import DemoRecord

SOURCE = "demo"
_KINDS: Mapping[type[Model], str] = {
    Replica: DemoEntry.Kind.REPLICA,
    ModelDeployment: DemoEntry.Kind.MODEL,
    Business: DemoEntry.Kind.BUSINESS,
    User: DemoEntry.Kind.PERSON,
}


def own(model: Any) -> set[str]:
    """Names of the rows of this model that are the demo's."""
    marks = dict(DemoEntry.objects.filter(kind=_KINDS[model]).values_list("row", "detail"))
    rows = model.objects.filter(pk__in=marks)
    if model is User:
        return set(rows.values_list("username", flat=True))
    if model is Replica:
        return {row.name for row in rows if row.url == marks[row.pk]}
    return set(rows.values_list("name", flat=True))


def mark(model: Any, names: Iterable[str]) -> None:
    """The rows of these names have been made, or moved, by the demo."""
    name = "username" if model is User else "name"
    for row in model.objects.filter(**{f"{name}__in": list(names)}):
        DemoEntry.objects.update_or_create(
            kind=_KINDS[model],
            row=row.pk,
            defaults={"detail": row.url if model is Replica else ""},
        )


def adopt(record: DemoRecord | None, replicas: Iterable[str], models: Iterable[str]) -> None:
    """Mark what the demo had made before there were marks: whom and what its file names, and
    replicas whose address it was that set last."""
    if DemoEntry.objects.exists():
        return
    found = [row for row in Replica.objects.filter(name__in=list(replicas)) if _set_by_demo(row)]
    mark(Replica, [row.name for row in found])
    if found:
        mark(ModelDeployment, models)
    if record is not None:
        mark(User, [login.username for login in record.logins.values()])
        mark(Business, record.keys)


def _set_by_demo(replica: Replica) -> bool:
    entries = AuditEntry.objects.filter(
        target=replica.name, action__in=("replica.add", "replica.change")
    ).order_by("-pk")
    for entry in entries:
        before, after = entry.data.get("before") or {}, entry.data.get("after") or {}
        if "url" in after and after["url"] != before.get("url"):
            return entry.source == SOURCE
    return False
