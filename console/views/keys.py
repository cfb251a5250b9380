"""API keys of a business: shown once, rotated, revoked."""

from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages
from django.core.paginator import Page, Paginator
from django.db.models import F
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from console.access import (
    Reach,
    business_to_change,
    key_to_change,
    reach_of,
    role_required,
    signed_in,
)
from console.forms.keys import CreateKeyForm, RotateKeyForm
from console.models import User
from console.refusals import said
from console.snippets import example_model, snippets_for
from metering.errors import KeyRequestError
from metering.models import ApiKey, Business
from metering.services.keys import create_key, revoke_key, rotate_key

PER_PAGE = 50


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key and the state it is in: working, ending (it expires), expired or revoked."""

    key: ApiKey
    state: str

    @property
    def works(self) -> bool:
        """Whether the gateway still takes it."""
        return self.state in {"working", "ending"}


def state_of(key: ApiKey, now: datetime) -> str:
    """What the gateway makes of the key at ``now``."""
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is None:
        return "working"
    return "ending" if key.expires_at > now else "expired"


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.OWNER)
def keys(request: HttpRequest) -> HttpResponse:
    """The list and the form for a new key; the answer to that is all that ever shows the key."""
    if request.method == "POST":
        return _create(request)
    reach = reach_of(request)
    if reach is None:
        return render(request, "console/no_business.html")
    form = CreateKeyForm(initial={"business": reach.business.name})
    return _show_list(request, reach, form)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.OWNER)
def rotate(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for the overlap, then show the successor once."""
    key = key_to_change(request, pk)
    form = RotateKeyForm(request.POST if request.method == "POST" else None)
    if form.is_bound and form.is_valid():
        try:
            made, secret = rotate_key(key, overlap=form.overlap(), actor=signed_in(request))
        except KeyRequestError as refusal:
            form.add_error(None, said(refusal))
        else:
            return _show_once(request, made, secret, replaced=key)
    row = KeyRow(key, state_of(key, timezone.now()))
    return render(request, "console/key_rotate.html", {"row": row, "form": form})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.OWNER)
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask once more, then withdraw the key for good."""
    key = key_to_change(request, pk)
    if request.method == "POST":
        revoke_key(key, actor=signed_in(request))
        messages.success(request, _("Key “%(name)s” is revoked.") % {"name": key.name})
        return redirect("keys")
    row = KeyRow(key, state_of(key, timezone.now()))
    return render(request, "console/key_revoke.html", {"row": row})


def _create(request: HttpRequest) -> HttpResponse:
    # The form names its business: another window may have switched to a different one.
    business = business_to_change(request, request.POST.get("business", ""))
    form = CreateKeyForm(request.POST)
    if form.is_valid():
        lifetime = form.lifetime()
        expires_at = None if lifetime is None else timezone.now() + lifetime
        try:
            made, secret = create_key(
                business,
                form.cleaned_data["name"],
                actor=signed_in(request),
                expires_at=expires_at,
            )
        except KeyRequestError as refusal:
            form.add_error(None, said(refusal))
        else:
            return _show_once(request, made, secret)
    reach = reach_of(request, business.name)
    assert reach is not None, "somebody who may change a business is a member of it"
    return _show_list(request, reach, form, status=422)


def _show_list(
    request: HttpRequest, reach: Reach, form: CreateKeyForm, status: int = 200
) -> HttpResponse:
    rows, page = _page(request, reach.business)
    context = {"reach": reach, "form": form, "rows": rows, "page": page}
    return render(request, "console/keys.html", context, status=status)


def _show_once(
    request: HttpRequest, made: ApiKey, secret: str, *, replaced: ApiKey | None = None
) -> HttpResponse:
    """The page with the new key on it. It is in no session, so a reload can't show it again."""
    context = {
        "made": made,
        "secret": secret,
        "replaced": replaced,
        "snippets": snippets_for(
            secret, request.build_absolute_uri("/v1"), example_model(made.business)
        ),
    }
    return render(request, "console/key_made.html", context)


def _page(request: HttpRequest, business: Business) -> tuple[list[KeyRow], Page[ApiKey]]:
    """One page of the business's keys, those that work first."""
    now = timezone.now()
    held = ApiKey.objects.filter(business=business).order_by(
        F("revoked_at").asc(nulls_first=True), "-created_at", "-pk"
    )
    page = Paginator(held, PER_PAGE).get_page(request.GET.get("page"))
    return [KeyRow(key, state_of(key, now)) for key in page.object_list], page
