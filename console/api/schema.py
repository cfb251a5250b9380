"""How the views describe themselves in OpenAPI."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.serializers import Serializer

from .idempotency import HEADER


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Management tokens, as OpenAPI says it."""

    target_class = "console.api.authentication.TokenAuthentication"
    name = "managementToken"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        """A bearer token."""
        return {"type": "http", "scheme": "bearer", "bearerFormat": "fl_mgmt_..."}


class Schema(AutoSchema):
    """Operations grouped by resource; each write takes an ``Idempotency-Key``."""

    def get_tags(self) -> list[str]:
        """The resource's name."""
        return [getattr(self.view, "resource", "") or "api"]

    def get_description(self) -> str:  # type: ignore[override]
        """The docstring; one backtick is enough for Markdown."""
        return str(super().get_description()).replace("``", "`")

    def get_override_parameters(
        self,
    ) -> list[OpenApiParameter | Serializer[Any] | type[Serializer[Any]]]:
        """The header, beside what the view itself adds."""
        held = list(super().get_override_parameters())
        if self.method in {"POST", "PUT", "PATCH", "DELETE"}:
            held.append(
                OpenApiParameter(
                    HEADER,
                    OpenApiTypes.STR,
                    OpenApiParameter.HEADER,
                    description="Makes a repeated request happen once; kept for 24 hours.",
                )
            )
        return held
