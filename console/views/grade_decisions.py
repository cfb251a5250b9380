"""What operations say to a business that asks for a better grade."""

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.access import LIVE_ROLES, role_required, signed_in
from console.refusals import said
from metering.errors import GradeRequestError
from metering.models import GradeRequest
from metering.services.grades import decide_grade_request


def waiting() -> QuerySet[GradeRequest]:
    """Open requests, the oldest first."""
    found = GradeRequest.objects.filter(status=GradeRequest.Status.OPEN)
    return found.select_related("business", "asked_by").order_by("pk")


@require_POST
@role_required(*LIVE_ROLES)
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Approve, which gives the business its grade, or decline with a word."""
    row = GradeRequest.objects.select_related("business").filter(pk=pk).first()
    if row is None:
        raise Http404
    try:
        decide_grade_request(
            row,
            approve="approve" in request.POST,
            answer=request.POST.get("answer", ""),
            actor=signed_in(request),
        )
    except GradeRequestError as refusal:
        messages.error(request, said(refusal))
    else:
        messages.success(request, _("It is decided."))
    return redirect("businesses")
