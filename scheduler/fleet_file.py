"""The fleet as YAML: read strictly, written so that it reads back the same."""

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Protocol, TypeVar

from scheduler import yaml_text
from scheduler.core.policy import Problem
from scheduler.fleet_document import FleetDocument, QuotaSpec
from scheduler.fleet_reading import read_business, read_model, read_pool, read_replica
from scheduler.plain_data import Node

PARTS = ("pools", "models", "replicas", "businesses")
MOST_BYTES = 8 * 1024 * 1024


class FleetError(ValueError):
    """A fleet that can't be taken, with every problem found in it, at least one."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class Named(Protocol):
    """Any entry of the file."""

    @property
    def name(self) -> str:
        """The entry's name, unique in its part."""


Spec = TypeVar("Spec", bound=Named)


def parse_fleet(text: str) -> FleetDocument:
    """Read a fleet file. What its entries refer to is checked when it is applied.

    Raises FleetError with every problem of form: text that isn't YAML, unknown keys, wrong
    types, values out of bounds, names that stand twice.
    """
    try:
        data = yaml_text.load(text, MOST_BYTES)
    except yaml_text.YamlError as error:
        raise FleetError([Problem(error.path, error.message, error.line)]) from None
    problems: list[Problem] = []
    root = Node({} if data.value is None else data.value, "", problems)
    document = FleetDocument(
        pools=_part(root, "pools", read_pool),
        models=_part(root, "models", read_model),
        replicas=_part(root, "replicas", read_replica),
        businesses=_part(root, "businesses", read_business),
        lines=data.lines,
    )
    root.close()
    if problems:
        raise FleetError(with_lines(problems, document))
    return document


def with_lines(problems: Iterable[Problem], document: FleetDocument) -> list[Problem]:
    """The problems, each with the line of the file that its path stands on."""
    return [Problem(p.path, p.message, document.lines.get(p.path)) for p in problems]


def _part(root: Node, key: str, read: Callable[[Node], Spec]) -> tuple[Spec, ...] | None:
    nodes = root.children(key)
    if nodes is None:
        return None
    found = []
    for node in nodes:
        found.append(read(node))
        node.close()
    first: dict[str, Node] = {}
    for node, spec in zip(nodes, found, strict=True):
        if spec.name and first.setdefault(spec.name, node) is not node:
            node.note("name", f"{first[spec.name].path} has the name {spec.name} already")
    return tuple(found)


def to_plain(document: FleetDocument) -> dict[str, list[dict[str, object]]]:
    """The document as lists, dicts and scalars of the file's form; defaults are left out."""
    parts = {part: getattr(document, part) for part in PARTS}
    return {
        part: [_entry(spec) for spec in specs] for part, specs in parts.items() if specs is not None
    }


def dump_fleet(document: FleetDocument) -> str:
    """The document as YAML; ``parse_fleet`` gives back an equal one."""
    return yaml_text.dump(to_plain(document))


def _entry(spec: object) -> dict[str, object]:
    """The fields that differ from their defaults."""
    assert is_dataclass(spec)
    return {
        field.name: plain_value(field.name, getattr(spec, field.name))
        for field in fields(spec)
        if getattr(spec, field.name) != field.default and getattr(spec, field.name) != {}
    }


def plain_value(name: str, value: object) -> object:
    """What the file holds for the field ``name`` with ``value``."""
    match value:
        case QuotaSpec():
            return _entry(value)
        case tuple():
            return list(value)
        case Decimal():
            return int(value) if value == int(value) else f"{value.normalize():f}"
        case float() if name == "gpu_share":
            return f"{Decimal(str(value)).scaleb(2).normalize():f}%"
        case float() if value.is_integer():
            return int(value)
    return value
