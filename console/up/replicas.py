"""The model servers that ``make up`` runs itself."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.fleet_document import ReplicaSpec
from scheduler.fleet_file import FleetError, parse_fleet

from .children import Child
from .errors import UpError
from .options import HOST, Options, free_port

LOGS = "logs"


def fleet_files(options: Options) -> tuple[list[Path], list[Path]]:
    """The fleet files whose replicas this start runs, and those whose it does not."""
    wanted = {"demo-fleet.yaml": options.demo, "demo-llama.yaml": options.llama}
    running = [options.root / "deploy" / name for name, want in wanted.items() if want]
    idle = [options.root / "deploy" / name for name, want in wanted.items() if not want]
    return running, idle


def local_replicas(files: Sequence[Path]) -> list[ReplicaSpec]:
    """The replicas of ``files``, each moved to a free port where its own is taken."""
    found: list[ReplicaSpec] = []
    taken: set[int] = set()
    for path in files:
        try:
            document = parse_fleet(path.read_text(encoding="utf-8"))
        except (OSError, FleetError) as error:
            raise UpError(f"{path}: {error}") from None
        for replica in document.replicas or ():
            port = free_port(urlsplit(replica.url).port or 0, taken)
            taken.add(port)
            found.append(replace(replica, url=f"http://{HOST}:{port}"))
    return found


def replica_child(replica: ReplicaSpec, options: Options) -> Child:
    """The process that is ``replica``: the real engine for llama.cpp, an emulator otherwise."""
    port = str(urlsplit(replica.url).port)
    served = next(iter(replica.models.values()))
    slots = str(replica.slots)
    if replica.engine == "llamacpp":
        arguments = [
            *("scheduler.llama", "--port", port, "--slots", slots, "--alias", served),
            *("--slot-dir", str(options.data_dir / "slots" / replica.name)),
        ]
    else:
        arguments = ["scheduler.emulator", "--port", port, "--slots", slots, "--model", served]
    return Child(
        f"replica {replica.name}",
        [sys.executable, "-m", *arguments],
        log=options.data_dir / LOGS / f"{replica.name}.log",
        grace_s=5.0,
    )
