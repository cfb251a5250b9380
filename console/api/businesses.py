"""``businesses/``: tenants, by name."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import serializers

from metering.models import Business

from .base import OfBusiness
from .permissions import EVERYBODY, FINANCE, OPERATIONS


class BusinessSerializer(serializers.ModelSerializer[Business]):
    """What is known about a tenant."""

    class Meta:
        model = Business
        fields: ClassVar = [
            "name",
            "tags",
            "grade",
            "ceiling",
            "realtime",
            "offline",
            "billing_sla",
            "degrade",
            "weight",
            "latency_budget_ms",
            "models",
            "suspended_at",
            "created_at",
        ]
        read_only_fields: ClassVar = fields


class Businesses(OfBusiness[Business]):
    """One's own businesses; all of them for operations and finance."""

    resource = "businesses"
    read_roles = EVERYBODY
    all_roles = OPERATIONS | FINANCE
    serializer_class = BusinessSerializer
    business_field = "pk"
    lookup_field = "name"
    lookup_value_regex = "[a-z0-9-]+"
    filterset_fields: ClassVar[list[str]] = ["grade", "ceiling", "offline"]
    ordering = ("name",)

    def rows(self) -> QuerySet[Business, Any]:
        """All of them."""
        return Business.objects.all()
