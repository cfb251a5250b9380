"""A policy as plain dicts, lists and scalars, the form of the file, of JSON and of REST.

In a document percentages are strings with ``%``, ranges and choices are lists, and the
whole sits below the one key ``scheduler``.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from .spec import Kind, Section, Spec, specs
from .tree import Policy

ROOT = "scheduler"
# Integers beyond this are not exact as floats, so they keep the float's own spelling.
EXACT = 2**53


def to_document(policy: Policy) -> dict[str, object]:
    """The whole policy, every field present, in the order of the schema."""
    return {ROOT: _section_out(policy)}


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that two policies set differently, both values as people write them."""

    path: str
    before: str
    after: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.path}: {self.before} -> {self.after}"


def differences(before: Policy, after: Policy) -> list[Difference]:
    """What changes from one policy to the other, in the order of the schema."""
    old, new = (dict(_flat(ROOT, _section_out(policy))) for policy in (before, after))
    return [
        Difference(path, shown(old[path]), shown(value))
        for path, value in new.items()
        if old[path] != value
    ]


def shown(value: object) -> str:
    """A document's value on one line, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _flat(path: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(f"{path}.{key}", item)
    else:
        yield path, value


def _section_out(section: Section) -> dict[str, object]:
    return {name: _value_out(spec, getattr(section, name)) for name, spec in specs(section)}


def _value_out(spec: Spec, value: object) -> object:
    if isinstance(value, Section):
        return _section_out(value)
    if isinstance(value, tuple):
        return [_section_out(item) if isinstance(item, Section) else item for item in value]
    if spec.kind is Kind.SHARE and isinstance(value, int | float):
        return percent(float(value))
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < EXACT else value
    return value


def percent(ratio: float) -> str:
    """A ratio as a percentage that reads back as exactly the same float."""
    text = f"{Decimal(repr(ratio)).scaleb(2):f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"
