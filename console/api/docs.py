"""The API on one page: written out from its own OpenAPI document, with no script at all."""

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator

METHODS = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter or a field of a body."""

    name: str
    place: str
    kind: str
    required: bool
    about: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one address. ``answers`` have status and name of what comes back."""

    method: str
    path: str
    about: str
    parameters: tuple[Field, ...]
    body: tuple[Field, ...]
    answers: tuple[tuple[str, str], ...]


@require_safe
@login_required
def docs(request: HttpRequest) -> HttpResponse:
    """All operations by resource, then what the answers consist of."""
    groups, shapes = _document()
    context = {
        "groups": groups,
        "shapes": shapes,
        "base": request.build_absolute_uri("/api/v1/"),
    }
    return render(request, "console/api_docs.html", context)


@lru_cache(maxsize=1)
def _document() -> tuple[dict[str, list[Operation]], dict[str, tuple[Field, ...]]]:
    """Made once: it changes only with the program."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    schema = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    shapes = schema.get("components", {}).get("schemas", {})
    groups: dict[str, list[Operation]] = defaultdict(list)
    for path, methods in schema["paths"].items():
        for method in METHODS:
            if method in methods:
                operation = methods[method]
                groups[operation["tags"][0]].append(_operation(method, path, operation, shapes))
    return dict(sorted(groups.items())), {name: _fields(shapes, name) for name in sorted(shapes)}


def _operation(method: str, path: str, found: dict[str, Any], shapes: dict[str, Any]) -> Operation:
    body = found.get("requestBody", {}).get("content", {}).get("application/json", {})
    return Operation(
        method=method.upper(),
        path=path,
        about=found.get("description", "").replace("`", ""),
        parameters=tuple(
            Field(
                each["name"],
                each["in"],
                _kind(each["schema"]),
                each.get("required", False),
                each.get("description", ""),
            )
            for each in found.get("parameters", [])
        ),
        body=_fields(shapes, _reference(body.get("schema", {}))),
        answers=tuple(
            (
                status,
                _kind(answer.get("content", {}).get("application/json", {}).get("schema", {})),
            )
            for status, answer in sorted(found["responses"].items())
        ),
    )


def _fields(shapes: dict[str, Any], name: str) -> tuple[Field, ...]:
    shape = shapes.get(name, {})
    required = set(shape.get("required", []))
    return tuple(
        Field(
            field, "", _kind(kind), field in required, kind.get("description", "").replace("`", "")
        )
        for field, kind in shape.get("properties", {}).items()
    )


def _reference(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _reference(schema)
    for combined in ("allOf", "oneOf", "anyOf"):
        if combined in schema:
            return " | ".join(filter(None, (_kind(each) for each in schema[combined])))
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}))}]"
    if "enum" in schema:
        return " | ".join(str(each) for each in schema["enum"])
    return str(schema.get("format") or schema.get("type") or "")
