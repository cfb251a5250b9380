"""Pages of those who run the fleet."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.access import LIVE_ROLES, role_required
from console.views.live_parts import live_context


@require_safe
@role_required(*LIVE_ROLES)
def live(request: HttpRequest) -> HttpResponse:
    """The live page: a frame without numbers, which come over the WebSocket."""
    return render(request, "console/live.html", live_context())
