"""Signing in, and choosing a business."""

from typing import Any

from django.conf import settings
from django.contrib.auth.views import LoginView, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.access import BUSINESS_SESSION_KEY, role_required, signed_in
from console.forms.sign_in import SignInForm
from console.models import User
from console.navigation import local
from metering.models import Membership
from metering.services import audit


class SignIn(LoginView):
    """Django's sign-in page; 429 with Retry-After while somebody is held off."""

    template_name = "console/sign_in.html"
    form_class = SignInForm
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """With the name of the single sign-on, where there is one."""
        sign_on = settings.OIDC_NAME if settings.OIDC_ISSUER else ""
        return {**super().get_context_data(**kwargs), "sign_on": sign_on}

    def form_valid(self, form: SignInForm) -> HttpResponse:  # type: ignore[override]
        """Let them in, and say so in the audit trail."""
        user = form.get_user()
        audit.record("user.sign_in", actor=user, source="console", target=user.get_username())
        return super().form_valid(form)

    def form_invalid(self, form: SignInForm) -> HttpResponse:  # type: ignore[override]
        """The form again, with what is wrong."""
        response = super().form_invalid(form)
        if form.wait_s:
            response.status_code = 429
            response.headers["Retry-After"] = str(form.wait_s)
        return response


def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """Where the Django admin sends strangers, and people who are signed in but may not enter."""
    if request.user.is_authenticated:
        raise PermissionDenied
    return redirect_to_login(request.GET.get("next") or reverse("admin:index"))


@require_POST
@role_required(User.Role.OWNER)
def choose_business(request: HttpRequest) -> HttpResponse:
    """Show another of one's businesses from now on, in every window."""
    name = request.POST.get("business", "")
    if not Membership.objects.filter(user=signed_in(request), business__name=name).exists():
        raise Http404
    request.session[BUSINESS_SESSION_KEY] = name
    return redirect(local(request, request.POST.get("next", "")) or "overview")
