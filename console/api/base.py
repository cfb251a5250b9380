"""What the views of the API are made of.

A view names its ``resource`` (the word in scopes and addresses) and the roles that read and
write it; ``Guarded`` does the rest. Rows that belong to a business come through ``OfBusiness``:
somebody else's are not found, whatever is done to them.
"""

from typing import Any, ClassVar, TypeVar

from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.translation import gettext as _
from rest_framework import mixins
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from console.models import IdempotentWrite, ManagementToken, User
from metering.models import Business, Membership

from .idempotency import RepeatedError, claim, settle
from .permissions import NOBODY, OPERATIONS, caller

Row = TypeVar("Row", bound=Model)


class Guarded(GenericViewSet[Row]):
    """Roles, scopes and ``Idempotency-Key``."""

    resource: ClassVar[str] = ""
    read_roles: ClassVar[frozenset[User.Role]] = NOBODY
    write_roles: ClassVar[frozenset[User.Role]] = NOBODY
    filterset_fields: ClassVar[list[str]] = []
    ordering: ClassVar[tuple[str, ...]] = ("-pk",)
    _claimed: IdempotentWrite | None = None

    @property
    def person(self) -> User:
        """Who asks, or on whose behalf the program does."""
        return caller(self.request)

    @property
    def source(self) -> str:
        """What the audit trail says did it: a person in a session, or a token."""
        auth = self.request.auth
        return f"rest {auth.prefix}" if isinstance(auth, ManagementToken) else "rest"

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """A write is one transaction, together with the row that stands for its key."""
        if request.method in SAFE_METHODS:
            return super().dispatch(request, *args, **kwargs)
        with transaction.atomic():
            response = super().dispatch(request, *args, **kwargs)
            if self._claimed is not None and isinstance(response, Response):
                settle(self._claimed, response)
            elif response.status_code >= 400:
                transaction.set_rollback(True)
            return response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """After the rights are known: has this write happened already?"""
        super().initial(request, *args, **kwargs)
        if request.method not in SAFE_METHODS:
            self._claimed = claim(request, caller(request))

    def handle_exception(self, exc: Exception) -> Response:
        """A repeated write gets the answer that the first had."""
        if isinstance(exc, RepeatedError):
            return exc.response
        return super().handle_exception(exc)


class Listed(mixins.ListModelMixin, mixins.RetrieveModelMixin, Guarded[Row]):
    """Rows to list and to look at."""


class OfBusiness(Listed[Row]):
    """Rows of businesses: an owner sees their own ones', ``all_roles`` see everybody's.

    ``business_field`` leads to the Business; for rows that only name it (usage, statements) it is
    that text's field, and ``by_name`` is set.
    """

    business_field: ClassVar[str] = "business"
    by_name: ClassVar[bool] = False
    all_roles: ClassVar[frozenset[User.Role]] = OPERATIONS

    def rows(self) -> QuerySet[Row]:
        """All of them, before it is asked whose they are."""
        raise Http404

    def get_queryset(self) -> QuerySet[Row]:
        """Those that this person may know of."""
        if getattr(self, "swagger_fake_view", False):
            return self.rows().none()
        rows = self.rows()
        if self.person.role in self.all_roles:
            return rows
        own = Membership.objects.filter(user=self.person)
        if self.by_name:
            names = list(own.values_list("business__name", flat=True))
            return rows.filter(**{f"{self.business_field}__in": names})
        return rows.filter(**{f"{self.business_field}__in": own.values("business")})

    def to_change(self, name: str) -> Business:
        """The business of that name, for somebody who may change it: Http404 for an outsider,
        PermissionDenied for one who only looks."""
        return business_to_change(self.person, name, self.all_roles)


def business_to_change(
    person: User, name: str, all_roles: frozenset[User.Role] = OPERATIONS
) -> Business:
    """As ``OfBusiness.to_change``, for views that are none."""
    found = Business.objects.filter(name=name)
    if person.role in all_roles:
        business = found.first()
        if business is None:
            raise Http404
        return business
    membership = (
        Membership.objects.filter(user=person, business__name=name)
        .select_related("business")
        .first()
    )
    if membership is None:
        raise Http404
    if membership.role != Membership.Role.OWNER:
        raise PermissionDenied(_("Only an owner of the business may do this."))
    return membership.business
