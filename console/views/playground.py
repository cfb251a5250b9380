"""Try it: a chat through the real gateway, as the business, from the browser itself.

The page asks for a pass: a tier credential of a few minutes, which its script keeps in memory and
sends to the gateway as any application would. Nothing of the conversation reaches the console.
"""

from datetime import timedelta

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from console.access import business_to_change, reach_of, role_required, signed_in
from console.forms.credentials import lanes_up_to
from console.models import User
from console.refusals import said
from console.snippets import example_model, models_of
from metering.errors import CredentialRequestError
from metering.services.credentials import issue_credential

PASS_LIFETIME = timedelta(minutes=15)
# What its passes are called in the list of credentials and in usage.
SERVICE = "console-try"


@require_safe
@role_required(User.Role.OWNER)
def page(request: HttpRequest) -> HttpResponse:
    """The chat box; the numbers beside each answer are the gateway's own headers."""
    reach = reach_of(request)
    if reach is None:
        return render(request, "console/no_business.html")
    context = {
        "reach": reach,
        "models": models_of(reach.business),
        "chosen": example_model(reach.business),
        "lanes": [lane for lane, _label in lanes_up_to(reach.business.ceiling)],
        "texts": _texts(),
    }
    return render(request, "console/try.html", context)


@never_cache
@require_POST
@role_required(User.Role.OWNER)
def issue_pass(request: HttpRequest) -> HttpResponse:
    """A credential of a few minutes for the page's script."""
    business = business_to_change(request, request.POST.get("business", ""))
    try:
        row, token = issue_credential(
            business,
            actor=signed_in(request),
            operations=False,
            lifetime=PASS_LIFETIME,
            svc=SERVICE,
        )
    except CredentialRequestError as refusal:
        return JsonResponse({"error": said(refusal)}, status=400)
    return JsonResponse({"token": token, "expires_at": row.expires_at.isoformat()})


def _texts() -> dict[str, str]:
    """What the script says."""
    return {
        "you": _("You"),
        "answer": _("Answer"),
        "waiting": _("Waiting for a slot…"),
        "stopped": _("Stopped."),
        "refused": _("Refused: %s"),
        "no_gateway": _("The gateway does not answer at this address."),
        "no_pass": _("The console gave no pass. Reload the page."),
        "lane": _("Lane"),
        "wait": _("Waited"),
        "replica": _("Replica"),
        "first": _("First token after"),
        "took": _("Took"),
        "tokens": _("Tokens in / out"),
        "request": _("Request"),
    }
