"""Who hears of it when the budget is nearly spent: addresses added and removed, and what was
sent there."""

from django.conf import settings
from django.contrib import messages
from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.access import (
    Reach,
    alert_target_to_change,
    business_to_change,
    reach_of,
    role_required,
    signed_in,
)
from console.forms.alerts import AlertTargetForm
from console.models import User
from console.refusals import said
from metering.errors import BillingRequestError
from metering.models import AlertDelivery, AlertTarget, BudgetAlert, Membership
from metering.services.alert_targets import add_target, remove_target
from metering.services.alerts import PERCENTS

ALERTS_SHOWN = 12


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.OWNER)
def alerts(request: HttpRequest) -> HttpResponse:
    """The addresses, and the form for one more."""
    if request.method != "POST":
        reach = reach_of(request)
        if reach is None:
            return render(request, "console/no_business.html")
        return _show(request, reach, AlertTargetForm(initial={"business": reach.business.name}))
    business = business_to_change(request, request.POST.get("business", ""))
    form = AlertTargetForm(request.POST)
    if form.is_valid():
        kind, address = form.cleaned_data["kind"], form.cleaned_data["address"]
        try:
            target, secret = add_target(business, kind, address, actor=signed_in(request))
        except BillingRequestError as refusal:
            form.add_error("address", said(refusal))
        else:
            if secret:
                context = {"target": target, "secret": secret}
                return render(request, "console/alert_made.html", context)
            text = _("Alerts go to %(address)s as well now.") % {"address": target.address}
            messages.success(request, text)
            return redirect("alerts")
    reach = reach_of(request, business.name)
    assert reach is not None, "somebody who may change a business is a member of it"
    return _show(request, reach, form, status=422)


@require_POST
@role_required(User.Role.OWNER)
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Send nothing more to an address."""
    target = alert_target_to_change(request, pk)
    address = target.address
    remove_target(target, actor=signed_in(request))
    messages.success(request, _("No more alerts go to %(address)s.") % {"address": address})
    return redirect("alerts")


def _show(
    request: HttpRequest, reach: Reach, form: AlertTargetForm, status: int = 200
) -> HttpResponse:
    owners = (
        Membership.objects.filter(
            business=reach.business, role=Membership.Role.OWNER, user__is_active=True
        )
        .exclude(user__email="")
        .select_related("user")
        .order_by("user__username")
    )
    sent = BudgetAlert.objects.filter(business=reach.business.name).prefetch_related(
        Prefetch("deliveries", AlertDelivery.objects.order_by("kind", "address"))
    )
    context = {
        "reach": reach,
        "form": form,
        "owners": owners,
        "targets": AlertTarget.objects.filter(business=reach.business),
        "sent": sent[:ALERTS_SHOWN],
        "percents": PERCENTS,
        "mails": bool(settings.SMTP_URL),
        "currency": settings.BILLING_CURRENCY,
    }
    return render(request, "console/alerts.html", context, status=status)
