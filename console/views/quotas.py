"""Limits beside their use: changed inside the envelope at once, asked for beyond it."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.access import Reach, business_to_change, reach_of, role_required, signed_in
from console.forms.quotas import LABELS, UNITS, LimitsForm, initial_of, most_of, shown
from console.live.present import present_business
from console.models import User
from console.refusals import said, translated
from metering.core.quotas import FIELDS, Limits, beyond
from metering.errors import QuotaRequestError
from metering.models import Business, Quota, QuotaRequest
from metering.selectors.quota_use import rate_use
from metering.selectors.showback import month_to_date
from metering.services.businesses import set_profile
from metering.services.quotas import (
    envelope_of,
    request_quota,
    set_quota,
    withdraw_quota_request,
)

Values = Mapping[str, int | float | Decimal | None]


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One limit: as it is, its present use, and the most that the owner may set (``bounded``
    False: operations set no bound)."""

    name: str
    label: Promise
    unit: Promise | str
    limit: float | Decimal | None
    used: float | Decimal | None
    most: float | Decimal | None
    bounded: bool

    @property
    def ratio(self) -> int | None:
        """Use in per cent of the limit; None where one of them is not known."""
        if self.used is None or not self.limit:
            return None
        return min(100, round(100 * float(self.used) / float(self.limit)))


@dataclass(frozen=True, slots=True)
class Change:
    """One limit before and after."""

    label: Promise
    unit: Promise | str
    before: float | Decimal | None
    after: float | Decimal | None


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.OWNER)
def quotas(request: HttpRequest) -> HttpResponse:
    """The limits; a change is first shown with its effect, and made when it is confirmed."""
    if request.method != "POST":
        reach = reach_of(request)
        if reach is None:
            return render(request, "console/no_business.html")
        form = LimitsForm(initial=initial_of(reach.business.name, _held(reach.business)))
        return _show(request, reach, form)
    business = business_to_change(request, request.POST.get("business", ""))
    form = LimitsForm(request.POST)
    if form.is_valid():
        changes = form.changes()
        if not changes:
            messages.info(request, _("Nothing was changed."))
            return redirect("quotas")
        if "sure" not in request.POST:
            return _show_effect(request, business, form, changes)
        try:
            _make(request, business, changes)
        except QuotaRequestError as refusal:
            for name in refusal.problems or {"": ""}:
                text = translated(refusal.problems.get(name, str(refusal)))
                form.add_error(name if name in FIELDS else None, text)
        else:
            return redirect("quotas")
    reach = reach_of(request, business.name)
    assert reach is not None, "somebody who may change a business is a member of it"
    return _show(request, reach, form, status=422)


@require_POST
@role_required(User.Role.OWNER)
def lighter(request: HttpRequest) -> HttpResponse:
    """Say whether a lighter model may answer in place of a refusal."""
    business = business_to_change(request, request.POST.get("business", ""))
    may = request.POST.get("degrade") == "on"
    set_profile(business, {"degrade": may}, actor=signed_in(request))
    messages.success(
        request,
        _("A lighter model may answer now, where the policy has it.")
        if may
        else _("Only the model that was asked for answers now."),
    )
    return redirect("quotas")


@require_POST
@role_required(User.Role.OWNER)
def withdraw(request: HttpRequest) -> HttpResponse:
    """Take the open request back."""
    business = business_to_change(request, request.POST.get("business", ""))
    row = QuotaRequest.objects.filter(business=business, status=QuotaRequest.Status.OPEN).first()
    if row is None:
        raise Http404
    try:
        withdraw_quota_request(row, actor=signed_in(request))
    except QuotaRequestError as refusal:
        messages.error(request, said(refusal))
    else:
        messages.success(request, _("The request is withdrawn."))
    return redirect("quotas")


def _make(request: HttpRequest, business: Business, changes: Values) -> None:
    """What the envelope allows at once, the rest as a request: both or neither."""
    person = signed_in(request)
    asked = beyond(changes, envelope_of(business))
    now = {name: value for name, value in changes.items() if name not in asked}
    with transaction.atomic():
        if now:
            set_quota(business, now, actor=person)
        if asked:
            wanted = {name: changes[name] for name in asked}
            reason = request.POST.get("reason", "")
            request_quota(business, wanted, reason=reason, actor=person)
    if now:
        messages.success(request, _("The new limits hold within two seconds."))
    if asked:
        messages.success(request, _("Operations will decide about your request."))


def _held(business: Business) -> Quota | None:
    return Quota.objects.filter(business=business, kind=Quota.Kind.LIMIT).first()


def _show(request: HttpRequest, reach: Reach, form: LimitsForm, status: int = 200) -> HttpResponse:
    envelope = envelope_of(reach.business)
    asked = QuotaRequest.objects.filter(business=reach.business).order_by("-pk").first()
    context = {
        "reach": reach,
        "form": form,
        "limits": [
            (form[row.name], form.seen(row.name), row)
            for row in _rows(reach.business, _held(reach.business), envelope)
        ],
        "envelope": envelope,
        "asked": asked,
        "wanted": [] if asked is None else _wanted(asked),
    }
    return render(request, "console/quotas.html", context, status=status)


def _show_effect(
    request: HttpRequest, business: Business, form: LimitsForm, changes: Values
) -> HttpResponse:
    held = _held(business)
    asked = beyond(changes, envelope_of(business))
    rows = {
        name: Change(
            LABELS[name],
            UNITS[name],
            shown(name, None if held is None else getattr(held, name)),
            shown(name, value),
        )
        for name, value in changes.items()
    }
    context = {
        "business": business,
        "fields": [(form[name], form.seen(name)) for name in FIELDS],
        "now": [row for name, row in rows.items() if name not in asked],
        "asked": [row for name, row in rows.items() if name in asked],
    }
    return render(request, "console/quotas_effect.html", context)


def _rows(business: Business, held: Quota | None, envelope: Limits | None) -> list[LimitRow]:
    rates = rate_use(business.name)
    live = present_business(business.name)
    used: dict[str, float | Decimal | None] = {
        "requests_per_s": round(rates.requests_per_s, 2),
        "tokens_per_min": rates.tokens_per_min,
        "running": None if live is None else sum(lane.running for lane in live.lanes.values()),
        "queued": None if live is None else sum(lane.queued for lane in live.lanes.values()),
        "monthly_budget": round(month_to_date(business.name).amount, 2),
    }
    return [
        LimitRow(
            name=name,
            label=LABELS[name],
            unit=UNITS[name],
            limit=shown(name, None if held is None else getattr(held, name)),
            used=used.get(name),
            most=most_of(envelope, name),
            bounded=envelope is None or getattr(envelope, name) is not None,
        )
        for name in FIELDS
    ]


def _wanted(asked: QuotaRequest) -> list[tuple[Promise, float | Decimal | None, Promise | str]]:
    """Label, value and unit of each limit that was asked for."""
    found = []
    for name, value in asked.wanted.items():
        number = None if value is None else Decimal(str(value))
        found.append((LABELS[name], shown(name, number), UNITS[name]))
    return found
