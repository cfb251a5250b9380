"""Editing the policy: always into a new draft, and never over somebody else's."""

from django.contrib import messages
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.access import LIVE_ROLES, role_required, signed_in
from console.policy.form import PolicyForm
from scheduler.core.policy import Policy, PolicyError, from_stored
from scheduler.models import PolicyVersion
from scheduler.services.policy import PolicyMovedError, save_version

from .shared import active_policy, changes, pool_names, version_of


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(*LIVE_ROLES)
def edit(request: HttpRequest, number: int) -> HttpResponse:
    """The form, filled with version ``number`` (0: the active one)."""
    base = _policy(number)
    if request.method != "POST":
        return _show(request, number, PolicyForm(base, pool_names()), seen=_newest())
    form = PolicyForm(base, pool_names(), request.POST)
    seen = request.POST.get("seen", "")
    known = int(seen) if seen.isascii() and seen.isdigit() else 0
    if not form.is_valid() or form.policy is None:
        return _show(request, number, form, seen=known, status=422)
    try:
        row = save_version(
            form.policy,
            author=signed_in(request),
            reason=request.POST.get("reason", "").strip(),
            base=number or None,
            seen=known,
        )
    except PolicyMovedError as moved:
        # What they typed stays in the form; the next save knows of the other's version.
        newest = moved.newest
        theirs = changes(base, _policy(newest.version))
        return _show(
            request, number, form, seen=newest.version, status=409, moved=newest, theirs=theirs
        )
    except PolicyError as error:
        for problem in error.problems:
            form.note(problem)
        return _show(request, number, form, seen=known, status=422)
    messages.success(request, _("Saved as draft %(number)s.") % {"number": row.version})
    return redirect("policy-version", number=row.version)


def _policy(number: int) -> Policy:
    """The policy of a version; the active one of 0, the defaults of one that can't be read."""
    if not number:
        return active_policy()[1]
    try:
        return from_stored(version_of(number).document)
    except PolicyError:
        return Policy()


def _newest() -> int:
    return PolicyVersion.objects.aggregate(newest=Max("version"))["newest"] or 0


def _show(
    request: HttpRequest,
    number: int,
    form: PolicyForm,
    *,
    seen: int,
    status: int = 200,
    **more: object,
) -> HttpResponse:
    context = {
        "form": form,
        "number": number,
        "seen": seen,
        "reason": request.POST.get("reason", ""),
        "wrong": status == 422,
        **more,
    }
    return render(request, "console/policy/edit.html", context, status=status)
