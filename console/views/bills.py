"""Bills: an owner's own, and the one page of a bill that owners and finance share."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from django.conf import settings
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from console.access import reach_of, role_required, signed_in
from console.models import User
from metering.exports import FORMATS, filename
from metering.exports import render as render_file
from metering.models import Bill, Membership
from metering.selectors import bills as selectors
from metering.selectors.showback import month_to_date
from metering.services.bills import places_of

PER_PAGE = 50
CHART_HEIGHT = 120
BAR, GAP = 16, 4


@dataclass(frozen=True, slots=True)
class Bar:
    """One day of a chart, in the chart's own units; ``y`` counts from above."""

    day: date
    amount: Decimal
    x: int
    y: int
    height: int
    width: int = BAR


@require_safe
@role_required(User.Role.OWNER)
def bills(request: HttpRequest) -> HttpResponse:
    """Every bill of the business, the newest first."""
    reach = reach_of(request)
    if reach is None:
        return render(request, "console/no_business.html")
    held = selectors.bills(business=reach.business.name).order_by("-number")
    context = {
        "reach": reach,
        "page": Paginator(held, PER_PAGE).get_page(request.GET.get("page")),
        "spent": month_to_date(reach.business.name),
        "currency": settings.BILLING_CURRENCY,
    }
    return render(request, "console/bills.html", context)


@require_safe
@role_required(User.Role.OWNER, User.Role.FINANCE)
def bill(request: HttpRequest, number: int) -> HttpResponse:
    """One bill: by lane and model, by day, with its credit notes and downloads."""
    held = _visible(request, number)
    document = selectors.bill_document(held, places_of(held.currency))
    context = {
        "bill": held,
        "document": document,
        "bars": bars_of(document.days),
        "chart_width": len(document.days) * (BAR + GAP),
        "chart_height": CHART_HEIGHT,
        "formats": list(FORMATS),
        "finance": signed_in(request).role == User.Role.FINANCE,
    }
    return render(request, "console/bill.html", context)


@require_safe
@role_required(User.Role.OWNER, User.Role.FINANCE)
def download(request: HttpRequest, number: int, suffix: str) -> HttpResponse:
    """The bill as a file."""
    held = _visible(request, number)
    kind = FORMATS.get(suffix)
    if kind is None:
        raise Http404
    document = selectors.bill_document(held, places_of(held.currency))
    response = HttpResponse(render_file(document, suffix), content_type=kind.content_type)
    name = content_disposition_header(as_attachment=True, filename=filename(document, suffix))
    response.headers["Content-Disposition"] = name or "attachment"
    return response


def bars_of(days: list[tuple[date, Decimal]]) -> list[Bar]:
    """A bar a day; the highest fills the chart."""
    most = max((amount for _day, amount in days), default=Decimal(0))
    found = []
    for index, (day, amount) in enumerate(days):
        height = round(CHART_HEIGHT * amount / most) if most > 0 and amount > 0 else 0
        if amount > 0:
            height = max(height, 1)
        found.append(Bar(day, amount, index * (BAR + GAP), CHART_HEIGHT - height, height))
    return found


def _visible(request: HttpRequest, number: int) -> Bill:
    """The bill, for finance and for members of its business; Http404 for everybody else."""
    person = signed_in(request)
    found: QuerySet[Bill] = Bill.objects.filter(number=number)
    if person.role != User.Role.FINANCE:
        own = Membership.objects.filter(user=person).values("business__name")
        found = found.filter(business__in=own)
    held = found.first()
    if held is None:
        raise Http404
    return held
