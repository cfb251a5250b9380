"""Trying a draft out: what-if runs over recorded traffic, and canaries."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.access import LIVE_ROLES, role_required, signed_in
from console.background import run_command
from console.forms.policy import CanaryForm, ReasonForm, WhatIfForm
from scheduler.core.policy import PolicyError
from scheduler.models import Canary, WhatIf
from scheduler.services.canary import end_canary, start_canary
from scheduler.services.what_if import SILENCE, WhatIfError, ask_what_if

from .shared import sentences, version_of
from .versions import show_version

OVER = (WhatIf.State.DONE, WhatIf.State.FAILED)


@require_POST
@role_required(*LIVE_ROLES)
def ask(request: HttpRequest, number: int) -> HttpResponse:
    """Start a what-if run of a version."""
    row, form = version_of(number), WhatIfForm(request.POST)
    if form.is_valid():
        begin, end = form.window()
        try:
            run = ask_what_if(
                row,
                actor=signed_in(request),
                begin=begin,
                end=end,
                scenario=form.scenario(),
            )
        except WhatIfError as refused:
            field = refused.problem.path
            form.add_error(field if field in form.fields else None, _words(refused))
        else:
            run_command("what_if", str(run.pk))
            return redirect("what-if", pk=run.pk)
    return show_version(request, number, status=422, what_if_form=form)


def _words(refused: WhatIfError) -> str:
    return {
        "must be after the beginning": _("Must be after the beginning."),
        "must be within two hours of the beginning": _(
            "Must be within two hours of the beginning."
        ),
        "must not be in the future": _("Must not be in the future."),
        "two other runs are under way: wait for them": _(
            "Two other runs are under way: wait for them."
        ),
    }.get(refused.problem.message, refused.problem.message)


@require_safe
@role_required(*LIVE_ROLES)
def what_if(request: HttpRequest, pk: int) -> HttpResponse:
    """A run: its progress, then its result. The part that changes can be had alone."""
    row = WhatIf.objects.select_related("version", "author").filter(pk=pk).first()
    if row is None:
        raise Http404
    silent = row.state not in OVER and timezone.now() - row.beat_at > SILENCE
    context: dict[str, Any] = {
        "run": row,
        "over": row.state in OVER or silent,
        "silent": silent,
        "percent": round(100 * row.progress),
    }
    if row.result is not None:
        context |= _result(row.result)
    part = "part" in request.GET
    template = "console/policy/_what_if.html" if part else "console/policy/what_if.html"
    return render(request, template, context)


def _result(found: dict[str, Any]) -> dict[str, Any]:
    lanes = [
        {
            "name": name,
            "active": found["active"]["lanes"][name],
            "draft": found["draft"]["lanes"][name],
            "recorded": found["recorded"]["lanes"][name] if found["recorded"] else None,
            "agreement": found["agreement"][name] if found["agreement"] else None,
            "verdict": found["verdict"][name],
        }
        for name in found["verdict"]
    ]
    series = {
        "seconds": found["seconds"],
        "active": found["active"]["series"],
        "draft": found["draft"]["series"],
    }
    agrees = found["agreement"] and all(each["agrees"] for each in found["agreement"].values())
    return {
        "found": found,
        "lanes": lanes,
        "series": series,
        "agrees": agrees,
        "sides": [("active", _("Active policy")), ("draft", _("This version"))],
    }


@require_POST
@role_required(*LIVE_ROLES)
def begin_canary(request: HttpRequest, number: int) -> HttpResponse:
    """Try a version on some businesses."""
    row, form = version_of(number), CanaryForm(request.POST)
    if form.is_valid():
        try:
            start_canary(
                row,
                form.cleaned_data["businesses"],
                actor=signed_in(request),
                reason=form.cleaned_data["reason"],
                limits=form.limits(),
            )
        except PolicyError as error:
            for text in sentences(error):
                form.add_error(None, text)
        else:
            messages.success(request, _("The canary runs."))
            return redirect("policy")
    return show_version(request, number, status=422, canary_form=form)


@require_POST
@role_required(*LIVE_ROLES)
def stop_canary(request: HttpRequest, pk: int) -> HttpResponse:
    """End it: all businesses are back at the active policy."""
    row, form = Canary.objects.filter(pk=pk).first(), ReasonForm(request.POST)
    if row is None:
        raise Http404
    if form.is_valid():
        end_canary(row, actor=signed_in(request), reason=form.cleaned_data["reason"])
        messages.success(request, _("The canary has ended."))
    return redirect("policy")
