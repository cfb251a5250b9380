"""``credentials/``: tier credentials, by their id."""

from datetime import timedelta
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.models import Grade, Lane, TierCredential
from metering.services.credentials import (
    LONGEST,
    issue_credential,
    narrow_credential,
    revoke_credential,
)

from .base import OfBusiness
from .permissions import OPERATIONS, OWNERS


class CredentialSerializer(serializers.ModelSerializer[TierCredential]):
    """What a credential grants; the token itself is kept nowhere."""

    business = serializers.CharField(source="business.name")
    parent = serializers.UUIDField(source="parent.jti", allow_null=True, default=None)  # type: ignore[assignment]

    class Meta:
        model = TierCredential
        fields: ClassVar = [
            "jti",
            "business",
            "parent",
            "grade",
            "ceiling",
            "svc",
            "models",
            "issued_at",
            "not_before",
            "expires_at",
            "revoked_at",
        ]
        read_only_fields: ClassVar = fields


class MadeCredentialSerializer(CredentialSerializer):
    """A new credential with its token, which is shown this once."""

    token = serializers.CharField(allow_null=True)

    class Meta(CredentialSerializer.Meta):
        fields: ClassVar = [*CredentialSerializer.Meta.fields, "token"]


class TermsSerializer(serializers.Serializer[Any]):
    """What is left out is as in the business, or in the credential that is narrowed."""

    grade = serializers.ChoiceField(choices=Grade.choices, required=False, default="")
    ceiling = serializers.ChoiceField(choices=Lane.choices, required=False, default="")
    svc = serializers.CharField(max_length=80, required=False, default="", allow_blank=True)
    models = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, allow_null=True, default=None
    )
    lifetime_s = serializers.IntegerField(
        min_value=1, max_value=int(LONGEST.total_seconds()), required=False, default=None
    )

    def terms(self) -> dict[str, Any]:
        """As the services take them."""
        given = dict(self.validated_data)
        given.pop("business", None)
        seconds = given.pop("lifetime_s")
        return {**given, "lifetime": None if seconds is None else timedelta(seconds=seconds)}


class NewCredentialSerializer(TermsSerializer):
    """A new one, for a business."""

    business = serializers.CharField()
    lifetime_s = serializers.IntegerField(min_value=1, max_value=int(LONGEST.total_seconds()))


class Credentials(OfBusiness[TierCredential]):
    """Credentials of one's businesses: list, issue, narrow, revoke."""

    resource = "credentials"
    read_roles = OWNERS | OPERATIONS
    write_roles = OWNERS | OPERATIONS
    serializer_class = CredentialSerializer
    lookup_field = "jti"
    lookup_value_regex = "[0-9a-f-]{36}"
    filterset_fields: ClassVar[list[str]] = ["business__name", "grade", "ceiling", "svc"]
    ordering = ("-issued_at", "-pk")

    def rows(self) -> QuerySet[TierCredential]:
        """With business and parent."""
        return TierCredential.objects.select_related("business", "parent")

    @extend_schema(request=NewCredentialSerializer, responses={201: MadeCredentialSerializer})
    def create(self, request: Request) -> Response:
        """Issue a credential; only operations may grant more than the business has."""
        given = NewCredentialSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        row, token = issue_credential(
            self.to_change(given.validated_data["business"]),
            actor=self.person,
            source=self.source,
            operations=self.person.role in OPERATIONS,
            **given.terms(),
        )
        return self._made(row, token)

    @extend_schema(request=TermsSerializer, responses={201: MadeCredentialSerializer})
    @action(detail=True, methods=["post"])
    def narrow(self, request: Request, jti: str) -> Response:
        """Make one that grants a part of this one and ends no later."""
        parent = self._own()
        given = TermsSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        row, token = narrow_credential(
            parent, actor=self.person, source=self.source, **given.terms()
        )
        return self._made(row, token)

    @extend_schema(request=None, responses=CredentialSerializer)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, jti: str) -> Response:
        """Withdraw it and all that was narrowed from it, everywhere within two seconds."""
        row = self._own()
        revoke_credential(row, actor=self.person, source=self.source)
        return Response(CredentialSerializer(row).data)

    def _own(self) -> TierCredential:
        row = self.get_object()
        self.to_change(row.business.name)
        return row

    def _made(self, row: TierCredential, token: str) -> Response:
        body = {**CredentialSerializer(row).data, "token": token}
        return Response(body, status=status.HTTP_201_CREATED)
