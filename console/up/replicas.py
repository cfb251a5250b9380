"""The model servers that ``make up`` runs itself."""

import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import yaml

from .children import Child
from .errors import UpError
from .options import HOST, Options, free_port

READY_LOG = "logs"


class LocalReplica(msgspec.Struct, frozen=True):
    """What a fleet file says about a replica, as far as running it needs."""

    name: str
    url: str
    engine: str
    slots: int
    models: dict[str, str]


class _File(msgspec.Struct, frozen=True):
    replicas: list[LocalReplica] = []


def fleet_files(options: Options) -> tuple[list[Path], list[Path]]:
    """The fleet files whose replicas this start runs, and those whose it does not."""
    wanted = {"demo-fleet.yaml": options.demo, "demo-llama.yaml": options.llama}
    running = [options.root / "deploy" / name for name, want in wanted.items() if want]
    idle = [options.root / "deploy" / name for name, want in wanted.items() if not want]
    return running, idle


def local_replicas(files: Sequence[Path]) -> list[LocalReplica]:
    """The replicas of ``files``, each moved to a free port where its own is taken."""
    found: list[LocalReplica] = []
    taken: set[int] = set()
    for path in files:
        try:
            document = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), _File)
        except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
            raise UpError(f"{path}: {error}") from None
        for replica in document.replicas:
            port = free_port(urlsplit(replica.url).port or 0, taken)
            taken.add(port)
            found.append(msgspec.structs.replace(replica, url=f"http://{HOST}:{port}"))
    return found


def replica_child(replica: LocalReplica, options: Options) -> Child:
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
        log=options.data_dir / READY_LOG / f"{replica.name}.log",
        grace_s=5.0,
    )
