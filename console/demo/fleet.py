"""The part of the fleet that runs on this machine: what ``make up`` starts, it also registers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from metering.models import Business
from scheduler.fleet_document import FleetDocument, ReplicaSpec
from scheduler.models import ModelDeployment, Replica
from scheduler.services.fleet import apply_fleet, held_fleet

from .marks import SOURCE, mark, own


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_Entry = TypeVar("_Entry", bound=_Named)


def register_local(
    documents: Sequence[FleetDocument], places: Mapping[str, str], *, businesses: bool
) -> list[str]:
    """Bring the fleet in line with the replicas of ``documents``, which run at ``places`` (URL
    by name). Returns the names of those left out, for they, or models that they serve, are
    somebody's own.

    What an entry says is applied when the fleet has none of that name; after that only a
    replica's address is kept up, so that what people change stays changed. ``businesses``:
    take those of the documents too. Runs in the caller's transaction.
    """
    held = held_fleet()
    known = {replica.name: replica for replica in held.replicas or ()}
    models = _news((document.models for document in documents), held.models)
    new_businesses = _news((d.businesses for d in documents), held.businesses)
    served = own(ModelDeployment) | {model.name for model in models}
    ours = own(Replica)
    wanted, left = [], []
    for entry in (replica for document in documents for replica in document.replicas or ()):
        if entry.name in ours or (entry.name not in known and served.issuperset(entry.models)):
            wanted.append(_moved(known.get(entry.name, entry), places[entry.name]))
        else:
            left.append(entry.name)
    apply_fleet(
        FleetDocument(
            pools=_news((document.pools for document in documents), held.pools),
            models=models,
            replicas=tuple(wanted),
            businesses=new_businesses if businesses else (),
        ),
        prune=False,
        source=SOURCE,
    )
    mark(ModelDeployment, [model.name for model in models])
    mark(Replica, [replica.name for replica in wanted])
    mark(Business, [business.name for business in new_businesses] if businesses else ())
    return left


def _moved(replica: ReplicaSpec, url: str) -> ReplicaSpec:
    """The replica at another address; its card's page moves with it where it was beside it."""
    dcgm, old = replica.dcgm_url, replica.url
    if dcgm is not None and dcgm.startswith(f"{old}/"):
        dcgm = url + dcgm.removeprefix(old)
    return replace(replica, url=url, dcgm_url=dcgm)


def withdraw(names: Collection[str]) -> None:
    """Take replicas of the demo that do not run this time out of the fleet. In the caller's
    transaction."""
    held, gone = held_fleet().replicas or (), own(Replica).intersection(names)
    kept = tuple(replica for replica in held if replica.name not in gone)
    if len(kept) < len(held):
        # Of a pruned document only the parts that it has lose entries.
        apply_fleet(FleetDocument(replicas=kept), prune=True, source=SOURCE)


def _news(
    parts: Iterable[tuple[_Entry, ...] | None], held: tuple[_Entry, ...] | None
) -> tuple[_Entry, ...]:
    """Entries whose names the fleet does not have, each name once."""
    known = {entry.name for entry in held or ()}
    found = {entry.name: entry for part in parts for entry in part or ()}
    return tuple(entry for name, entry in found.items() if name not in known)
