"""Prices: all versions, and the form for the next one."""

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.access import role_required, signed_in
from console.forms.finance import (
    ModelPriceForms,
    PriceBookForm,
    initial_prices,
    price_list,
)
from console.models import User
from console.refusals import said
from console.templatetags.figures import plain_number
from metering.errors import BillingRequestError
from metering.models import PriceBook
from metering.selectors import prices as selectors
from metering.services.prices import set_prices, withdraw_prices
from scheduler.models import ModelDeployment

PER_PAGE = 10


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.FINANCE)
def prices(request: HttpRequest) -> HttpResponse:
    """The versions, and a form filled with the latest one's prices."""
    latest = selectors.price_books().first()
    held = None if latest is None else selectors.price_list(latest)
    initial = [] if held is None else initial_prices(held)
    posted = request.POST if request.method == "POST" else None
    book = PriceBookForm(
        posted,
        initial={}
        if held is None
        else {
            "preemption_credit": plain_number(held.preemption_credit),
            "preemption_surcharge": plain_number(held.preemption_surcharge),
        },
    )
    rows = ModelPriceForms(posted, initial=initial, prefix="models")
    status = 200
    # Both are looked at, so that all problems are shown at once.
    if posted is not None:
        if all([book.is_valid(), rows.is_valid()]):
            try:
                made = set_prices(
                    price_list(book, rows),
                    starts_at=book.cleaned_data["starts_at"],
                    note=book.cleaned_data["note"],
                    actor=signed_in(request),
                )
            except BillingRequestError as refusal:
                book.add_error(None, said(refusal))
            else:
                text = _("Version %(version)d of the prices is set.") % {"version": made.version}
                messages.success(request, text)
                return redirect("finance-prices")
        status = 422
    now = timezone.now()
    page = Paginator(selectors.price_books(), PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "book": book,
        "rows": rows,
        "page": page,
        "valid": selectors.prices_at(now).version,
        "now": now,
        "currency": settings.BILLING_CURRENCY,
        "models": ModelDeployment.objects.values_list("name", flat=True),
    }
    return render(request, "console/prices.html", context, status=status)


@require_POST
@role_required(User.Role.FINANCE)
def withdraw(request: HttpRequest, version: int) -> HttpResponse:
    """Take back a version that has not begun."""
    book = PriceBook.objects.filter(version=version).first()
    if book is None:
        raise Http404
    try:
        withdraw_prices(book, actor=signed_in(request))
    except BillingRequestError as refusal:
        messages.error(request, said(refusal))
    else:
        messages.success(request, _("Version %(version)d is withdrawn.") % {"version": version})
    return redirect("finance-prices")
