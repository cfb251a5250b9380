"""Whether a fleet document fits: every name it uses exists, and nothing in use goes. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scheduler.core.policy import NamedPool, Problem
from scheduler.fleet_document import (
    BusinessSpec,
    FleetDocument,
    ModelSpec,
    PoolSpec,
    ReplicaSpec,
)

MOST_NAMES = 20

AnySpec = PoolSpec | ModelSpec | ReplicaSpec | BusinessSpec
Spec = TypeVar("Spec", bound=AnySpec)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The fleet as it would be: which pools and models there are, and which entries stay that
    the document says nothing about."""

    pools: Collection[str]
    models: Collection[str]
    untouched_replicas: Sequence[ReplicaSpec]
    untouched_businesses: Sequence[BusinessSpec]


def broken_references(
    wanted: FleetDocument, held: FleetDocument, *, prune: bool, in_use: Sequence[NamedPool]
) -> list[Problem]:
    """What the document names and the fleet would not have, and what it would drop although
    something else needs it. ``in_use``: the pools that the active policy names."""
    outcome = Outcome(
        pools=_names(wanted.pools, held.pools, prune),
        models=_names(wanted.models, held.models, prune),
        untouched_replicas=_untouched(wanted.replicas, held.replicas, prune),
        untouched_businesses=_untouched(wanted.businesses, held.businesses, prune),
    )
    return [
        *_models(wanted.models or (), outcome),
        *_replicas(wanted.replicas or (), outcome),
        *_businesses(wanted.businesses or (), outcome),
        *_dropped_pools(held.pools or (), outcome, in_use),
        *_dropped_models(held.models or (), outcome),
    ]


def _names(
    wanted: Sequence[AnySpec] | None, held: Sequence[AnySpec] | None, prune: bool
) -> dict[str, None]:
    """The names there will be, in order."""
    named = {spec.name: None for spec in wanted or ()}
    if prune and wanted is not None:
        return named
    return named | {spec.name: None for spec in held or ()}


def _untouched(
    wanted: Sequence[Spec] | None, held: Sequence[Spec] | None, prune: bool
) -> list[Spec]:
    if prune and wanted is not None:
        return []
    named = {spec.name for spec in wanted or ()}
    return [spec for spec in held or () if spec.name not in named]


def _no(what: str, name: str, there: Collection[str]) -> str:
    names = ", ".join(sorted(there)[:MOST_NAMES]) + (", ..." if len(there) > MOST_NAMES else "")
    return f"no {what} {name} in the fleet; there are {names or 'none'}"


def _models(specs: Sequence[ModelSpec], outcome: Outcome) -> Iterator[Problem]:
    for place, spec in enumerate(specs):
        path = f"models[{place}].lighter_of"
        if spec.lighter_of == spec.name:
            yield Problem(path, "must name another model")
        elif spec.lighter_of is not None and spec.lighter_of not in outcome.models:
            yield Problem(path, _no("model", spec.lighter_of, outcome.models))


def _replicas(specs: Sequence[ReplicaSpec], outcome: Outcome) -> Iterator[Problem]:
    for place, spec in enumerate(specs):
        if spec.pool not in outcome.pools:
            yield Problem(f"replicas[{place}].pool", _no("pool", spec.pool, outcome.pools))
        for public in spec.models:
            if public not in outcome.models:
                yield Problem(
                    f"replicas[{place}].models.{public}", _no("model", public, outcome.models)
                )


def _businesses(specs: Sequence[BusinessSpec], outcome: Outcome) -> Iterator[Problem]:
    for place, spec in enumerate(specs):
        for number, name in enumerate(spec.models or ()):
            if name not in outcome.models:
                yield Problem(
                    f"businesses[{place}].models[{number}]", _no("model", name, outcome.models)
                )


def _dropped_pools(
    held: Sequence[PoolSpec], outcome: Outcome, in_use: Sequence[NamedPool]
) -> Iterator[Problem]:
    gone = {spec.name for spec in held} - set(outcome.pools)
    for named in in_use:
        if named.pool in gone:
            yield Problem(
                "pools",
                f"pool {named.pool} cannot go: the active policy names it in {named.path}",
            )
    for spec in outcome.untouched_replicas:
        if spec.pool in gone:
            yield Problem("pools", f"pool {spec.pool} cannot go: replica {spec.name} is in it")


def _dropped_models(held: Sequence[ModelSpec], outcome: Outcome) -> Iterator[Problem]:
    gone = {spec.name for spec in held} - set(outcome.models)
    for replica in outcome.untouched_replicas:
        for name in sorted(gone & set(replica.models)):
            yield Problem("models", f"model {name} cannot go: replica {replica.name} holds it")
    for business in outcome.untouched_businesses:
        for name in sorted(gone & set(business.models or ())):
            yield Problem("models", f"model {name} cannot go: business {business.name} names it")
