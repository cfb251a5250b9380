"""Pages of those who settle the month: its bills, prices and credit notes."""

from datetime import date
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib import messages
from django.core.cache import cache
from django.core.paginator import Paginator
from django.db.models import Count, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.access import role_required, signed_in
from console.forms.finance import CreditNoteForm, month_in
from console.models import User
from console.refusals import said
from metering.core.periods import month_of, next_month
from metering.errors import BillingRequestError
from metering.models import Bill, BillArchive, CreditNote, MonthClose
from metering.selectors import bills as selectors
from metering.selectors.showback import Spent, all_month_to_date
from metering.services import bills as services
from metering.services.archives import request_archive
from metering.services.month_close import begin_close

PER_PAGE = 100
MONTHS_SHOWN = 12
FRESH_S = 60


@require_safe
@role_required(User.Role.FINANCE)
def usage(request: HttpRequest) -> HttpResponse:
    """What every business has used and spent in the running month of the billing time zone."""
    now = timezone.now()
    # Everybody's open days are added up from the rows: once a minute is often enough.
    found: list[Spent] = cache.get_or_set("month-to-date", all_month_to_date, FRESH_S) or []
    rows = sorted(found, key=lambda row: (-row.amount, row.business))
    context = {
        "month": month_of(now, ZoneInfo(settings.BILLING_TZ)),
        "as_of": rows[0].as_of if rows else now,
        "page": Paginator(rows, PER_PAGE).get_page(request.GET.get("page")),
        "requests": sum(row.requests for row in rows),
        "tokens": sum(row.tokens for row in rows),
        "amount": sum((row.amount for row in rows), Decimal(0)),
        "forecast": sum((row.forecast for row in rows), Decimal(0)),
        "timezone": settings.BILLING_TZ,
        "currency": settings.BILLING_CURRENCY,
    }
    return render(request, "console/usage.html", context)


@require_safe
@role_required(User.Role.FINANCE)
def bills(request: HttpRequest) -> HttpResponse:
    """All bills of a month with their totals; closing it, and its zip."""
    month = chosen_month(request)
    found = selectors.bills(month=month).order_by("business")
    totals = Bill.objects.filter(month=month).aggregate(
        count=Count("pk"), total=Sum("total", default=Decimal(0))
    )
    credited = CreditNote.objects.filter(bill__month=month).aggregate(
        all=Sum("amount", default=Decimal(0))
    )["all"]
    context = {
        "month": month,
        "months": recent_months(),
        "close": MonthClose.objects.filter(month=month).first(),
        "over": next_month(month) <= month_of(timezone.now(), ZoneInfo(settings.BILLING_TZ)),
        "archive": selectors.archives(month).first(),
        "page": Paginator(found, PER_PAGE).get_page(request.GET.get("page")),
        "count": totals["count"],
        "total": totals["total"],
        "credited": credited,
        "due": totals["total"] - credited,
        "currency": settings.BILLING_CURRENCY,
    }
    return render(request, "console/finance_bills.html", context)


@require_POST
@role_required(User.Role.FINANCE)
def close(request: HttpRequest) -> HttpResponse:
    """Close the month, and whatever before it is still open; the bills come in the background."""
    month = _posted_month(request)
    try:
        begun = begin_close(month, actor=signed_in(request))
    except BillingRequestError as refusal:
        messages.error(request, said(refusal))
    else:
        if begun:
            messages.success(
                request, _("The month is closed. Its bills are issued in the background.")
            )
        else:
            messages.info(request, _("The month was closed already."))
    return _to_month(month)


@require_safe
@role_required(User.Role.FINANCE)
def closing(request: HttpRequest, month: str) -> HttpResponse:
    """How far the bills of a month that is being closed have come; when they are all there, the
    whole page is fetched anew."""
    found = month_in(month)
    close = MonthClose.objects.filter(month=found).first() if found else None
    if close is None:
        raise Http404
    context = {"close": close, "month": close.month, "count": _bill_count(close.month)}
    response = render(request, "console/_closing.html", context)
    if close.billed_at is not None:
        response.headers["HX-Refresh"] = "true"
    return response


@require_POST
@role_required(User.Role.FINANCE)
def make_archive(request: HttpRequest) -> HttpResponse:
    """Have all bills of the month put into one file, in the background."""
    month = _posted_month(request)
    try:
        request_archive(month, actor=signed_in(request))
    except BillingRequestError as refusal:
        messages.error(request, said(refusal))
    return _to_month(month)


@require_safe
@role_required(User.Role.FINANCE)
def archive(request: HttpRequest, pk: int) -> HttpResponse:
    """The zip itself, or how far it has come."""
    held = BillArchive.objects.filter(pk=pk).first()
    if held is None:
        raise Http404
    if "progress" in request.GET:
        return render(request, "console/_archive.html", {"archive": held, "month": held.month})
    if held.state != BillArchive.State.READY or held.content is None:
        raise Http404
    response = HttpResponse(bytes(held.content), content_type="application/zip")
    response.headers["Content-Disposition"] = f'attachment; filename="bills-{held.month:%Y-%m}.zip"'
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.FINANCE)
def credit_notes(request: HttpRequest) -> HttpResponse:
    """All credit notes, and the form for a new one."""
    posted = request.POST if request.method == "POST" else None
    form = CreditNoteForm(posted, initial={"bill": request.GET.get("bill", "")})
    if form.is_bound and form.is_valid():
        bill = Bill.objects.filter(number=form.cleaned_data["bill"]).first()
        if bill is None:
            form.add_error("bill", _("There is no such bill."))
        else:
            try:
                note = services.credit(
                    bill,
                    form.cleaned_data["amount"],
                    form.cleaned_data["reason"],
                    actor=signed_in(request),
                )
            except BillingRequestError as refusal:
                form.add_error(None, said(refusal))
            else:
                text = _("Credit note %(name)s is issued.") % {"name": note.label}
                messages.success(request, text)
                return redirect("finance-credit-notes")
    rows = CreditNote.objects.select_related("bill", "issued_by").order_by("-number")
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    status = 422 if form.errors else 200
    context = {"form": form, "page": page}
    return render(request, "console/credit_notes.html", context, status=status)


def _bill_count(month: date) -> int:
    return Bill.objects.filter(month=month).count()


def chosen_month(request: HttpRequest) -> date:
    """The month in the address; else the last one that is over."""
    given = month_in(request.GET.get("month", ""))
    return given or recent_months()[1]


def recent_months() -> list[date]:
    """The running month of the billing time zone and those before it."""
    month = month_of(timezone.now(), ZoneInfo(settings.BILLING_TZ))
    found = [month]
    while len(found) < MONTHS_SHOWN:
        month = date(month.year - (month.month == 1), (month.month - 2) % 12 + 1, 1)
        found.append(month)
    return found


def _posted_month(request: HttpRequest) -> date:
    month = month_in(request.POST.get("month", ""))
    if month is None:
        raise Http404
    return month


def _to_month(month: date) -> HttpResponse:
    return redirect(f"{reverse('finance-bills')}?month={month:%Y-%m}")
