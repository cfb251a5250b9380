"""Pages of those who settle the month."""

from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.access import role_required
from console.models import User
from metering.selectors.overview import usage_by_business


@require_safe
@role_required(User.Role.FINANCE)
def usage(request: HttpRequest) -> HttpResponse:
    """What every business used in the running month of the billing time zone."""
    now = timezone.now().astimezone(ZoneInfo(settings.BILLING_TZ))
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    rows = usage_by_business(month, now)
    context = {
        # As a date, which no template converts to another time zone.
        "month": month.date(),
        "rows": rows,
        "requests": sum(row.requests for row in rows),
        "prompt_tokens": sum(row.prompt_tokens for row in rows),
        "completion_tokens": sum(row.completion_tokens for row in rows),
        "timezone": settings.BILLING_TZ,
    }
    return render(request, "console/usage.html", context)
