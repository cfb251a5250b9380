"""``usage/`` and ``statements/``: what was used, request by request and day by day."""

from typing import Any, ClassVar

import django_filters
from django.db.models import QuerySet
from rest_framework import serializers

from metering.models import DailyStatement, UsageRecord

from .base import OfBusiness
from .permissions import EVERYBODY, FINANCE, OPERATIONS


class UsageSerializer(serializers.ModelSerializer[UsageRecord]):
    """One request, without anything of its text."""

    class Meta:
        model = UsageRecord
        fields: ClassVar = [
            "id",
            "business",
            "key_prefix",
            "credential",
            "client_request_id",
            "operation",
            "stream",
            "requested_model",
            "served_model",
            "degraded_to",
            "claimed",
            "base_level",
            "level",
            "lane",
            "status",
            "http_status",
            "reason",
            "received_at",
            "dispatched_at",
            "first_byte_at",
            "finished_at",
            "queue_wait_ms",
            "prompt_tokens",
            "cached_tokens",
            "completion_tokens",
            "estimated",
            "gpu_seconds",
            "attempts",
            "preempted",
            "replica",
        ]
        read_only_fields: ClassVar = fields


class UsageFilter(django_filters.FilterSet):  # type: ignore[misc]
    """By business, lane, status, model, key and time."""

    since = django_filters.IsoDateTimeFilter("received_at", "gte")
    until = django_filters.IsoDateTimeFilter("received_at", "lt")

    class Meta:
        model = UsageRecord
        fields: ClassVar = ["business", "lane", "status", "requested_model", "key_prefix"]


class Usage(OfBusiness[UsageRecord]):
    """Requests of one's businesses, the newest first."""

    resource = "usage"
    read_roles = EVERYBODY
    all_roles = OPERATIONS | FINANCE
    by_name = True
    serializer_class = UsageSerializer
    filterset_class = UsageFilter
    lookup_value_regex = "[0-9a-f-]{36}"
    ordering = ("-received_at", "-pk")

    def rows(self) -> QuerySet[UsageRecord, Any]:
        """All of them."""
        return UsageRecord.objects.all()


class StatementSerializer(serializers.ModelSerializer[DailyStatement]):
    """One day, model and lane; money is exact and a text."""

    class Meta:
        model = DailyStatement
        fields: ClassVar = [
            "id",
            "business",
            "day",
            "model",
            "lane",
            "requests",
            "billed_requests",
            "prompt_tokens",
            "cached_tokens",
            "completion_tokens",
            "gpu_seconds",
            "preempted",
            "displaced",
            "charge",
            "credit",
            "surcharge",
            "amount",
            "first_price",
            "last_price",
            "settled_at",
        ]
        read_only_fields: ClassVar = fields


class StatementFilter(django_filters.FilterSet):  # type: ignore[misc]
    """By business, model, lane and day."""

    since = django_filters.DateFilter("day", "gte")
    until = django_filters.DateFilter("day", "lte")

    class Meta:
        model = DailyStatement
        fields: ClassVar = ["business", "day", "model", "lane"]


class Statements(OfBusiness[DailyStatement]):
    """Settled days of one's businesses, the newest first."""

    resource = "statements"
    read_roles = EVERYBODY - OPERATIONS
    all_roles = FINANCE
    by_name = True
    serializer_class = StatementSerializer
    filterset_class = StatementFilter
    ordering = ("-day", "-pk")

    def rows(self) -> QuerySet[DailyStatement, Any]:
        """All of them."""
        return DailyStatement.objects.all()
