"""Reading a policy document: types and units first, then bounds, then combinations."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from typing import TypeVar

from .document import EXACT, ROOT, shown
from .limits import fits
from .problems import PolicyError, Problem
from .removed import REMOVED, translated
from .rules import broken_rules
from .spec import Kind, Section, Spec, specs
from .tree import Policy

PERCENT = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?%")

Built = TypeVar("Built", bound=Section)


def from_document(document: object, lines: Mapping[str, int] | None = None) -> Policy:
    """Read a document; fields that are not in it take their defaults.

    ``lines`` gives the line of each path, to be told with the problems. Raises PolicyError
    with every problem: unknown keys, wrong types or units, values out of bounds, and
    combinations that can't work.
    """
    return _read(document, lines or {}, stored=False)


def from_stored(document: object) -> Policy:
    """Read the document of a version that was valid when it was stored: as ``from_document``, but
    fields that have been removed since are passed over."""
    return _read(translated(document), {}, stored=True)


def _read(document: object, lines: Mapping[str, int], *, stored: bool) -> Policy:
    reader = _Reader(stored=stored)
    policy = reader.root(document)
    bad = {problem.path for problem in reader.problems}
    found = reader.problems + broken_rules(policy, skip=bad)
    if found:
        raise PolicyError(Problem(p.path, p.message, lines.get(p.path)) for p in found)
    return policy


class _FormError(ValueError):
    """The value has another form than the field; the message says which is allowed."""


class _Reader:
    """One pass over a document; what it can't use is noted and left at its default."""

    def __init__(self, *, stored: bool) -> None:
        self.problems: list[Problem] = []
        self._stored = stored

    def root(self, document: object) -> Policy:
        if not isinstance(document, dict):
            self._note("", f"must be a mapping with the key {ROOT}")
            return Policy()
        for key in document:
            if key != ROOT:
                self._note(str(key), f"unknown key; the only one allowed is {ROOT}")
        return self.section(Policy, document.get(ROOT, {}), ROOT)

    def section(self, section: type[Built], value: object, path: str) -> Built:
        """Build a section from a mapping; what is missing or unusable takes its default."""
        make: Callable[..., Built] = section
        known = dict(specs(section))
        values: dict[str, object] = {}
        if not isinstance(value, dict):
            self._note(path, f"must be a mapping; got {shown(value)}")
            value = {}
        for key, item in value.items():
            spec = known.get(key)
            if spec is None:
                self._unknown(path, str(key), item, list(known))
                continue
            try:
                values[key] = self._read(spec, item, f"{path}.{key}")
            except _FormError as error:
                self._note(f"{path}.{key}", str(error))
        for name, spec in known.items():
            if spec.required and name not in value:
                self._note(f"{path}.{name}", f"is missing: must be {spec.allowed()}")
        return make(**values)

    def _read(self, spec: Spec, item: object, path: str) -> object:
        if spec.kind is Kind.SECTION and spec.section is not None:
            return self.section(spec.section, item, path)
        if spec.kind is Kind.ROWS and spec.section is not None:
            if not isinstance(item, list):
                raise _FormError(f"must be {spec.allowed()}; got {shown(item)}")
            rows = [
                self.section(spec.section, row, f"{path}[{index}]")
                for index, row in enumerate(item)
            ]
            value: object = tuple(rows)
        else:
            value = None if item is None and spec.optional else _scalar(spec, item)
        if value is _NOTHING or not fits(spec, value):
            raise _FormError(f"must be {spec.allowed()}; got {shown(item)}")
        return value

    def _unknown(self, path: str, key: str, item: object, known: list[str]) -> None:
        gone = REMOVED.get(f"{path}.{key}")
        if gone is None:
            near = get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f" did you mean {near[0]}?" if near else ""
            self._note(f"{path}.{key}", f"unknown key;{hint} allowed are {', '.join(known)}")
        elif not (self._stored or gone.allows(item)):
            self._note(f"{path}.{key}", f"has been removed, leave it out: {gone.why}")

    def _note(self, path: str, message: str) -> None:
        self.problems.append(Problem(path, message))


_NOTHING = object()


def _scalar(spec: Spec, item: object) -> object:
    """The value as kept in memory, or _NOTHING when it has another type or unit."""
    if isinstance(item, bool):
        return item if spec.kind is Kind.FLAG else _NOTHING
    if isinstance(item, int | float):
        if spec.kind is Kind.NUMBER and abs(item) <= EXACT:
            return float(item)
        return item if spec.kind is Kind.WHOLE and isinstance(item, int) else _NOTHING
    if isinstance(item, str):
        return _word(spec, item)
    if isinstance(item, list) and spec.kind in {Kind.CHOICES, Kind.LEVELS}:
        return tuple(item)
    return _NOTHING


def _word(spec: Spec, item: str) -> object:
    if spec.kind is Kind.SHARE and PERCENT.fullmatch(item):
        # Adding nothing turns a negative zero into zero.
        return float(Decimal(item[:-1]).scaleb(-2)) + 0.0
    if spec.kind is Kind.CHOICE:
        return dict(spec.aliases).get(item, item)
    return item if spec.kind is Kind.TEXT else _NOTHING
