"""``quotas/``: limits and envelopes, by business."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.core.quotas import FIELDS
from metering.models import Business, Quota, QuotaRequest
from metering.services.quotas import request_quota, set_quota

from .base import OfBusiness
from .permissions import OPERATIONS, OWNERS


class LimitsSerializer(serializers.ModelSerializer[Quota]):
    """Limits: null is unlimited, 0 blocks; ``gpu_share`` is a ratio from 0 to 1."""

    class Meta:
        model = Quota
        fields: ClassVar = list(FIELDS)


class QuotaSerializer(serializers.ModelSerializer[Business]):
    """A business's limits, and the bounds within which its owner may set them (null: none
    alone)."""

    business = serializers.CharField(source="name")
    limits = serializers.SerializerMethodField()
    envelope = serializers.SerializerMethodField()

    class Meta:
        model = Business
        fields: ClassVar = ["business", "limits", "envelope"]

    @extend_schema_field(LimitsSerializer)
    def get_limits(self, row: Business) -> dict[str, Any]:
        """As they are set."""
        held = next((each for each in row.quotas.all() if each.kind == Quota.Kind.LIMIT), None)
        return _plain(held or Quota())

    @extend_schema_field(LimitsSerializer(allow_null=True))
    def get_envelope(self, row: Business) -> dict[str, Any] | None:
        """As operations granted it."""
        held = next((each for each in row.quotas.all() if each.kind == Quota.Kind.ENVELOPE), None)
        return None if held is None else _plain(held)


def _plain(held: Quota) -> dict[str, Any]:
    """As LimitsSerializer writes it, without its cost for each of many rows; money as text."""
    values = {name: getattr(held, name) for name in FIELDS}
    budget = values["monthly_budget"]
    return {**values, "monthly_budget": None if budget is None else f"{budget:.6f}"}


class WantedSerializer(serializers.Serializer[Any]):
    """Limits beyond the envelope, and why."""

    limits = LimitsSerializer(partial=True)
    reason = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)


class QuotaRequestSerializer(serializers.ModelSerializer[QuotaRequest]):
    """What was asked of operations, and what has become of it."""

    business = serializers.CharField(source="business.name")

    class Meta:
        model = QuotaRequest
        fields: ClassVar = [
            "id",
            "business",
            "wanted",
            "reason",
            "status",
            "answer",
            "asked_at",
            "decided_at",
        ]
        read_only_fields: ClassVar = fields


class Quotas(OfBusiness[Business]):
    """Limits of one's businesses: look, change inside the envelope, ask for more."""

    resource = "quotas"
    read_roles = OWNERS | OPERATIONS
    write_roles = OWNERS | OPERATIONS
    serializer_class = QuotaSerializer
    business_field = "pk"
    lookup_field = "name"
    lookup_url_kwarg = "business"
    lookup_value_regex = "[a-z0-9-]+"
    ordering = ("name",)

    def rows(self) -> QuerySet[Business]:
        """With what is set for each."""
        return Business.objects.prefetch_related("quotas")

    @extend_schema(request=LimitsSerializer(partial=True), responses=QuotaSerializer)
    def partial_update(self, request: Request, business: str) -> Response:
        """Set the limits that are named; the others stay. Beyond the envelope: 400."""
        row = self._own()
        given = LimitsSerializer(data=request.data, partial=True)
        given.is_valid(raise_exception=True)
        set_quota(
            row,
            given.validated_data,
            actor=self.person,
            operations=self.person.role in OPERATIONS,
            source=self.source,
        )
        return Response(QuotaSerializer(self.rows().get(pk=row.pk)).data)

    @extend_schema(request=WantedSerializer, responses={201: QuotaRequestSerializer})
    @action(detail=True, methods=["post"], url_path="request", url_name="request")
    def ask(self, request: Request, business: str) -> Response:
        """Ask operations for limits beyond the envelope; one request at a time."""
        row = self._own()
        given = WantedSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        asked = request_quota(
            row,
            given.validated_data["limits"],
            reason=given.validated_data["reason"],
            actor=self.person,
            source=self.source,
        )
        return Response(QuotaRequestSerializer(asked).data, status=status.HTTP_201_CREATED)

    def _own(self) -> Business:
        return self.to_change(self.get_object().name)
