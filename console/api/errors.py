"""What goes wrong, in the one shape that every answer of the API has for it."""

from typing import Any

from django.utils.translation import gettext as _
from rest_framework import exceptions, status
from rest_framework.response import Response
from rest_framework.views import exception_handler

from console.refusals import said, translated
from metering.errors import RefusedError


class ConflictError(exceptions.APIException):
    """Somebody else was there first, or the same key stands for another write."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "conflict"


def answer(error: Exception, context: dict[str, Any]) -> Response | None:
    """``{"error": {"code", "message", "fields"}}``; None for what is our own fault."""
    if isinstance(error, RefusedError):
        body = _body(error.code, said(error))
        if problems := getattr(error, "problems", None):
            body["error"]["fields"] = {name: [translated(t)] for name, t in problems.items()}
        return Response(body, status=error.status)
    response = exception_handler(error, context)
    if response is None:
        return None
    if isinstance(error, exceptions.ValidationError):
        fields = error.detail if isinstance(error.detail, dict) else {"": error.detail}
        response.data = _body("invalid_request", _("Some fields are not as they should be."))
        response.data["error"]["fields"] = {
            name: [str(each) for each in _flat(texts)] for name, texts in fields.items()
        }
    elif isinstance(error, exceptions.APIException):
        codes = error.get_codes()
        response.data = _body(codes if isinstance(codes, str) else "error", str(error.detail))
    else:
        code = "not_found" if response.status_code == 404 else "permission_denied"
        response.data = _body(code, str(response.data["detail"]))
    return response


def _body(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _flat(texts: object) -> list[object]:
    if isinstance(texts, dict):
        return [each for value in texts.values() for each in _flat(value)]
    if isinstance(texts, list | tuple):
        return [each for value in texts for each in _flat(value)]
    return [texts]
