"""Pools and replicas: what there is and how it is, and the steps an operator takes with it."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access import LIVE_ROLES, role_required, signed_in
from console.forms.fleet import EntryForm, PoolForm, ReplicaForm, filled
from console.views.live_parts import live_context
from scheduler.fleet_file import FleetError
from scheduler.models import Pool, Replica
from scheduler.services.fleet import apply_fleet
from scheduler.services.fleet_steps import (
    ask_replica,
    drain,
    remove_pool,
    remove_replica,
    warm_replica,
)


@require_safe
@role_required(*LIVE_ROLES)
def fleet(request: HttpRequest) -> HttpResponse:
    """All pools with their replicas; how they are comes over the WebSocket."""
    pools = list(Pool.objects.prefetch_related("replicas"))
    context = {**live_context(), "pools": pools}
    return render(request, "console/fleet.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(*LIVE_ROLES)
def replica(request: HttpRequest, pk: int = 0) -> HttpResponse:
    """The form of a new replica, or of one that is there (``pk``)."""
    row = _replica(pk) if pk else None
    initial = {} if row is None else filled(row)
    form = ReplicaForm(request.POST or None, initial=initial)
    if row is not None:
        # Whoever wants another name wants another replica.
        form.fields["name"].disabled = True
    return _entry(request, form, row)


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(*LIVE_ROLES)
def pool(request: HttpRequest, pk: int = 0) -> HttpResponse:
    """The form of a new pool, or of one that is there (``pk``)."""
    row = _pool(pk) if pk else None
    initial: dict[str, Any] = {}
    if row is not None:
        initial = {"name": row.name, "kind": row.kind, "lanes": row.lanes}
    form = PoolForm(request.POST or None, initial=initial)
    if row is not None:
        form.fields["name"].disabled = True
    return _entry(request, form, row)


def _entry(request: HttpRequest, form: EntryForm, row: Pool | Replica | None) -> HttpResponse:
    if request.method == "POST" and form.is_valid():
        document = form.document()
        name = form.cleaned_data["name"]
        if document is not None and row is None and _taken(form, name):
            form.add_error("name", _("There is one of this name already."))
        elif document is not None:
            try:
                apply_fleet(document, prune=False, source="console", actor=signed_in(request))
            except FleetError as error:
                form.take(error)
            else:
                messages.success(request, _("%(name)s is saved.") % {"name": name})
                return redirect("fleet")
    status = 422 if request.method == "POST" else 200
    context = {"form": form, "row": row, "part": form.part}
    return render(request, "console/fleet_entry.html", context, status=status)


def _taken(form: EntryForm, name: str) -> bool:
    model = Pool if form.part == "pools" else Replica
    return model.objects.filter(name=name).exists()


@require_POST
@role_required(*LIVE_ROLES)
def replica_step(request: HttpRequest, pk: int, step: str) -> HttpResponse:
    """Drain, take back, test, warm or remove one."""
    row, person = _replica(pk), signed_in(request)
    values = {"name": row.name}
    if step in {"test", "warm"}:
        answer = ask_replica(row) if step == "test" else warm_replica(row, actor=person)
        said = {**values, "words": answer.words, "ms": round(answer.ms)}
        if answer.well:
            messages.success(request, _("%(name)s answers: %(words)s after %(ms)s ms.") % said)
        else:
            messages.error(request, _("%(name)s does not answer well: %(words)s") % said)
    elif step == "remove":
        remove_replica(row, actor=person)
        messages.success(request, _("%(name)s has left the fleet.") % values)
    elif step in {"drain", "undrain"}:
        drain(row, on=step == "drain", actor=person)
        text = _("%(name)s gets nothing new.") if step == "drain" else _("%(name)s is back.")
        messages.success(request, text % values)
    else:
        raise Http404
    return redirect("fleet")


@require_POST
@role_required(*LIVE_ROLES)
def pool_remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove a pool that nothing needs."""
    row = _pool(pk)
    try:
        remove_pool(row, actor=signed_in(request))
    except FleetError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, _("%(name)s has left the fleet.") % {"name": row.name})
    return redirect("fleet")


def _replica(pk: int) -> Replica:
    row = Replica.objects.select_related("pool").filter(pk=pk).first()
    if row is None:
        raise Http404
    return row


def _pool(pk: int) -> Pool:
    row = Pool.objects.filter(pk=pk).first()
    if row is None:
        raise Http404
    return row
