"""What is on record: the story of one request, and the audit."""

import re
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import LIVE_ROLES, role_required
from metering.models import AuditBatch, AuditEntry, UsageRecord
from metering.selectors.charges import charge_of
from scheduler.models import DecisionLog
from scheduler.selectors.decisions import story

PER_PAGE = 40
REQUEST = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TOLD = ("preempt", "refuse", "promote", "degrade", "outcome")


@require_safe
@role_required(*LIVE_ROLES)
def decisions(request: HttpRequest) -> HttpResponse:
    """One request's whole story by its id, or the last decisions worth a look."""
    asked = request.GET.get("request", "").strip().lower()
    context: dict[str, Any] = {"asked": asked, "kinds": TOLD}
    if REQUEST.fullmatch(asked):
        context["steps"] = story(asked)
        usage = UsageRecord.objects.filter(pk=asked).first()
        context["usage"] = usage
        context["charge"] = None if usage is None else charge_of(usage)
        context["currency"] = settings.BILLING_CURRENCY
        context["found"] = bool(context["steps"]) or usage is not None
    elif asked:
        context["no_id"] = True
    else:
        kind = request.GET.get("kind", "")
        rows = DecisionLog.objects.exclude(request="").order_by("-at", "-pk")
        if kind in TOLD:
            rows = rows.filter(kind=kind)
        context |= {"kind": kind, "recent": rows[:PER_PAGE]}
    return render(request, "console/decisions.html", context)


@require_safe
@role_required(*LIVE_ROLES)
def audit(request: HttpRequest) -> HttpResponse:
    """Who changed what, newest first, and how far the chain reaches."""
    action, business = (request.GET.get(name, "").strip() for name in ("action", "business"))
    rows = AuditEntry.objects.order_by("-pk")
    if action:
        rows = rows.filter(Q(action=action) | Q(action__startswith=f"{action}."))
    if business:
        rows = rows.filter(business=business)
    before = request.GET.get("before", "")
    if before.isascii() and before.isdigit():
        rows = rows.filter(pk__lt=int(before))
    found = list(rows[: PER_PAGE + 1])
    context = {
        "rows": found[:PER_PAGE],
        "older": found[PER_PAGE - 1].pk if len(found) > PER_PAGE else None,
        "action": action,
        "business": business,
        "topics": TOPICS,
        "batch": AuditBatch.objects.first(),
    }
    return render(request, "console/audit.html", context)


# The first words of actions.
TOPICS = (
    "user",
    "key",
    "credential",
    "quota",
    "business",
    "policy",
    "canary",
    "replica",
    "pool",
    "model",
    "price",
    "bill",
    "priority",
)
