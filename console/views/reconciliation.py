"""Whether usage rows, statements and bills agree."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_http_methods

from console.access import role_required
from console.forms.finance import month_in
from console.models import User
from console.views.finance import chosen_month, recent_months
from metering.selectors.reconciliation import latest_report
from metering.services.reconciliation import reconcile

NAMES = {
    "rows = statements": _lazy("Usage rows = statements"),
    "late rows = adjustments": _lazy("Late rows = adjustments"),
    "statements = bills": _lazy("Statements = bills"),
    "lines = totals": _lazy("Bill lines = totals"),
    "GPU time": _lazy("GPU time"),
}
SIDES = {
    "usage rows": _lazy("usage rows"),
    "statements": _lazy("statements"),
    "late rows": _lazy("late rows"),
    "adjustments": _lazy("adjustments"),
    "statements and adjustments": _lazy("statements and adjustments"),
    "bill lines": _lazy("bill lines"),
    "bill lines, rounded": _lazy("bill lines, rounded"),
    "bill totals": _lazy("bill totals"),
    "charged + not charged + idle": _lazy("charged + not charged + idle"),
    "wall clock": _lazy("wall clock"),
}
NOTES = {
    "the rows are no longer kept": _lazy("The rows are no longer kept."),
    "late rows wait to be settled": _lazy("Late rows wait to be settled."),
}


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One comparison as the page shows it."""

    name: object
    left_name: object
    right_name: object
    left: Decimal
    right: Decimal
    left_requests: int
    right_requests: int
    differences: int
    examples: list[str]
    note: object


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.FINANCE)
def reconciliation(request: HttpRequest) -> HttpResponse:
    """The last report of a month; a POST makes a new one."""
    if request.method == "POST":
        month = month_in(request.POST.get("month", ""))
        if month is not None:
            reconcile(month)
        chosen = "" if month is None else f"?month={month:%Y-%m}"
        return redirect(f"{reverse('finance-reconciliation')}{chosen}")
    month = chosen_month(request)
    report = latest_report(month)
    data: dict[str, Any] = {} if report is None else report.data
    context = {
        "month": month,
        "months": recent_months(),
        "report": report,
        "checks": [_row(each) for each in data.get("checks", [])],
        "gpu": _gpu(data.get("gpu")),
    }
    return render(request, "console/reconciliation.html", context)


def _row(check: dict[str, Any]) -> CheckRow:
    return CheckRow(
        name=NAMES.get(check["name"], check["name"]),
        left_name=SIDES.get(check["left_name"], check["left_name"]),
        right_name=SIDES.get(check["right_name"], check["right_name"]),
        left=Decimal(check["left"]),
        right=Decimal(check["right"]),
        left_requests=check["left_requests"],
        right_requests=check["right_requests"],
        differences=check["differences"],
        examples=list(check["examples"]),
        note=NOTES.get(check["note"], check["note"]),
    )


def _gpu(gpu: dict[str, str] | None) -> list[tuple[str, Decimal]]:
    """GPU-seconds by what became of them."""
    if gpu is None:
        return []
    return [
        (_("Charged"), Decimal(gpu["billed"])),
        (_("Used and not charged"), Decimal(gpu["unbilled"])),
        (_("Idle"), Decimal(gpu["idle"])),
        (_("Wall clock"), Decimal(gpu["wall"])),
    ]
