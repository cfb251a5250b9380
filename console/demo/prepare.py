"""What an installation needs before it serves: the demo, once, and its local replicas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from django.db import transaction

from scheduler.fleet_document import FleetDocument
from scheduler.fleet_file import parse_fleet

from .fleet import register_local, withdraw
from .keys import known_keys, working_keys
from .marks import adopt
from .people import known_people, make_people
from .prices import price_demo
from .record import DemoRecord, read_record, write_record


@dataclass(frozen=True, slots=True)
class Plan:
    """``running``: fleet files whose replicas run, at ``places`` (URL by name); ``idle``: files
    whose replicas do not; ``demo_url``: the address of console and gateway, None for no demo."""

    demo_file: Path
    demo_url: str | None
    running: Sequence[Path] = ()
    idle: Sequence[Path] = ()
    places: Mapping[str, str] = field(default_factory=dict)


def prepare(plan: Plan) -> list[str]:
    """Bring the database and ``demo_file`` to the state of ``plan``; safe to repeat. Returns the
    names of replicas that run and are left out of the fleet (see ``register_local``).

    Logins and keys that the file names stay as long as the database knows them.
    """
    documents = [_read(path) for path in plan.running]
    idle = [_read(path) for path in plan.idle]
    with transaction.atomic():
        record = read_record(plan.demo_file)
        every = [*documents, *idle]
        adopt(
            record if record is not None and known_keys(record.keys) else None,
            [entry.name for document in every for entry in document.replicas or ()],
            [entry.name for document in every for entry in document.models or ()],
        )
        withdraw({entry.name for document in idle for entry in document.replicas or ()})
        known = record is not None and known_people(record.logins)
        left = register_local(
            documents, plan.places, businesses=plan.demo_url is not None and not known
        )
        if plan.demo_url is None:
            return left
        names = [entry.name for document in documents for entry in document.businesses or ()]
        if record is None or not known:
            # Gone before the commit and back after it: a crash in between leaves no file that
            # speaks of other people, and the next start makes new passwords.
            plan.demo_file.unlink(missing_ok=True)
            record = DemoRecord("", "", make_people(names), {})
        keys = working_keys(names, record.keys)
        price_demo()
    write_record(plan.demo_file, DemoRecord(plan.demo_url, plan.demo_url, record.logins, keys))
    return left


def _read(path: Path) -> FleetDocument:
    return parse_fleet(path.read_text(encoding="utf-8"))
