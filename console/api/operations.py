"""``pools/ replicas/ models/ policies/ decisions/ audit/ live/``: the fleet and its record."""

from dataclasses import asdict
from typing import ClassVar

import django_filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from console.live.present import present_frame
from metering.core.facts import LANES
from metering.models import AuditEntry
from scheduler.models import DecisionLog, ModelDeployment, PolicyVersion, Pool, Replica

from .base import Guarded, Listed
from .permissions import EVERYBODY, OPERATIONS
from .policies import PolicyWrites


class PoolSerializer(serializers.ModelSerializer[Pool]):
    """Replicas that share lane rules."""

    class Meta:
        model = Pool
        fields: ClassVar = ["name", "kind", "lanes"]


class Pools(Listed[Pool]):
    """Pools by name."""

    resource = "pools"
    read_roles = OPERATIONS
    serializer_class = PoolSerializer
    queryset = Pool.objects.all()
    lookup_field = "name"
    filterset_fields: ClassVar[list[str]] = ["kind"]
    ordering = ("name",)


class ReplicaSerializer(serializers.ModelSerializer[Replica]):
    """A model server. Where its token lies is not told."""

    pool = serializers.CharField(source="pool.name")

    class Meta:
        model = Replica
        fields: ClassVar = [
            "name",
            "url",
            "engine",
            "pool",
            "slots",
            "gpus",
            "kv_tokens",
            "service_class",
            "least_level",
            "most_level",
            "path",
            "engine_priority",
            "metrics_url",
            "dcgm_url",
            "kv_events_url",
            "draining",
            "models",
            "created_at",
        ]


class Replicas(Listed[Replica]):
    """Replicas by name."""

    resource = "replicas"
    read_roles = OPERATIONS
    serializer_class = ReplicaSerializer
    queryset = Replica.objects.select_related("pool")
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    filterset_fields: ClassVar[list[str]] = ["pool__name", "engine", "draining"]
    ordering = ("name",)


class ModelSerializer(serializers.ModelSerializer[ModelDeployment]):
    """A model under its public name."""

    class Meta:
        model = ModelDeployment
        fields: ClassVar = [
            "name",
            "weight",
            "task",
            "realtime",
            "offline",
            "kind",
            "lighter_of",
            "created_at",
        ]


class Models(Listed[ModelDeployment]):
    """The catalogue; callers know these names anyway."""

    resource = "models"
    read_roles = EVERYBODY
    serializer_class = ModelSerializer
    queryset = ModelDeployment.objects.all()
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    filterset_fields: ClassVar[list[str]] = ["task", "weight", "kind"]
    ordering = ("name",)


class PolicySerializer(serializers.ModelSerializer[PolicyVersion]):
    """One version of the policy."""

    author = serializers.CharField(source="author.username", allow_null=True, default=None)

    class Meta:
        model = PolicyVersion
        fields: ClassVar = [
            "version",
            "active",
            "author",
            "reason",
            "created_at",
            "activated_at",
            "document",
        ]


class Policies(PolicyWrites, Listed[PolicyVersion]):
    """Versions of the policy, the newest first: read, add a draft, activate one."""

    resource = "policies"
    read_roles = OPERATIONS
    serializer_class = PolicySerializer
    queryset = PolicyVersion.objects.select_related("author")
    lookup_field = "version"
    lookup_value_regex = "[0-9]+"
    filterset_fields: ClassVar[list[str]] = ["active"]
    ordering = ("-version",)


class DecisionSerializer(serializers.ModelSerializer[DecisionLog]):
    """One decision about one request."""

    lane = serializers.SerializerMethodField()

    class Meta:
        model = DecisionLog
        fields: ClassVar = [
            "at",
            "kind",
            "request",
            "other",
            "business",
            "model",
            "lane",
            "level",
            "attempt",
            "replica",
            "waited_ms",
            "reason",
            "policy",
            "detail",
        ]

    def get_lane(self, row: DecisionLog) -> str | None:
        """By name."""
        return None if row.lane is None else LANES[row.lane]


class DecisionFilter(django_filters.FilterSet):  # type: ignore[misc]
    """By request and time; by what, within those."""

    since = django_filters.IsoDateTimeFilter("at", "gte")
    until = django_filters.IsoDateTimeFilter("at", "lt")

    class Meta:
        model = DecisionLog
        fields: ClassVar = ["request", "kind", "business"]


class Decisions(Listed[DecisionLog]):
    """What was decided in the last week, the newest first."""

    resource = "decisions"
    read_roles = OPERATIONS
    serializer_class = DecisionSerializer
    filterset_class = DecisionFilter
    queryset = DecisionLog.objects.all()
    ordering = ("-at", "-pk")


class AuditSerializer(serializers.ModelSerializer[AuditEntry]):
    """Who changed what."""

    actor = serializers.CharField(source="actor_name")

    class Meta:
        model = AuditEntry
        fields: ClassVar = ["id", "at", "actor", "source", "action", "business", "target", "data"]


class AuditFilter(django_filters.FilterSet):  # type: ignore[misc]
    """By what, about whom, and time."""

    since = django_filters.IsoDateTimeFilter("at", "gte")
    until = django_filters.IsoDateTimeFilter("at", "lt")

    class Meta:
        model = AuditEntry
        fields: ClassVar = ["action", "business", "target"]


class Audit(Listed[AuditEntry]):
    """The audit trail, the newest first."""

    resource = "audit"
    read_roles = OPERATIONS
    serializer_class = AuditSerializer
    filterset_class = AuditFilter
    queryset = AuditEntry.objects.all()
    ordering = ("-pk",)


class Live(Guarded[Pool]):
    """The present snapshot: what the live page shows."""

    resource = "live"
    read_roles = OPERATIONS
    pagination_class = None
    filter_backends = []
    queryset = Pool.objects.none()

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def list(self, request: Request) -> Response:
        """The frame that the scheduler published last; null before the first."""
        frame = present_frame()
        return Response(None if frame is None else asdict(frame))
