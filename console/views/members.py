"""Who belongs to a business: added, given another role, removed."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.access import (
    Reach,
    business_to_change,
    member_to_change,
    reach_of,
    role_required,
    signed_in,
)
from console.forms.members import AddMemberForm
from console.models import User
from console.refusals import said
from metering.errors import MemberRequestError
from metering.models import Membership
from metering.services.members import add_member, change_member, remove_member

PER_PAGE = 50


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.OWNER)
def members(request: HttpRequest) -> HttpResponse:
    """The list, and the form to add somebody."""
    if request.method != "POST":
        reach = reach_of(request)
        if reach is None:
            return render(request, "console/no_business.html")
        form = AddMemberForm(initial={"business": reach.business.name})
        return _show_list(request, reach, form)
    business = business_to_change(request, request.POST.get("business", ""))
    form = AddMemberForm(request.POST)
    if form.is_valid():
        person = form.cleaned_data["person"]
        try:
            add_member(business, person, form.cleaned_data["role"], actor=signed_in(request))
        except MemberRequestError as refusal:
            form.add_error("person", said(refusal))
        else:
            messages.success(
                request, _("%(name)s belongs to the business now.") % {"name": person.username}
            )
            return redirect("members")
    reach = reach_of(request, business.name)
    assert reach is not None, "somebody who may change a business is a member of it"
    return _show_list(request, reach, form, status=422)


@require_POST
@role_required(User.Role.OWNER)
def change(request: HttpRequest, pk: int) -> HttpResponse:
    """Give somebody another role."""
    member = member_to_change(request, pk)
    try:
        change_member(member, request.POST.get("role", ""), actor=signed_in(request))
    except MemberRequestError as refusal:
        messages.error(request, said(refusal))
    else:
        messages.success(
            request, _("%(name)s has another role now.") % {"name": member.user.get_username()}
        )
    return redirect("members")


@require_http_methods(["GET", "HEAD", "POST"])
@role_required(User.Role.OWNER)
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask once more, then end the membership."""
    member = member_to_change(request, pk)
    if request.method == "POST":
        name = member.user.get_username()
        try:
            remove_member(member, actor=signed_in(request))
        except MemberRequestError as refusal:
            messages.error(request, said(refusal))
        else:
            messages.success(
                request, _("%(name)s no longer belongs to the business.") % {"name": name}
            )
        return redirect("members")
    return render(request, "console/member_remove.html", {"member": member})


def _show_list(
    request: HttpRequest, reach: Reach, form: AddMemberForm, status: int = 200
) -> HttpResponse:
    rows = (
        Membership.objects.filter(business=reach.business)
        .select_related("user")
        .order_by("user__username")
    )
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    context = {"reach": reach, "form": form, "page": page}
    return render(request, "console/members.html", context, status=status)
