"""A server that a killed run left behind."""

import logging
import signal
from pathlib import Path

import psutil

from .errors import EmbeddedPostgresError

logger = logging.getLogger(__name__)

STOP_GRACE_S = 30.0


def clear_leftover(cluster: Path) -> None:
    """Make room for a new server; the caller holds the installation's lock.

    A server that still runs on this cluster has lost its owner and is stopped. A pid file
    whose process is gone, or is by now something else, is removed: PostgreSQL would take
    a stranger with that number for a server.
    """
    path = cluster / "postmaster.pid"
    try:
        pid = int(path.read_text(encoding="ascii").partition("\n")[0])
    except (FileNotFoundError, NotADirectoryError):
        return
    except ValueError:
        pid = 0
    process = _server(pid, cluster)
    if process is None:
        path.unlink(missing_ok=True)
        return
    logger.info("stopping the database that an earlier run left behind (process %d)", pid)
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_GRACE_S)
    except psutil.TimeoutExpired:
        raise EmbeddedPostgresError(
            f"an earlier database (process {pid}) on {cluster} does not stop"
        ) from None


def _server(pid: int, cluster: Path) -> psutil.Process | None:
    """The process if it is a server on this very cluster."""
    try:
        process = psutil.Process(pid) if pid > 0 else None
        if process is None or process.status() == psutil.STATUS_ZOMBIE:
            return None
        # A server stands in its data folder; nothing else has a reason to.
        here = cluster.samefile(process.cwd())
    except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError):
        return None
    return process if here and process.name().startswith("postgres") else None
