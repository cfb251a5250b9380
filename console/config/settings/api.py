"""The REST API."""

from django.utils.translation import gettext_lazy as _

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        # First, so that who is unknown gets 401 and hears of tokens.
        "console.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["console.api.permissions.Allowed"],
    "DEFAULT_PAGINATION_CLASS": "console.api.pagination.Pages",
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "console.api.schema.Schema",
    "EXCEPTION_HANDLER": "console.api.errors.answer",
    # Money as text: no reader may make a float of it.
    "COERCE_DECIMAL_TO_STRING": True,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}

SPECTACULAR_SETTINGS = {
    "TITLE": "Fairlane",
    "DESCRIPTION": _("Businesses, keys, limits, usage and bills, for programs."),
    "VERSION": "1",
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "SERVE_PUBLIC": True,
    "SERVE_PERMISSIONS": ["console.api.permissions.SignedIn"],
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "Grade": "metering.models.Grade",
        "Lane": "metering.models.Lane",
        "ServiceClass": "scheduler.models.Replica.ServiceClass",
    },
}
