"""Tier credentials of a business: issued, narrowed, revoked; and asking for a better grade."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from console.access import (
    Reach,
    business_to_change,
    credential_to_change,
    reach_of,
    role_required,
    signed_in,
)
from console.forms.credentials import AskGradeForm, IssueForm, NarrowForm
from console.models import User
from console.refusals import said
from console.snippets import example_model, models_of
from metering.errors import CredentialRequestError, GradeRequestError
from metering.models import Business, Grade, GradeRequest, TierCredential
from metering.services.credentials import (
    issue_credential,
    narrow_credential,
    revoke_credential,
)
from metering.services.grades import request_grade, withdraw_grade_request

PER_PAGE = 50
Status = GradeRequest.Status


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """A credential and its state: working, waiting (not valid yet), expired or revoked."""

    held: TierCredential
    state: str

    @property
    def works(self) -> bool:
        """Whether it can still be narrowed or revoked."""
        return self.state in {"working", "waiting"}


def state_of(row: TierCredential, now: datetime) -> str:
    """What the gateway makes of the credential at ``now``."""
    if row.revoked_at is not None:
        return "revoked"
    if row.expires_at <= now:
        return "expired"
    return "waiting" if row.not_before > now else "working"


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.OWNER)
def credentials(request: HttpRequest) -> HttpResponse:
    """The list, and the form for a new one; the answer to that is all that shows the token."""
    if request.method != "POST":
        reach = reach_of(request)
        if reach is None:
            return render(request, "console/no_business.html")
        return _show_list(request, reach, IssueForm(reach.business, models_of(reach.business)))
    business = business_to_change(request, request.POST.get("business", ""))
    form = IssueForm(business, models_of(business), request.POST)
    if form.is_valid():
        try:
            row, token = issue_credential(
                business, actor=signed_in(request), operations=False, **form.terms()
            )
        except CredentialRequestError as refusal:
            form.add_error(None, said(refusal))
        else:
            return _show_once(request, row, token)
    reach = reach_of(request, business.name)
    assert reach is not None, "somebody who may change a business is a member of it"
    return _show_list(request, reach, form, status=422)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.OWNER)
def narrow(request: HttpRequest, jti: UUID) -> HttpResponse:
    """Choose what part of it the new one grants, then show that one once."""
    parent = credential_to_change(request, jti)
    offered = models_of(parent.business) if parent.models is None else list(parent.models)
    form = NarrowForm(parent, offered, request.POST if request.method == "POST" else None)
    status = 200
    if form.is_bound and form.is_valid():
        try:
            row, token = narrow_credential(parent, actor=signed_in(request), **form.terms())
        except CredentialRequestError as refusal:
            form.add_error(None, said(refusal))
        else:
            return _show_once(request, row, token)
    if form.errors:
        status = 422
    context = {"row": _row(parent), "form": form}
    return render(request, "console/credential_narrow.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.OWNER)
def revoke(request: HttpRequest, jti: UUID) -> HttpResponse:
    """Ask once more, then withdraw it and all that came of it."""
    row = credential_to_change(request, jti)
    if request.method == "POST":
        count = revoke_credential(row, actor=signed_in(request))
        messages.success(
            request,
            ngettext(
                "%(count)d credential is revoked.", "%(count)d credentials are revoked.", count
            )
            % {"count": count},
        )
        return redirect("credentials")
    return render(request, "console/credential_revoke.html", {"row": _row(row)})


@require_POST
@role_required(User.Role.OWNER)
def ask_grade(request: HttpRequest) -> HttpResponse:
    """File the request, or say at the field what is wrong with it."""
    business = business_to_change(request, request.POST.get("business", ""))
    form = AskGradeForm(business, request.POST)
    if form.is_valid():
        try:
            request_grade(
                business,
                form.cleaned_data["grade"],
                reason=form.cleaned_data["reason"],
                actor=signed_in(request),
            )
        except GradeRequestError as refusal:
            form.add_error(None, said(refusal))
        else:
            messages.success(request, _("Operations will decide about your request."))
            return redirect("credentials")
    reach = reach_of(request, business.name)
    assert reach is not None, "somebody who may change a business is a member of it"
    issue = IssueForm(business, models_of(business))
    return _show_list(request, reach, issue, ask=form, status=422)


@require_POST
@role_required(User.Role.OWNER)
def withdraw_grade(request: HttpRequest) -> HttpResponse:
    """Take the open request back."""
    business = business_to_change(request, request.POST.get("business", ""))
    row = GradeRequest.objects.filter(business=business, status=Status.OPEN).first()
    if row is None:
        raise Http404
    try:
        withdraw_grade_request(row, actor=signed_in(request))
    except GradeRequestError as refusal:
        messages.error(request, said(refusal))
    else:
        messages.success(request, _("The request is withdrawn."))
    return redirect("credentials")


def _show_list(
    request: HttpRequest,
    reach: Reach,
    form: IssueForm,
    *,
    ask: AskGradeForm | None = None,
    status: int = 200,
) -> HttpResponse:
    now = timezone.now()
    everything = request.GET.get("show") == "all"
    rows = TierCredential.objects.filter(business=reach.business).select_related("parent")
    if not everything:
        rows = rows.filter(revoked_at=None, expires_at__gt=now)
    page = Paginator(rows.order_by("-issued_at", "-pk"), PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "reach": reach,
        "form": form,
        "ask": ask or _ask_form(reach.business),
        "asked": GradeRequest.objects.filter(business=reach.business).order_by("-pk").first(),
        "everything": everything,
        "rows": [CredentialRow(row, state_of(row, now)) for row in page.object_list],
        "page": page,
    }
    return render(request, "console/credentials.html", context, status=status)


def _ask_form(business: Business) -> AskGradeForm | None:
    """None for a business that has the best grade."""
    return None if business.grade == Grade.values[0] else AskGradeForm(business)


def _show_once(request: HttpRequest, row: TierCredential, token: str) -> HttpResponse:
    context = {
        "row": _row(row),
        "token": token,
        "base_url": request.build_absolute_uri("/v1"),
        "model": example_model(row.business) or "MODEL",
    }
    return render(request, "console/credential_made.html", context)


def _row(row: TierCredential) -> CredentialRow:
    return CredentialRow(row, state_of(row, timezone.now()))
