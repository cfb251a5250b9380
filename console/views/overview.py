"""A business's own first page, and the way to everybody else's."""

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from console.access import reach_of, signed_in
from console.models import User
from console.navigation import first_page
from console.views.live_parts import live_context
from metering.selectors import overview as selectors
from metering.selectors.showback import month_to_date

PERIODS = {
    "1h": (_("Last hour"), timedelta(hours=1)),
    "24h": (_("Last 24 hours"), timedelta(hours=24)),
    "7d": (_("Last 7 days"), timedelta(days=7)),
}
RECENT = 20


@require_safe
@login_required
def overview(request: HttpRequest) -> HttpResponse:
    """The owner's page; everyone else is sent to their own first page."""
    user = signed_in(request)
    if user.role != User.Role.OWNER:
        return redirect(first_page(user))
    reach = reach_of(request)
    if reach is None:
        return render(request, "console/no_business.html")
    period = request.GET.get("period", "")
    if period not in PERIODS:
        period = "24h"
    now = timezone.now()
    name = reach.business.name
    return render(
        request,
        "console/overview.html",
        {
            **live_context(),
            "reach": reach,
            "periods": [(key, label) for key, (label, _span) in PERIODS.items()],
            "period": period,
            "usage": selectors.usage_of(name, now - PERIODS[period][1]),
            "spent": month_to_date(name),
            "currency": settings.BILLING_CURRENCY,
            "recent": selectors.recent_requests(name, RECENT),
        },
    )
