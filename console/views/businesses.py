"""Businesses as operations see them: grades, envelopes, suspensions, and what they ask for."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from console.access import LIVE_ROLES, role_required, signed_in
from console.forms.businesses import LimitsForm, ProfileForm, limits_of
from console.forms.policy import ReasonForm
from console.views.grade_decisions import waiting
from metering.errors import QuotaRequestError
from metering.models import Business, Quota, QuotaRequest
from metering.services.businesses import set_profile, suspend
from metering.services.quotas import decide_quota_request, set_envelope, set_quota

PER_PAGE = 50
RECENT = 5


@require_safe
@role_required(*LIVE_ROLES)
def businesses(request: HttpRequest) -> HttpResponse:
    """All of them, and what waits for a decision."""
    text = request.GET.get("q", "").strip()
    rows = Business.objects.order_by("name")
    if text:
        rows = rows.filter(name__contains=text.lower())
    limits = Quota.objects.filter(business=OuterRef("pk"), kind=Quota.Kind.LIMIT)
    rows = rows.annotate(
        rate=Subquery(limits.values("requests_per_s")[:1]),
        at_once=Subquery(limits.values("running")[:1]),
    )
    if request.GET.get("state") == "suspended":
        rows = rows.exclude(suspended_at=None)
    asked = QuotaRequest.objects.filter(status=QuotaRequest.Status.OPEN)
    context = {
        "page": Paginator(rows, PER_PAGE).get_page(request.GET.get("page")),
        "text": text,
        "state": request.GET.get("state", ""),
        "query": f"&q={text}" if text else "",
        "grades_asked": waiting()[:PER_PAGE],
        "asked": asked.select_related("business", "asked_by").order_by("pk")[:PER_PAGE],
    }
    return render(request, "console/businesses.html", context)


@require_safe
@role_required(*LIVE_ROLES)
def business(request: HttpRequest, name: str) -> HttpResponse:
    """One of them."""
    return _show(request, _business(name))


def _show(request: HttpRequest, row: Business, status: int = 200, **forms: object) -> HttpResponse:
    held = {quota.kind: quota for quota in row.quotas.all()}
    envelope = held.get(Quota.Kind.ENVELOPE)
    context: dict[str, Any] = {
        "business": row,
        "profile_form": ProfileForm(instance=row),
        "limits_form": LimitsForm(initial=limits_of(held.get(Quota.Kind.LIMIT)), prefix="limit"),
        "envelope_form": LimitsForm(initial=limits_of(envelope), prefix="envelope"),
        "has_envelope": envelope is not None,
        "reason_form": ReasonForm(),
        "asked": row.quota_requests.select_related("asked_by")[:RECENT],
        **forms,
    }
    return render(request, "console/business.html", context, status=status)


@require_POST
@role_required(*LIVE_ROLES)
def business_change(request: HttpRequest, name: str, what: str) -> HttpResponse:
    """Change the profile, the limits or the envelope."""
    row, person = _business(name), signed_in(request)
    if what == "profile":
        form = ProfileForm(request.POST, instance=row)
        if not form.is_valid():
            return _show(request, _business(name), 422, profile_form=form)
        set_profile(row, form.cleaned_data, actor=person)
    elif what in {"limits", "envelope"}:
        prefix = "limit" if what == "limits" else "envelope"
        limits = LimitsForm(request.POST, prefix=prefix)
        if not limits.is_valid():
            return _show(request, row, 422, **{f"{what}_form": limits})
        try:
            if what == "limits":
                set_quota(row, limits.changes(), actor=person, operations=True)
            elif "none" in request.POST:
                set_envelope(row, None, actor=person)
            else:
                set_envelope(row, limits.limits(), actor=person)
        except QuotaRequestError as refused:
            limits.add_error(None, str(refused))
            return _show(request, row, 422, **{f"{what}_form": limits})
    else:
        raise Http404
    messages.success(request, _("%(name)s is saved.") % {"name": name})
    return redirect("business", name=name)


@require_POST
@role_required(*LIVE_ROLES)
def business_suspend(request: HttpRequest, name: str) -> HttpResponse:
    """Refuse all it asks from now on, or let it in again."""
    row, form = _business(name), ReasonForm(request.POST)
    if not form.is_valid():
        return _show(request, row, 422, reason_form=form)
    on = "on" in request.POST
    suspend(row, on=on, reason=form.cleaned_data["reason"], actor=signed_in(request))
    text = _("%(name)s is suspended.") if on else _("%(name)s may call again.")
    messages.success(request, text % {"name": name})
    return redirect("business", name=name)


@require_POST
@role_required(*LIVE_ROLES)
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Approve or decline what a business asked for."""
    row = QuotaRequest.objects.select_related("business").filter(pk=pk).first()
    if row is None:
        raise Http404
    try:
        decide_quota_request(
            row,
            approve="approve" in request.POST,
            answer=request.POST.get("answer", ""),
            actor=signed_in(request),
        )
    except QuotaRequestError as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, _("It is decided."))
    return redirect("businesses")


def _business(name: str) -> Business:
    row = Business.objects.filter(name=name).first()
    if row is None:
        raise Http404
    return row
