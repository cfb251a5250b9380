"""One's own management tokens: made, shown once, revoked."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from console.access import role_required, signed_in
from console.api.routes import scopes_of
from console.forms.tokens import TokenForm
from console.models import ManagementToken, User
from console.refusals import said
from console.services.tokens import TokenRequestError, create_token, revoke_token

PER_PAGE = 50


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@role_required(*User.Role)
def tokens(request: HttpRequest) -> HttpResponse:
    """The list and the form; the answer to that is all that ever shows the token."""
    person = signed_in(request)
    allowed = scopes_of(person.role)
    form = TokenForm(allowed, request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            row, secret = create_token(
                person,
                form.cleaned_data["name"],
                scopes=form.cleaned_data["scopes"],
                allowed=allowed,
                lifetime=form.lifetime(),
            )
        except TokenRequestError as refusal:
            form.add_error(None, said(refusal))
        else:
            context = {
                "made": row,
                "secret": secret,
                "base": request.build_absolute_uri("/api/v1/"),
            }
            return render(request, "console/token_made.html", context)
    now = timezone.now()
    rows = ManagementToken.objects.filter(user=person, revoked_at=None, expires_at__gt=now)
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    status = 422 if form.errors else 200
    return render(request, "console/tokens.html", {"form": form, "page": page}, status=status)


@require_POST
@role_required(*User.Role)
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Withdraw one of one's own."""
    person = signed_in(request)
    token = get_object_or_404(ManagementToken, pk=pk, user=person)
    revoke_token(token, actor=person)
    messages.success(request, _("Token “%(name)s” is revoked.") % {"name": token.name})
    return redirect("tokens")
