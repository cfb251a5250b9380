"""Versions of the policy: the list, one version against the active one, activation, files."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.access import LIVE_ROLES, role_required, signed_in
from console.forms.policy import CanaryForm, ImportForm, ReasonForm, WhatIfForm
from scheduler.core.policy import PolicyError, from_stored, is_per_request
from scheduler.level_table import GRADES, WEIGHTS, level_table
from scheduler.models import Canary, PolicyVersion, WhatIf
from scheduler.policy_file import dump, parse
from scheduler.selectors.policy import closed_pools, missing_pools
from scheduler.services.policy import activate, save_version

from .shared import active_policy, changes, sentences, version_of

PER_PAGE = 20
RUNS = 5


@require_safe
@role_required(*LIVE_ROLES)
def policies(request: HttpRequest) -> HttpResponse:
    """The active policy, what is tried beside it, and all versions."""
    return _list(request, ImportForm())


def _list(request: HttpRequest, form: ImportForm, status: int = 200) -> HttpResponse:
    held = PolicyVersion.objects.select_related("author").defer("document")
    page = Paginator(held, PER_PAGE).get_page(request.GET.get("page"))
    canaries = Canary.objects.select_related("version", "author").defer("version__document")
    context = {
        "active": held.filter(active=True).first(),
        "page": page,
        "canary": canaries.filter(state=Canary.State.RUNNING).first(),
        "past": canaries.exclude(state=Canary.State.RUNNING)[:RUNS],
        "import_form": form,
        "unreadable": active_policy()[2],
    }
    return render(request, "console/policy/versions.html", context, status=status)


@require_safe
@role_required(*LIVE_ROLES)
def version(request: HttpRequest, number: int) -> HttpResponse:
    """One version: what it changes, what it would do, and the ways to put it to use."""
    return show_version(request, number)


def show_version(
    request: HttpRequest,
    number: int,
    *,
    status: int = 200,
    problems: list[str] | None = None,
    **forms: object,
) -> HttpResponse:
    """The page of a version, with a form that was filled in wrongly where there is one."""
    row = version_of(number)
    active, before, unreadable = active_policy()
    context: dict[str, Any] = {
        "row": row,
        "active": active,
        "unreadable": unreadable,
        "problems": problems or [],
        "reason_form": ReasonForm(),
        "what_if_form": WhatIfForm(),
        "canary_form": CanaryForm(),
        "runs": WhatIf.objects.filter(version=row).select_related("author").defer("result")[:RUNS],
        "canary": Canary.objects.select_related("version").filter(state="running").first(),
        **forms,
    }
    try:
        policy = from_stored(row.document)
    except PolicyError as error:
        context["problems"] = [*context["problems"], *sentences(error)]
    else:
        found = changes(before, policy)
        context["changes"] = found
        context["for_all"] = [c for c in found if not is_per_request(f"scheduler.{c.path}")]
        context["warnings"] = [
            str(problem) for problem in (*missing_pools(policy), *closed_pools(policy))
        ]
        context |= {
            "readable": True,
            "levels": level_table(policy),
            "grades": GRADES,
            "weights": WEIGHTS,
        }
    return render(request, "console/policy/version.html", context, status=status)


@require_POST
@role_required(*LIVE_ROLES)
def activate_version(request: HttpRequest, number: int) -> HttpResponse:
    """Make it the active one. A rollback is this, with its reason given by the button."""
    row, form = version_of(number), ReasonForm(request.POST)
    if not form.is_valid():
        return show_version(request, number, status=422, reason_form=form)
    try:
        activate(row, actor=signed_in(request), reason=form.cleaned_data["reason"])
    except PolicyError as error:
        return show_version(request, number, status=422, problems=sentences(error))
    messages.success(request, _("Policy %(number)s is active.") % {"number": number})
    return redirect("policy")


@require_safe
@role_required(*LIVE_ROLES)
def export(request: HttpRequest, number: int) -> HttpResponse:
    """The version as a YAML file."""
    row = version_of(number)
    try:
        text = dump(from_stored(row.document))
    except PolicyError as error:
        return show_version(request, number, status=422, problems=sentences(error))
    name = f"policy-{number}.yaml"
    return HttpResponse(
        text,
        content_type="application/yaml; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@require_POST
@role_required(*LIVE_ROLES)
def import_file(request: HttpRequest) -> HttpResponse:
    """A YAML file as a new draft."""
    form = ImportForm(request.POST, request.FILES)
    if form.is_valid():
        try:
            policy = parse(form.cleaned_data["file"])
        except PolicyError as error:
            # A file has lines, which its author looks for: the problems as they are.
            for problem in error.problems:
                form.add_error("file", str(problem))
        else:
            reason = _("Import of %(name)s") % {"name": str(request.FILES["file"])}
            row = save_version(policy, author=signed_in(request), reason=reason[:500])
            messages.success(request, _("Saved as draft %(number)s.") % {"number": row.version})
            return redirect("policy-version", number=row.version)
    return _list(request, form, status=422)
