"""Writes of ``policies/``: a new draft, and its activation."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.core.policy import PolicyError, from_document
from scheduler.models import PolicyVersion
from scheduler.services.policy import PolicyMovedError, activate, save_version

from .base import Guarded
from .errors import ConflictError
from .permissions import OPERATIONS


class NewPolicySerializer(serializers.Serializer[Any]):
    """A draft: the document in the file's form; what is not in it takes its default. ``seen``
    is the newest version that its author knows of: a newer one is a conflict."""

    document = serializers.JSONField()
    reason = serializers.CharField(max_length=500, allow_blank=True, default="")
    base = serializers.IntegerField(min_value=1, required=False, default=None)
    seen = serializers.IntegerField(min_value=0, required=False, default=None)


class ReasonSerializer(serializers.Serializer[Any]):
    """Why, for the audit."""

    reason = serializers.CharField(max_length=500)


class PolicyWrites(Guarded[PolicyVersion]):
    """What operations do with versions."""

    write_roles = OPERATIONS

    @extend_schema(request=NewPolicySerializer, responses={201: OpenApiTypes.OBJECT})
    def create(self, request: Request) -> Response:
        """Keep a document as the next version, not active."""
        given = NewPolicySerializer(data=request.data)
        given.is_valid(raise_exception=True)
        asked = given.validated_data
        try:
            row = save_version(
                from_document(asked["document"]),
                author=self.person,
                reason=asked["reason"],
                source=self.source,
                base=asked["base"],
                seen=asked["seen"],
            )
        except PolicyMovedError as moved:
            raise ConflictError(str(moved)) from moved
        except PolicyError as error:
            raise _refusal(error) from error
        return Response(self.get_serializer(row).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=ReasonSerializer, responses=OpenApiTypes.OBJECT)
    @action(detail=True, methods=["post"])
    def activate(self, request: Request, version: str) -> Response:
        """Make it the active one, everywhere within two seconds. A rollback is this too."""
        given = ReasonSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        try:
            row = activate(
                self.get_object(),
                actor=self.person,
                reason=given.validated_data["reason"],
                source=self.source,
            )
        except PolicyError as error:
            raise _refusal(error) from error
        return Response(self.get_serializer(row).data)


def _refusal(error: PolicyError) -> ValidationError:
    """Each problem below the path of its field."""
    fields: dict[str, list[str]] = {}
    for problem in error.problems:
        fields.setdefault(problem.path or "document", []).append(problem.message)
    return ValidationError(fields)
