"""What a fleet document changes about the fleet as it is. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

from scheduler.fleet_document import (
    BusinessSpec,
    FleetDocument,
    ModelSpec,
    PoolSpec,
    ReplicaSpec,
)
from scheduler.fleet_file import plain_value

Spec = TypeVar("Spec", PoolSpec, ModelSpec, ReplicaSpec, BusinessSpec)

ADDED, CHANGED, REMOVED = "added", "changed", "removed"


@dataclass(frozen=True, slots=True)
class Change:
    """One entry that is added, changed or removed; ``before`` and ``after`` have the fields that
    differ, as the file would show them."""

    kind: str
    name: str
    what: str
    before: Mapping[str, object]
    after: Mapping[str, object]

    def __str__(self) -> str:
        """One line for people."""
        line = f"{self.what} {self.kind} {self.name}"
        return f"{line}: {', '.join(self.after)}" if self.what == CHANGED else line


@dataclass(frozen=True, slots=True)
class FleetDiff:
    """Every change, in the order of the file, removals last. Falsy when there is none."""

    changes: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)

    def touches(self, *kinds: str) -> bool:
        """Whether any change is of one of ``kinds``."""
        return any(change.kind in kinds for change in self.changes)


@dataclass(frozen=True, slots=True)
class PartPlan(Generic[Spec]):
    """What to do with one part: entries to write, names to delete, and the same as changes."""

    write: tuple[Spec, ...] = ()
    delete: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What to do with every part."""

    pools: PartPlan[PoolSpec]
    models: PartPlan[ModelSpec]
    replicas: PartPlan[ReplicaSpec]
    businesses: PartPlan[BusinessSpec]

    def diff(self) -> FleetDiff:
        """The changes of all parts."""
        parts = (self.pools, self.models, self.replicas, self.businesses)
        changes = [change for part in parts for change in part.changes]
        return FleetDiff(tuple(sorted(changes, key=lambda change: change.what == REMOVED)))


def plan(held: FleetDocument, wanted: FleetDocument, *, prune: bool) -> FleetPlan:
    """How to get from ``held`` to ``wanted``. ``prune``: what a part that ``wanted`` has doesn't
    name is removed; parts that it doesn't have are left alone."""
    return FleetPlan(
        _part("pool", held.pools, wanted.pools, prune),
        _part("model", held.models, wanted.models, prune),
        _part("replica", held.replicas, wanted.replicas, prune),
        _part("business", held.businesses, wanted.businesses, prune),
    )


def _part(
    kind: str, held: Sequence[Spec] | None, wanted: Sequence[Spec] | None, prune: bool
) -> PartPlan[Spec]:
    if wanted is None:
        return PartPlan()
    before = {spec.name: spec for spec in held or ()}
    names = {spec.name for spec in wanted}
    write = tuple(spec for spec in wanted if before.get(spec.name) != spec)
    delete = tuple(name for name in before if prune and name not in names)
    changes = [_change(kind, before.get(spec.name), spec) for spec in write]
    changes += [Change(kind, name, REMOVED, {}, {}) for name in delete]
    return PartPlan(write, delete, tuple(changes))


def _change(kind: str, before: Spec | None, after: Spec) -> Change:
    if before is None:
        return Change(kind, after.name, ADDED, {}, dict(_shown(after, None)))
    return Change(
        kind, after.name, CHANGED, dict(_shown(before, after)), dict(_shown(after, before))
    )


def _shown(spec: Spec, other: Spec | None) -> Iterator[tuple[str, object]]:
    """The fields of ``spec`` that ``other`` has differently."""
    for field in fields(spec):
        value = getattr(spec, field.name)
        if other is None or getattr(other, field.name) != value:
            yield field.name, plain_value(field.name, value)
