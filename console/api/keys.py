"""``keys/``: an owner's API keys."""

from datetime import timedelta
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.models import ApiKey, Lane
from metering.services.keys import create_key, revoke_key, rotate_key

from .base import OfBusiness
from .permissions import NOBODY, OWNERS


class KeySerializer(serializers.ModelSerializer[ApiKey]):
    """A key, without what it is made of."""

    business = serializers.CharField(source="business.name")

    class Meta:
        model = ApiKey
        fields: ClassVar = [
            "id",
            "business",
            "name",
            "prefix",
            "ceiling",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
        ]
        read_only_fields: ClassVar = fields


class NewKeySerializer(serializers.Serializer[Any]):
    """What a new key is to be."""

    business = serializers.CharField()
    name = serializers.CharField(max_length=80)
    ceiling = serializers.ChoiceField(choices=Lane.choices, required=False, default="")
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class RotateKeySerializer(serializers.Serializer[Any]):
    """How long the old key goes on."""

    overlap_s = serializers.IntegerField(min_value=0, max_value=366 * 86_400, default=86_400)


class MadeKeySerializer(KeySerializer):
    """A new key with its secret, which is shown this once."""

    secret = serializers.CharField(allow_null=True)

    class Meta(KeySerializer.Meta):
        fields: ClassVar = [*KeySerializer.Meta.fields, "secret"]


class Keys(OfBusiness[ApiKey]):
    """Keys of one's businesses: list, make, rotate, revoke."""

    resource = "keys"
    read_roles = OWNERS
    write_roles = OWNERS
    all_roles = NOBODY
    serializer_class = KeySerializer
    filterset_fields: ClassVar[list[str]] = ["business__name", "name", "prefix"]

    def rows(self) -> QuerySet[ApiKey]:
        """With the business that each serves."""
        return ApiKey.objects.select_related("business")

    @extend_schema(request=NewKeySerializer, responses={201: MadeKeySerializer})
    def create(self, request: Request) -> Response:
        """Make a key. Its secret is in this answer and nowhere else."""
        given = NewKeySerializer(data=request.data)
        given.is_valid(raise_exception=True)
        asked = given.validated_data
        business = self.to_change(asked["business"])
        row, secret = create_key(
            business,
            asked["name"],
            actor=self.person,
            source=self.source,
            ceiling=asked["ceiling"],
            expires_at=asked["expires_at"],
        )
        return self._made(row, secret)

    @extend_schema(request=RotateKeySerializer, responses={201: MadeKeySerializer})
    @action(detail=True, methods=["post"])
    def rotate(self, request: Request, pk: str) -> Response:
        """Make a successor; the key itself works on for ``overlap_s`` seconds."""
        key = self._own()
        given = RotateKeySerializer(data=request.data)
        given.is_valid(raise_exception=True)
        overlap = timedelta(seconds=given.validated_data["overlap_s"])
        row, secret = rotate_key(key, overlap=overlap, actor=self.person, source=self.source)
        return self._made(row, secret)

    @extend_schema(request=None, responses=KeySerializer)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: str) -> Response:
        """Withdraw the key for good, everywhere within two seconds."""
        key = self._own()
        revoke_key(key, actor=self.person, source=self.source)
        return Response(KeySerializer(key).data)

    def _own(self) -> ApiKey:
        key = self.get_object()
        self.to_change(key.business.name)
        return key

    def _made(self, row: ApiKey, secret: str) -> Response:
        body = {**KeySerializer(row).data, "secret": secret}
        return Response(body, status=status.HTTP_201_CREATED)
